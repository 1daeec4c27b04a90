"""Where figures are measured: the fake agent, and the contestants as they are needed, started once and kept."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeAlias, TypeVar

import uvloop

from bench.contestants import Agents, Contestant, Running, fake_agents, running
from bench.figures import Figure
from bench.installing import Missing
from bench.load import Failed
from bench.table import text_of

__all__ = ["LEFT_OUT", "Measure", "Scale", "Stage", "alone", "on_stage", "options", "run"]

_T = TypeVar("_T")
# Why there are no values of one that was not asked for.
LEFT_OUT = "left out"
# As much as says what it was.
_REASON_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class Scale:
    """How thoroughly."""

    quick: bool = False

    def __call__(self, thorough: int, quick: int) -> int:
        return quick if self.quick else thorough


@dataclass(slots=True)
class Stage:
    agents: Agents
    folder: Path
    _stack: AsyncExitStack
    # Whom to look at; empty: all.
    only: frozenset[str] = frozenset()
    _running: dict[tuple[str, str], Running | str] = field(default_factory=dict)
    _names: count[int] = field(default_factory=lambda: count(1))

    async def get(self, contestant: Contestant) -> Running | str:
        """It, ready to be asked; or why it cannot be."""
        key = contestant.name, contestant.way
        if self.only and contestant.name not in self.only:
            return LEFT_OUT
        if key not in self._running:
            try:
                entered = running(contestant, self.folder, self.agents)
                self._running[key] = await self._stack.enter_async_context(entered)
            except (Missing, Failed) as error:
                self._running[key] = _why(error)
        return self._running[key]

    @asynccontextmanager
    async def fresh(self, contestant: Contestant) -> AsyncIterator[Running | str]:
        """One that nobody has asked anything yet, for a while."""
        if self.only and contestant.name not in self.only:
            yield LEFT_OUT
            return
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        async with AsyncExitStack() as stack:
            try:
                one: Running | str = await stack.enter_async_context(running(contestant, folder, self.agents))
            except (Missing, Failed) as error:
                one = _why(error)
            yield one

    async def all(self, *contestants: Contestant) -> list[Running]:
        """Those that run."""
        got = [await self.get(each) for each in contestants]
        return [one for one in got if not isinstance(one, str)]

    async def tried(self, one: Running, work: Coroutine[object, object, _T]) -> _T | None:
        """What it comes to. A contestant that fails is out, and the others go on."""
        try:
            return await work
        except (Failed, TimeoutError, OSError) as error:
            self._running[one.name, one.way] = _why(error)
            return None

    def note(self, one: Contestant | Running) -> str:
        """Why it is out, if it is."""
        if self.only and one.name not in self.only:
            return LEFT_OUT
        found = self._running.get((one.name, one.way))
        return found if isinstance(found, str) else ""

    def new_words(self) -> str:
        """With which no conversation has begun yet."""
        return f"Conversation number {next(self._names)}."


def _why(error: Exception) -> str:
    """In a cell of a table."""
    return f"not measured: {' '.join((str(error) or type(error).__name__).split())[:_REASON_CHARACTERS].replace('|', '/')}"


Measure: TypeAlias = Callable[[Stage, Scale], Awaitable[Figure]]


@asynccontextmanager
async def on_stage(only: Iterable[str] = ()) -> AsyncIterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as name:
        async with AsyncExitStack() as stack:
            folder = Path(name)
            agents = await stack.enter_async_context(fake_agents(folder))
            yield Stage(agents, folder, stack, frozenset(only))


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repeats: to try, not to quote")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="leave all others out")
    if sys.platform != "linux":
        parser.error("it reads what processes cost from Linux's clocks and /proc")
    return parser


def run(work: Callable[[], Coroutine[object, object, _T]]) -> _T:
    """To its end, or until we are told to end: then everything that was started ends too."""

    async def endable() -> _T:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(endable())


def alone(measure: Measure) -> None:
    """One figure, as a program."""
    parser = options()
    arguments = parser.parse_args()

    async def work() -> Figure:
        async with on_stage(arguments.only) as stage:
            return await measure(stage, Scale(arguments.quick))

    print(text_of(run(work)))
