"""Paths in a prompt, and what goes along with it."""

from pathlib import Path

import pytest

from dragoman.acp.content import ResourceLinkBlock, TextBlock
from dragoman.backends.agent.prompt.replay import blocks_of
from dragoman.frontends.terminal.attachments import Attachments, ModelTakes, attachments
from dragoman.frontends.terminal.mentions import begun_mention, mentions, pictures, written
from dragoman.lm import DataPart, TextPart
from dragoman.permissions.sensitive import Places

_PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
_ENDPOINT = ModelTakes("Gateway", is_agent=False, pictures=True)
_BLIND = ModelTakes("Gateway", is_agent=False, pictures=False)
_AGENT = ModelTakes("Claude", is_agent=True, pictures=True)


@pytest.mark.parametrize(
    ("prompt", "paths"),
    [
        ("explain @src/a.py", ["src/a.py"]),
        ("@a.py and (@b.py), please", ["a.py", "b.py"]),
        ("what about @a.py?", ["a.py"]),
        ('see @"my notes.md" now', ["my notes.md"]),
        (r"see @my\ notes.md now", ["my notes.md"]),
        ("mail me@example.org, or a@b", []),
        ("an @ alone", []),
    ],
)
def test_a_mention_begins_a_word(prompt: str, paths: list[str]) -> None:
    assert [each.plain for each in mentions(prompt)] == paths


@pytest.mark.parametrize(
    ("prompt", "paths"),
    [
        ("what is in shot.png?", ["shot.png"]),
        ("'/tmp/my shot.PNG' is wrong", ["/tmp/my shot.PNG"]),
        (r"/tmp/my\ shot.jpeg", ["/tmp/my shot.jpeg"]),
        ("file:///tmp/my%20shot.webp", ["/tmp/my shot.webp"]),
        ("@shot.png has its own way", []),
        ("the png format", []),
    ],
)
def test_a_path_of_a_picture_is_found_as_terminals_write_it(prompt: str, paths: list[str]) -> None:
    assert [each.plain for each in pictures(prompt)] == paths


def test_what_is_completed_is_written_so_that_it_is_read_again() -> None:
    for path in ("a.py", "my notes.md", 'a "b" c', r"back\slash", "it's"):
        assert [each.path for each in mentions(f"see {written(path)}")] == [path]
    begun = begun_mention(f"see {written('my folder/')}")
    assert begun is not None
    assert begun.path == "my folder/"
    assert begun_mention("see @a.py ") is None
    assert begun_mention("me@a") is None


def _sent(folder: Path, prompt: str, takes: ModelTakes) -> Attachments:
    return attachments(prompt, Places.around([folder]), folder, takes)


def test_an_endpoint_gets_the_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    sent = _sent(tmp_path, "explain @a.py, and @a.py again", _ENDPOINT)
    assert sent.parts == (DataPart("text/plain", b"x = 1\n", name="a.py"),)
    assert sent.sent == ("a.py, 6 bytes",)
    assert sent.parts[0].named_text == "a.py:\n\nx = 1\n"


def test_an_agent_gets_a_link_and_reads_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "my notes.md").write_text("secret plans")
    (tmp_path / "src").mkdir()
    sent = _sent(tmp_path, 'read @"my notes.md" and @src', _AGENT)
    blocks, refused = blocks_of([TextPart("read"), *sent.parts], images=True)
    assert blocks == (
        TextBlock("read"),
        ResourceLinkBlock((tmp_path / "my notes.md").as_uri(), "my notes.md"),
        ResourceLinkBlock((tmp_path / "src").as_uri(), "src/"),
    )
    assert refused == ()
    assert b"secret" not in b"".join(part.data for part in sent.parts)


def test_a_name_that_is_no_file_stays_text_and_is_said(tmp_path: Path) -> None:
    for takes in (_ENDPOINT, _AGENT):
        sent = _sent(tmp_path, "use @dataclass, not nothing.png", takes)
        assert sent.parts == ()
        assert sent.not_sent == ("There is no file dataclass: @dataclass stays text.",)


def test_nothing_secret_foreign_or_huge_is_read_for_an_endpoint(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / ".env").write_text("TOKEN=1")
    (tmp_path / "outside.txt").write_text("not yours")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "big.txt").write_text("x" * 200_000)
    (folder / "data.bin").write_bytes(b"\0" * 9)
    sent = _sent(folder, "@.env @../outside.txt @link.txt @big.txt @data.bin", _ENDPOINT)
    assert sent.parts == ()
    assert len(sent.not_sent) == 5
    assert "may hold secrets" in sent.not_sent[0]
    assert all("path only" in each for each in sent.not_sent)


def test_a_picture_goes_along_where_the_model_takes_pictures(tmp_path: Path) -> None:
    folder, outside = tmp_path / "workspace", tmp_path / "my shot.png"
    folder.mkdir()
    outside.write_bytes(_PNG)
    (folder / "logo.png").write_bytes(_PNG)
    (folder / "fake.png").write_text("no picture")
    prompt = f"compare '{outside}' with @logo.png and logo.png and fake.png"
    sent = _sent(folder, prompt, _ENDPOINT)
    assert [(part.mime_type, part.name) for part in sent.parts] == [
        ("image/png", "logo.png"),
        ("image/png", "my shot.png"),
    ]
    blind = _sent(folder, prompt, _BLIND)
    assert blind.parts == ()
    assert "logo.png goes along as a path only: Gateway takes no pictures" in blind.not_sent
