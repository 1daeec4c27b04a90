"""docs/tutorial.md, done as it says: every line that it shows is seen."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import terminal_screen
from terminal_screen import READY, Terminal

pytestmark = pytest.mark.long

_PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
# Longer than anything here takes on a machine that is busy; only a test that fails reaches it.
_LIMIT = 120.0
# The folder that the page works in.
_FOLDER = "/tmp/notes"
_KEYS = r"y once .* Esc deny$"


def _section(number: int) -> str:
    sections = re.split(r"^## \d+\. .*$", _PAGE, flags=re.MULTILINE)
    return sections[number].partition("\n## ")[0]


def _typed(number: int) -> str:
    """What the reader is told to say."""
    said = re.search(r"^> (.+)$", _section(number), re.MULTILINE)
    assert said is not None
    return said[1]


def _shown(number: int) -> list[str]:
    """The lines of the screens in a section."""
    blocks = re.findall(r"^```text\n(.*?)^```$", _section(number), re.DOTALL | re.MULTILINE)
    return [line.rstrip() for block in blocks for line in block.splitlines() if line.strip()]


def _offered_keys(text: str) -> list[str]:
    """The keys below the question, on however many lines."""
    [keys] = re.findall(r"^  (y once .*?)\n  s, w, a: ", text, re.DOTALL | re.MULTILINE)
    return re.split(r"\s{2,}", keys)


@pytest.fixture
def folder(home: Path) -> Path:
    (home / "work/README.md").write_text("# Notes\n\nBuy bread.\n")
    return home / "work"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_screen, "DEADLINE", _LIMIT)


@pytest.fixture
def chat(folder: Path, home: Path) -> Iterator[Terminal]:
    # Wide, because the folder of a test has a longer name than the page's.
    with Terminal(
        "-m", "dragoman", "chat", cwd=folder, environment={"HOME": str(home)}, columns=200, rows=60
    ) as chat:
        chat.wait_for(READY)
        yield chat


def _expect(chat: Terminal, folder: Path, number: int) -> None:
    for line in _shown(number):
        chat.wait_for(f"^{re.escape(line.replace(_FOLDER, str(folder)))}$")


def test_the_chat_goes_as_the_page_says(chat: Terminal, folder: Path) -> None:
    _expect(chat, folder, 2)
    chat.enter(_typed(3))
    _expect(chat, folder, 3)
    chat.wait_for(READY)

    chat.enter(_typed(4))
    chat.wait_for(_KEYS)
    question, _, answer = _section(4).partition("Press `y`")
    assert "s, w, a: for exactly this request of Demo agent" in question
    chat.wait_for("s, w, a: for exactly this request of Demo agent")
    assert _offered_keys(chat.text) == _offered_keys(question) != []
    chat.type("y")
    for line in re.findall(r"^(?:→|✓|  ok).*$", answer, re.MULTILINE):
        chat.wait_for(f"^{re.escape(line)}$")
    assert (folder / "todo.txt").read_text("utf-8") == "Call Ayşe.\n"
    chat.wait_for(READY)

    chat.enter(_typed(5))
    chat.wait_for(_KEYS)
    chat.type("n")
    chat.wait_for("Why not")
    chat.enter("keep it, please")
    _expect(chat, folder, 5)
    assert (folder / "todo.txt").exists()
    chat.wait_for(READY)

    chat.enter(_typed(6))
    chat.wait_for(_KEYS)
    chat.type("w")
    chat.wait_for("^→ allowed in this workspace from now on: exactly this request of")
    chat.wait_for(r"^  ok: 1 todo.txt")
    chat.wait_for(READY)
    chat.enter(_typed(6))
    chat.wait_for(r"approved for this workspace$")
    chat.wait_for(r"^  ok: 1 todo.txt", times=2)
    chat.wait_for(READY)
    chat.enter("/approvals")
    chat.wait_for(
        r"^  1  exactly this request of Demo agent: run wc -l todo.txt, in .*\s+Demo agent · this workspace · \d{4}-"
    )
    chat.wait_for(READY)
    chat.enter("/quit")
    assert chat.wait_end() == 0


def test_the_page_shows_the_version_there_is(folder: Path, home: Path) -> None:
    with Terminal("-m", "dragoman", "--version", cwd=folder, environment={"HOME": str(home)}) as program:
        assert program.wait_end() == 0
        assert _shown(1) == [program.text]


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_asked_is_not_done() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "chat", "-p", "run `wc -l todo.txt`"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    assert done.returncode == 1
    assert _shown(7) == [line for line in done.stderr.splitlines() if "the user could not be asked" in line]
