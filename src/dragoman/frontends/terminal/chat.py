"""A chat in the terminal: prompts, answers, Ctrl-C and Escape."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from rich.console import RenderableType
from rich.style import Style

from dragoman.clock import Clock
from dragoman.frontends.terminal.attachments import Attachments
from dragoman.frontends.terminal.command_names import is_leaving
from dragoman.frontends.terminal.commands import (
    AgentCommand,
    Commands,
    Compact,
    EditPrompt,
    Export,
    Leave,
    ResetApprovals,
    Resume,
)
from dragoman.frontends.terminal.compacting import how_else
from dragoman.frontends.terminal.exporting import CannotExport, export
from dragoman.frontends.terminal.host import DONE, FAILED, INTERRUPTED, TerminalHost
from dragoman.frontends.terminal.interrupts import Interrupts
from dragoman.frontends.terminal.keys import quiet
from dragoman.frontends.terminal.layout import note, place
from dragoman.frontends.terminal.prompt import PromptInterrupted
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.session import ChatSession
from dragoman.frontends.terminal.suspension import Suspension
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import (
    CancellationError,
    CancellationSource,
    DataPart,
    LanguageModelError,
    until_cancelled,
)
from dragoman.loop.events import EndReason
from dragoman.visible import visible_line

__all__ = ["Chat", "Interaction", "Prompts", "Turns", "live"]

# How often the live lines are drawn: fast enough for a spinner and for text to flow, slow enough to cost nothing.
_FRAME_SECONDS = 0.08
_DIM = Style(dim=True)
_NOTICE = Style(color="yellow")
_ERROR = Style(color="red")


class Prompts(Protocol):
    """A source of prompts: a person, or a script."""

    async def read(self) -> str | None:
        """The next prompt or command; None to leave. `PromptInterrupted` to leave at once."""
        ...


class Turns:
    """Runs prompts, one at a time, under Ctrl-C: once cancels the answer, twice leaves."""

    def __init__(
        self, session: ChatSession, interrupts: Interrupts, suspension: Suspension | None = None
    ) -> None:
        """Without `suspension`, Ctrl-Z does what it does to every program."""
        self._session = session
        self._interrupts = interrupts
        self._suspension = suspension
        self._source: CancellationSource | None = None
        self._leave: Callable[[], object] = lambda: None
        self._is_leaving = False

    async def run(self, prompt: str, host: TerminalHost, *attached: DataPart) -> EndReason:
        self._interrupts.forget()
        source = self._source = CancellationSource()
        host.on_cut = self.end
        try:
            return await self._session.answer(prompt, host, source.token, *attached)
        finally:
            self._source = None

    async def run_alone(self, prompt: str, host: TerminalHost) -> int:
        """One prompt and nothing else. Returns the exit code."""
        try:
            with self.obeying_signals():
                return host.exit_code(await self.run(prompt, host))
        except PromptInterrupted:
            return FAILED if host.is_cut else INTERRUPTED

    async def compact(self) -> RenderableType:
        """Let the model make its context shorter. Returns what to print."""
        self._interrupts.forget()
        source = self._source = CancellationSource()
        try:
            await until_cancelled(self._session.compact(), source.token)
        except CancellationError:
            return note("⊘", "Cancelled. The context is as it was.", _NOTICE)
        except LanguageModelError as problem:
            name = self._session.model.info.name
            said = how_else(name) if problem.kind == "not_found" else problem.sentence
            return note("✗", visible_line(said), _ERROR)
        finally:
            self._source = None
        return note("●", "The context is shorter now. The chat still has everything that was said.")

    async def export(self, wanted: Export) -> RenderableType:
        """Write the chat to a file. Returns what to print."""
        try:
            file = await export(self._session, wanted.wanted, overwrite=wanted.overwrite)
        except CannotExport as problem:
            return note("✗", visible_line(str(problem)), _ERROR)
        return note("●", f"Written to {visible_line(place(file))}")

    def interrupt(self) -> None:
        if self._interrupts.is_paused:
            return
        if self._interrupts.press() or self._source is None:
            self.end()
        else:
            self.stop()

    def stop(self) -> None:
        """Cancel the answer, if there is one."""
        if self._source is not None:
            self._source.cancel()

    def end(self) -> None:
        """Leave the chat, whatever is running."""
        self._is_leaving = True
        self._leave()

    @contextmanager
    def obeying_signals(self) -> Iterator[None]:
        """Handle SIGINT, SIGTERM, SIGHUP and SIGTSTP in this block. Leaving the chat ends only what runs in it."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("a turn runs in a task")
        self._leave = task.cancel
        loop.add_signal_handler(signal.SIGINT, self.interrupt)
        loop.add_signal_handler(signal.SIGTERM, self.end)
        loop.add_signal_handler(signal.SIGHUP, self.end)
        try:
            with nullcontext() if self._suspension is None else self._suspension.on_signal():
                yield
        except asyncio.CancelledError:
            if not self._is_leaving:
                raise
            task.uncancel()
            raise PromptInterrupted from None
        finally:
            self._leave = lambda: None
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)


class Resuming(Protocol):
    """Continues a stored chat, for `/resume`: one whose id begins as `wanted`, or one that the user chooses."""

    async def __call__(self, wanted: str | None) -> None: ...


class Watching(Protocol):
    """Calls `on_escape` when the user presses Escape in the block."""

    def __call__(self, on_escape: Callable[[], None]) -> AbstractContextManager[None]: ...


def _no_keys(on_escape: Callable[[], None]) -> AbstractContextManager[None]:
    del on_escape
    return nullcontext()


async def _nobody_asked(count: int) -> None:
    del count


@dataclass(frozen=True, slots=True)
class Interaction:
    """What only a chat with a person at a terminal has."""

    resume: Resuming | None = None
    watching: Watching = _no_keys
    # What goes along with a prompt.
    attach: Callable[[str], Attachments] = lambda _prompt: Attachments()
    # Begins the next prompt in an editor.
    edit: Callable[[str], None] = lambda _text: None
    # Asks whether to take back so many approvals, and does it.
    reset_approvals: Callable[[int], Awaitable[None]] = _nobody_asked


class Chat:
    def __init__(
        self,
        screen: Screen,
        transcript: Transcript,
        commands: Commands,
        prompts: Prompts,
        turns: Turns,
        host: TerminalHost,
        clock: Clock,
        interaction: Interaction | None = None,
    ) -> None:
        self._screen = screen
        self._transcript = transcript
        self._commands = commands
        self._prompts = prompts
        self._turns = turns
        self._host = host
        self._clock = clock
        self._with_person = interaction or Interaction()

    async def talk(self) -> int:
        """Run a chat until the user leaves. Returns the exit code."""
        try:
            with quiet(), self._turns.obeying_signals():
                while (prompt := await self._prompts.read()) is not None:
                    if prompt.strip():
                        await self._handle(prompt.strip())
        except Leave:
            return DONE
        except PromptInterrupted:
            return INTERRUPTED
        return DONE

    async def _handle(self, prompt: str) -> None:
        if is_leaving(prompt):
            raise Leave
        if prompt.startswith("/"):
            await self._command(prompt)
        else:
            await self._answer(prompt)
        self._screen.print()

    async def _command(self, line: str) -> None:
        try:
            self._screen.print(self._commands.run(line))
        except Resume as wanted:
            if self._with_person.resume is not None:
                await self._with_person.resume(wanted.wanted)
        except EditPrompt as draft:
            self._with_person.edit(draft.text)
        except AgentCommand as sent:
            await self._answer(sent.prompt)
        except Compact:
            self._screen.print(await self._turns.compact())
        except Export as wanted:
            self._screen.print(await self._turns.export(wanted))
        except ResetApprovals as wanted:
            await self._with_person.reset_approvals(wanted.count)

    async def _answer(self, prompt: str) -> None:
        attached = self._with_person.attach(prompt)
        for words in attached.sent:
            self._screen.print(note("+", visible_line(words), _DIM))
        for words in attached.not_sent:
            self._screen.print(note("○", visible_line(words), _NOTICE))
        self._transcript.begin()
        async with live(self._transcript, self._screen, self._clock):
            with self._with_person.watching(self._turns.stop):
                await self._turns.run(prompt, self._host, *attached.parts)


@asynccontextmanager
async def live(transcript: Transcript, screen: Screen, clock: Clock) -> AsyncIterator[None]:
    """Redraw the live lines in this block, and remove them at the end."""

    async def draw() -> None:
        while True:
            transcript.tick()
            await clock.sleep(_FRAME_SECONDS)

    drawing = asyncio.create_task(draw()) if screen.is_live else None
    try:
        yield
    finally:
        if drawing is not None:
            drawing.cancel()
            # Not by awaiting it: its cancellation and our own would look the same.
            await asyncio.wait({drawing})
            if not drawing.cancelled():
                drawing.result()
        screen.show(None)
