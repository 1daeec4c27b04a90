"""Nothing that comes from outside acts on the terminal."""

import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from dragoman.logs import one_line
from dragoman.visible import VisibleText, hides, visible, visible_exactly, visible_line

_BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J\x1b[H", "␛[2J␛[H"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x1b]52;c;c2VjcmV0\x1b\\", "␛]52;c;c2VjcmV0␛\\"),
        ("\x9b31m", "<U+009B>31m"),
        ("\x90q", "<U+0090>q"),
        ("safe\rEVIL", "safe␍EVIL"),
        ("ab\b\bcd", "ab␈␈cd"),
        ("rm \u202egpj.exe", "rm <U+202E>gpj.exe"),
        ("a\u2066b\u2069", "a<U+2066>b<U+2069>"),
        ("line\u2028line", "line<U+2028>line"),
        ("\x00\x7f", "␀␡"),
        ("hi\U000e0041", "hi<U+E0041>"),
        ("half \ud83d", "half \ufffd"),
        ("\ufeffstart", "<U+FEFF>start"),
    ],
)
def test_what_would_act_is_shown(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


@pytest.mark.parametrize(
    "text", ["plain", "tab\there", "two\nlines", "déjà vu", "👩‍🚀", "می‌خواهم", "日本語", ""]
)
def test_what_only_shows_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    "hidden",
    "\u200b\u200c\u200d\u00ad\u034f\u115f\u1160\u3164\uffa0\u2800\u00a0\u3000\ufe0f\U000e0100\u180e\u2061\u202e\ufeff"
    "\u2003\u17b4\u206a\U000e0041\U0001d173",
)
def test_what_is_decided_about_hides_nothing(hidden: str) -> None:
    assert visible_exactly(f"rm{hidden}x") == f"rm<U+{ord(hidden):04X}>x"
    assert visible_line(f"rm {hidden} x") == f"rm <U+{ord(hidden):04X}> x"
    assert one_line(hidden) == hidden.encode("unicode_escape").decode()


@pytest.mark.parametrize(
    "text", ["👩‍🚀", "⚠️ wait", "👍🏽", "🧑🏽‍⚕️", "1️⃣", "🏳️‍🌈", "two\n\tlines", "日本語", "déjà"]
)
def test_an_emoji_keeps_what_belongs_to_it(text: str) -> None:
    assert visible_exactly(text) == text


def test_a_joiner_that_joins_no_emoji_is_shown() -> None:
    assert visible_exactly("👩\u200dx") == "👩<U+200D>x"
    assert visible_exactly("👩\ufe0f\ufe0f") == "👩\ufe0f<U+FE0F>"
    assert visible_exactly("half \ud83d\x1b") == "half <U+D83D>␛"


@given(st.text())
def test_whatever_differs_looks_different(text: str) -> None:
    drawn = visible_exactly(text)
    bare = re.sub("[\ufe0e\ufe0f\u200d]", "", drawn)
    assert not [c for c in bare if hides(c) and c not in "\n\t" and not "\U0001f000" <= c <= "\U0001faff"]


def test_windows_line_ends_are_line_ends() -> None:
    assert visible("one\r\ntwo\r\n") == "one\ntwo\n"
    assert visible_line("one\r\ntwo\r\n") == "one two"


def test_what_is_decided_about_tells_them_from_others() -> None:
    assert visible_exactly("one\r\ntwo\n") == "one␍\ntwo\n"


def test_a_line_stays_one_line() -> None:
    assert visible_line("Read\n\n? Allow everything\x1b[A") == "Read ? Allow everything␛[A"


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    for character in visible(text):
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in _BIDI


@given(st.lists(st.text(st.sampled_from("ab\r\n\x1b"))))
def test_pieces_give_the_same_as_the_whole(pieces: list[str]) -> None:
    text = VisibleText()
    assert "".join(map(text.feed, pieces)) + text.end() == visible("".join(pieces))
