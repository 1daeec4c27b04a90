"""The demo in the terminal: the demo agent, a phrasebook to work on, and a tour to watch.

The agent is a process of its own, and everything it says and does comes through the bridge, as with any other agent. The
phrasebook is copied to a temporary folder and removed again; the agent's sessions and all approvals are stored beside it.
The demo does not touch the user's files or approvals.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.clock import Clock, SystemClock
from dragoman.config import BUILTIN_MODELS, DEMO, AcpModel, Config
from dragoman.demo.dictionary import dictionary
from dragoman.demo.pace import DEFAULT_PACE, PACES
from dragoman.demo.tour import SCENES, Tourist, TourScene
from dragoman.frontends.terminal.chat import Chat, Turns
from dragoman.frontends.terminal.commands import Commands
from dragoman.frontends.terminal.confirm import Asker
from dragoman.frontends.terminal.entry import ChatOptions, interactive
from dragoman.frontends.terminal.host import FAILED, TerminalHost, Watcher
from dragoman.frontends.terminal.interrupts import Interrupts
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.session import ChatSession
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.interruptible import run_interruptible
from dragoman.loop.events import Ended, RunEvent
from dragoman.tools.builtin import builtin_tools
from dragoman.tools.decision import Confirmer

__all__ = ["play_tour", "run_demo"]

_PHRASEBOOK = Path(__file__).parent / "phrasebook"
# On a terminal the tour moves at a pace that can be followed; a file gets it at once.
_PACE_ON_SCREEN = "fast"
_PACE_TO_FILE = "instant"

_SUGGESTIONS = (
    "What is in this folder?",
    "Which translations are missing?",
    "Fill them in, and run the check.",
    "Tell me a long story.  (Ctrl-C stops it)",
)


def run_demo(options: ChatOptions) -> int:
    """A chat with the demo; without a terminal to type at, its tour. Returns an exit code."""
    return run_interruptible(lambda: _run(options, SystemClock()))


async def _run(options: ChatOptions, clock: Clock) -> int:
    if not sys.stdin.isatty():
        screen = Screen(Console(file=sys.stdout))
        return await play_tour(screen, clock, pace=_PACE_ON_SCREEN if screen.is_live else _PACE_TO_FILE)
    async with _session(options.config, clock, DEFAULT_PACE) as session:
        return await interactive(session, None, clock, _greeting())


async def play_tour(
    screen: Screen,
    clock: Clock,
    *,
    pace: str,
    scenes: tuple[TourScene, ...] = SCENES,
    config: Config | None = None,
    state_dir: Path | None = None,
) -> int:
    """The tour on `screen`. Returns an exit code. `state_dir` stores what is recorded; without it, nothing stays."""
    async with _session(config or Config(), clock, pace, state_dir) as session:
        transcript = Transcript(screen, clock, model=lambda: session.model.info.name)
        turns = Turns(session, Interrupts(clock))
        tourist = Tourist(screen, clock, scenes=scenes, speed=PACES[pace].speed)
        asker = Asker(
            screen, transcript, tourist, clock, read_reason=tourist.read_reason, interrupt=turns.interrupt
        )
        commands = Commands(session, toggle_thinking=transcript.toggle_thinking)
        host = _Witness(transcript, asker, leave=turns.end)
        status = await Chat(screen, transcript, commands, tourist, turns, host, clock).talk()
        return FAILED if host.saw_failure else status


class _Witness(TerminalHost):
    """Remembers failures for the exit code of the tour, and ends the tour when the user stops an answer."""

    def __init__(self, watcher: Watcher, confirmer: Confirmer, *, leave: Callable[[], object]) -> None:
        super().__init__(watcher, confirmer)
        self._leave = leave
        self.saw_failure = False

    def on_event(self, event: RunEvent) -> None:
        super().on_event(event)
        match event:
            case Ended(reason="cancelled"):
                self._leave()
            case Ended(reason="completed"):
                pass
            case Ended():
                self.saw_failure = True


@asynccontextmanager
async def _session(
    config: Config, clock: Clock, pace: str, state_dir: Path | None = None
) -> AsyncIterator[ChatSession]:
    with (
        _folder() as folder,
        ChatSession(
            _with_demo(config, folder / "sessions", pace),
            DEMO,
            state_dir=state_dir or folder / "state",
            workspace=(folder / _PHRASEBOOK.name,),
            tools=(*builtin_tools(), dictionary(clock, speed=PACES[pace].speed)),
            clock=clock,
        ) as session,
    ):
        try:
            yield session
        finally:
            await session.close()


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder with a phrasebook to work on, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="dragoman-demo-") as name:
        folder = Path(name).resolve()
        shutil.copytree(_PHRASEBOOK, folder / _PHRASEBOOK.name)
        yield folder


def _with_demo(config: Config, sessions: Path, pace: str) -> Config:
    """The built-in model, whatever the configuration calls by its name, with nothing stored outside of this folder."""
    demo = BUILTIN_MODELS[DEMO]
    if not isinstance(demo, AcpModel) or demo.command is None:
        raise AssertionError("the demo is an agent")
    command = (*demo.command, "--sessions", str(sessions), "--pace", pace)
    models = config.models | {DEMO: msgspec.structs.replace(demo, command=command)}
    return msgspec.structs.replace(config, models=models)


def _greeting() -> RenderableType:
    text = Text.assemble(
        ("dragoman", Style(bold=True)),
        (" · demo\n", Style(color="cyan")),
        (
            "A real agent that follows a script, and a phrasebook to work on. Type a number, or the words:\n",
            Style(dim=True),
        ),
    )
    for number, suggestion in enumerate(_SUGGESTIONS, start=1):
        text.append(f"\n  {number}", Style(color="cyan", bold=True)).append(f"  {suggestion}")
    return text.append(
        "\n\nCtrl-D leaves. Without a terminal (dragoman demo < /dev/null) this is a tour.\n", Style(dim=True)
    )
