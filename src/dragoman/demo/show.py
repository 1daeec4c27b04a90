"""The demo in the terminal: a scripted model, a phrasebook to work on, and a tour for those who only want to watch.

The phrasebook is copied to a temporary folder and removed again; approvals are kept beside it. Nothing of the demo
touches the files or the approvals of whoever tries it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.backends.scripted import ScriptedModel
from dragoman.clock import Clock
from dragoman.config import Config
from dragoman.demo.dictionary import dictionary
from dragoman.demo.tour import SCENES, Scene, Tourist
from dragoman.frontends.terminal.chat import Chat, Turns
from dragoman.frontends.terminal.commands import Commands
from dragoman.frontends.terminal.confirm import Asker
from dragoman.frontends.terminal.entry import ChatOptions, interactive
from dragoman.frontends.terminal.host import Host
from dragoman.frontends.terminal.interrupts import Interrupts
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.session import Session
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import GuardedModel
from dragoman.tools.builtin import builtin_tools

__all__ = ["play_tour", "run_demo"]

_HERE = Path(__file__).parent
_SCRIPT = _HERE / "tour.jsonl"
_PHRASEBOOK = _HERE / "phrasebook"
# Whoever watches the tour wants to see it move, but not to wait; a file does not watch.
_SPEED_ON_SCREEN = 4.0
_SPEED_TO_FILE = 12.0

_SUGGESTIONS = (
    "What is in this folder?",
    "Which translations are missing?",
    "Fill them in, and run the check.",
    "Tell me a long story.  (Ctrl-C stops it)",
)


async def run_demo(options: ChatOptions, clock: Clock) -> int:
    """A chat with the demo; without a terminal to type at, its tour."""
    if not sys.stdin.isatty():
        screen = Screen(Console(file=sys.stdout))
        return await play_tour(screen, clock, speed=_SPEED_ON_SCREEN if screen.is_live else _SPEED_TO_FILE)
    with _session(options.config, clock, speed=1.0) as session:
        return await interactive(session, None, clock, _greeting())


async def play_tour(
    screen: Screen,
    clock: Clock,
    *,
    speed: float,
    scenes: tuple[Scene, ...] = SCENES,
    config: Config | None = None,
) -> int:
    """The tour on `screen`. Returns an exit code."""
    with _session(config or Config(), clock, speed=speed) as session:
        transcript = Transcript(screen, clock, model=lambda: session.model.info.name)
        turns = Turns(session, Interrupts(clock))
        tourist = Tourist(screen, clock, scenes=scenes, speed=speed)
        asker = Asker(
            screen, transcript, tourist, clock, read_reason=tourist.read_reason, interrupt=turns.interrupt
        )
        commands = Commands(session, toggle_thinking=transcript.toggle_thinking)
        chat = Chat(screen, transcript, commands, tourist, turns, Host(transcript, asker), clock)
        return await chat.talk()


@contextmanager
def _session(config: Config, clock: Clock, *, speed: float) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(prefix="dragoman-demo-") as folder:
        workspace = Path(folder).resolve() / "phrasebook"
        shutil.copytree(_PHRASEBOOK, workspace)
        model = GuardedModel(ScriptedModel.from_file(_SCRIPT, id="demo", speed=speed))
        with Session(
            config,
            "demo",
            state_dir=workspace.parent / "state",
            workspace=(workspace,),
            tools=(*builtin_tools(), dictionary(clock, speed=speed)),
            clock=clock,
            build_model=lambda _config, _name: model,
        ) as session:
            yield session


def _greeting() -> RenderableType:
    text = Text.assemble(
        ("dragoman", Style(bold=True)),
        (" · demo\n", Style(color="cyan")),
        (
            "A scripted model with a phrasebook to work on, in a folder of its own. Type a number, or the words:\n",
            Style(dim=True),
        ),
    )
    for number, suggestion in enumerate(_SUGGESTIONS, start=1):
        text.append(f"\n  {number}", Style(color="cyan", bold=True)).append(f"  {suggestion}")
    return text.append(
        "\n\nCtrl-D leaves. Without a terminal (dragoman demo < /dev/null) this is a tour.\n", Style(dim=True)
    )
