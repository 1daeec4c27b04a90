"""The demo: a chat that anybody can try, and a tour for those who only watch."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from devtools.picture import draw
from rich.console import Console

from dragoman.clock import SystemClock
from dragoman.demo.show import play_tour
from dragoman.demo.tour import SCENES
from dragoman.frontends.terminal.screen import Screen
from terminal_screen import DEADLINE, READY, Folder

_TOUR = """
import asyncio, sys
from rich.console import Console
from dragoman.clock import SystemClock
from dragoman.demo.show import play_tour
from dragoman.frontends.terminal.screen import Screen
sys.exit(asyncio.run(play_tour(Screen(Console(file=sys.stdout)), SystemClock(), pace="instant")))
"""


@pytest.mark.long
def test_the_tour_without_a_terminal(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "dragoman", "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        timeout=DEADLINE,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    text = result.stdout
    assert "\x1b" not in text
    in_order = [
        "1 · Thinking",
        "❯ What is in this folder?",
        "✻ thought",
        "✓ Listing",
        "• greetings.txt and market.txt hold the phrases",
        "❯ Which translations are missing?",
        "I read both lists.",
        "✓ Reading ",
        "✓ Reading ",
        "✓ Looking up “",
        "✓ Looking up “",
        "too expensive   market.txt      çok pahalı",
        "❯ Fill them in, and run the check.",
        "? Demo agent wants to change files: Write greetings.txt",
        "+thank you    = teşekkürler",
        "s, w, a: for exactly this request of Demo agent",
        "Why not?",
        "⊘ Demo agent wants to change files: Write greetings.txt · denied",
        "You would rather have it otherwise: Too familiar for a stranger: teşekkür",
        "+thank you    = teşekkür ederim",
        "→ allowed once",
        "✓ Write greetings.txt",
        "? Demo agent wants to run a command",
        "→ allowed for this session: exactly this request of",
        "✗ sh check.sh",
        "? Demo agent wants to change files: Write market.txt",
        "→ allowed once",
        "✓ Demo agent may run: sh check.sh · approved for this session",
        "✓ sh check.sh",
        "Done: every phrase has its translation.",
    ]
    position = 0
    for line in in_order:
        position = text.find(line, position)
        assert position >= 0, f"{line!r} is missing, or not in its place, in:\n{text}"
        position += len(line)
    assert text.count("? Demo agent wants to run a command") == 1
    assert "dragoman-agent-action" not in text
    assert list(tmp_path.iterdir()) == [], "the demo leaves nothing behind"


async def test_the_tour_looks_the_same_on_a_screen_that_does_not_move(tmp_path: Path) -> None:
    with (tmp_path / "tour").open("w", encoding="utf-8") as file:
        screen = Screen(Console(file=file, width=60), live=False)
        assert await play_tour(screen, SystemClock(), pace="instant", scenes=SCENES[:1]) == 0
    assert (
        (tmp_path / "tour").read_text("utf-8").endswith("  • check.sh finds those without a translation.\n\n")
    )


@pytest.mark.long
def test_the_tour_on_a_screen(folder: Folder) -> None:
    terminal = folder.terminal("-c", _TOUR, rows=24)
    assert terminal.wait_end() == 0
    assert terminal.text.count("❯ What is in this folder?") == 1
    assert terminal.text.count("Why not? (Enter for no reason) Too familiar for a stranger") == 1
    assert "Esc deny" not in terminal.text
    assert "  Done: every phrase has its translation." in terminal.text


@pytest.mark.long
def test_stopping_the_tour_ends_it(folder: Folder) -> None:
    terminal = folder.terminal("-c", _TOUR.replace("instant", "natural"), rows=24)
    terminal.wait_for("What is in this folder")
    terminal.wait_for("Demo agent · |thinking")
    terminal.type("\x03")
    assert terminal.wait_end() == 130
    assert "2 · " not in terminal.text
    assert terminal.modes == terminal.modes_before


@pytest.mark.long
def test_a_chat_with_the_demo(folder: Folder) -> None:
    terminal = folder.terminal("-m", "dragoman", "demo")
    terminal.wait_for("3  Fill them in, and run the check.")
    terminal.wait_for(READY)
    terminal.enter("1")
    terminal.wait_for("check.sh finds those without a translation")
    terminal.enter("hello")
    terminal.wait_for("Or try two permissions")
    terminal.wait_for(READY)
    terminal.type("\x04")
    assert terminal.wait_end() == 0
    assert not (folder.path / ".local").exists(), "the demo keeps nothing"


@pytest.mark.long
def test_p13_what_was_allowed_before_a_denial_is_told_and_done_with_the_next_prompt(folder: Folder) -> None:
    chat = folder.chat("demo")
    chat.enter("two permissions")
    chat.wait_for("Esc deny")
    chat.type("y")
    chat.wait_for("^[?] Demo agent wants to run a command")
    chat.wait_for("Esc deny")
    chat.type("\x1b")
    chat.wait_for("/new takes it back")
    assert "Allowed, and not done yet: Demo agent may change files: Write demo-agent.txt." in " ".join(
        chat.text.split()
    )
    assert not (folder.path / "demo-agent.txt").exists()
    chat.enter("hello")
    chat.wait_for("✓ Write demo-agent.txt")
    assert (folder.path / "demo-agent.txt").exists()


@pytest.mark.long
def test_what_was_allowed_before_a_denial_is_dropped_with_its_conversation(folder: Folder) -> None:
    chat = folder.chat("demo")
    chat.enter("two permissions")
    chat.wait_for("Esc deny")
    chat.type("y")
    chat.wait_for("^[?] Demo agent wants to run a command")
    chat.wait_for("Esc deny")
    chat.type("\x1b")
    chat.wait_for("/new takes it back")
    chat.enter("/new")
    chat.wait_for("A new conversation.")
    chat.enter("hello")
    chat.wait_for("I am the demo agent")
    chat.wait_for(READY)
    chat.type("\x04")
    assert chat.wait_end() == 0
    assert not (folder.path / "demo-agent.txt").exists()


@pytest.mark.long
def test_the_demo_in_a_folder_of_ones_own_says_what_it_can_do(folder: Folder) -> None:
    result = folder.run("demo", "-p", "Fill them in")
    assert result.returncode == 0, result.stderr
    assert "two permissions" in result.stdout


@pytest.mark.long
async def test_a_tour_whose_agent_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with (tmp_path / "tour").open("w", encoding="utf-8") as file:
        screen = Screen(Console(file=file, width=60), live=False)
        assert await play_tour(screen, SystemClock(), pace="instant", scenes=SCENES[:1]) == 1
    assert "✗ Demo agent" in (tmp_path / "tour").read_text("utf-8")


async def test_the_picture_shows_the_tour_and_loads_nothing() -> None:
    svg = await draw(pace="instant")
    root = ET.fromstring(svg)  # noqa: S314 - our own
    text = "\n".join("".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text"))
    text = text.replace("\xa0", " ")
    assert "Which translations are missing?" in text
    assert "deny, with a reason" in text
    assert "Too familiar for a stranger: teşekkür ederim." in text
    assert svg.count("http") == 1, "the namespace, and no other address"
