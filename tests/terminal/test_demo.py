"""The demo: a chat that anybody can try, and a tour for those who only watch."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console

from dragoman.clock import SystemClock
from dragoman.demo.picture import draw
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
sys.exit(asyncio.run(play_tour(Screen(Console(file=sys.stdout)), SystemClock(), speed=20)))
"""


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
        "✓ Reading greetings.txt",
        "✓ Reading market.txt",
        "✓ Looking up “thank you”",
        "✓ Looking up “too expensive”",
        "too expensive   market.txt      çok pahalı",
        "❯ Fill them in, and run the check.",
        "? Change greetings.txt?",
        "+thank you    = teşekkürler",
        "Why not?",
        "⊘ Change greetings.txt · denied · Too familiar",
        "+thank you    = teşekkür ederim",
        "→ allowed once",
        "? Run this command?",
        "→ allowed for this session",
        "✗ Running sh check.sh · failed",
        "? Change market.txt?",
        "→ allowed once",
        "✓ Running sh check.sh",
        "approved for this session",
        "Done: every phrase has its translation.",
    ]
    position = 0
    for line in in_order:
        position = text.find(line, position)
        assert position >= 0, f"{line!r} is missing, or not in its place, in:\n{text}"
    assert text.count("? Run this command?") == 1
    assert list(tmp_path.iterdir()) == [], "the demo leaves nothing behind"


async def test_the_tour_looks_the_same_on_a_screen_that_does_not_move(tmp_path: Path) -> None:
    with (tmp_path / "tour").open("w", encoding="utf-8") as file:
        screen = Screen(Console(file=file, width=60), live=False)
        assert await play_tour(screen, SystemClock(), speed=1000, scenes=SCENES[:1]) == 0
    assert (
        (tmp_path / "tour").read_text("utf-8").endswith("  • check.sh finds those without a translation.\n\n")
    )


def test_the_tour_on_a_screen(folder: Folder) -> None:
    terminal = folder.terminal("-c", _TOUR, rows=24)
    assert terminal.wait_end() == 0
    assert terminal.text.count("❯ What is in this folder?") == 1
    assert terminal.text.count("Why not? (Enter for no reason) Too familiar for a stranger") == 1
    assert "Esc deny" not in terminal.text
    assert "  Done: every phrase has its translation." in terminal.text


def test_a_chat_with_the_demo(folder: Folder) -> None:
    terminal = folder.terminal("-m", "dragoman", "demo")
    terminal.wait_for("3  Fill them in, and run the check.")
    terminal.wait_for(READY)
    terminal.enter("1")
    terminal.wait_for("check.sh finds those without a translation")
    terminal.enter("hello")
    terminal.wait_for("I am a script")
    terminal.wait_for(READY)
    terminal.type("\x04")
    assert terminal.wait_end() == 0
    assert not (folder.path / ".local").exists(), "the demo keeps nothing"


def test_the_demo_in_a_folder_of_ones_own_says_where_the_phrasebook_is(folder: Folder) -> None:
    result = folder.run("demo", "-p", "Fill them in")
    assert result.returncode == 0
    assert "`dragoman demo`" in result.stdout


async def test_the_picture_shows_the_tour_and_loads_nothing() -> None:
    svg = await draw(speed=50)
    root = ET.fromstring(svg)  # noqa: S314 - our own
    text = "\n".join("".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text"))
    text = text.replace("\xa0", " ")
    assert "Which translations are missing?" in text
    assert "deny, with a reason" in text
    assert "Too familiar for a stranger: teşekkür ederim." in text
    assert svg.count("http") == 1, "the namespace, and no other address"
