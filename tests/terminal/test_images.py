"""Pictures are sent only where they can be shown."""

import base64
import re

import pytest

from dragoman.frontends.terminal.images import Protocol, picture, protocol_of
from dragoman.lm import DataPart

_PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + (320).to_bytes(4) + (200).to_bytes(4)


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "ghostty", "TERM": "xterm-256color"}, "kitty"),
        ({"KONSOLE_VERSION": "230800"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ({"TERM_PROGRAM": "WezTerm"}, "iterm2"),
        ({"TERM_PROGRAM": "Apple_Terminal", "TERM": "xterm-256color"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, None),
    ],
)
def test_the_environment_tells_what_a_terminal_can_show(
    environment: dict[str, str], protocol: Protocol | None
) -> None:
    assert protocol_of(environment) == protocol


def test_kitty_gets_a_png_in_pieces_and_is_told_not_to_answer() -> None:
    data = _PNG + bytes(10_000)
    sequence = picture(DataPart("image/png", data), "kitty", width=80)
    assert sequence is not None
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", sequence)
    assert "".join(f"\x1b_G{control};{text}\x1b\\" for control, text in pieces) == sequence
    assert pieces[0][0] == "a=T,f=100,q=2,c=40,m=1"
    assert [control for control, _ in pieces[1:]] == ["m=1"] * (len(pieces) - 2) + ["m=0"]
    assert all(len(text) <= 4096 for _, text in pieces)
    assert base64.b64decode("".join(text for _, text in pieces)) == data


def test_iterm2_gets_the_file() -> None:
    sequence = picture(DataPart("image/png", _PNG), "iterm2", width=80)
    assert sequence is not None
    head, _, text = sequence.removesuffix("\x07").partition(":")
    assert head == f"\x1b]1337;File=inline=1;size={len(_PNG)};width=40;preserveAspectRatio=1"
    assert base64.b64decode(text) == _PNG


def test_a_picture_is_no_wider_than_the_terminal() -> None:
    sequence = picture(DataPart("image/png", _PNG), "kitty", width=20)
    assert sequence is not None
    assert ",c=18," in sequence


@pytest.mark.parametrize(
    ("part", "protocol"),
    [
        (DataPart("image/jpeg", b"\xff\xd8\xff"), "kitty"),
        (DataPart("image/png", b"no picture at all"), "kitty"),
        (DataPart("image/svg+xml", b"<svg/>"), "iterm2"),
        (DataPart("application/pdf", _PNG), "kitty"),
        (DataPart("image/png", _PNG + bytes(5 * 1024 * 1024)), "kitty"),
        (DataPart("image/png", b""), "iterm2"),
    ],
)
def test_what_cannot_be_shown_is_not_sent(part: DataPart, protocol: Protocol) -> None:
    assert picture(part, protocol, width=80) is None
