"""Approval questions in the terminal.

The question is printed for good: a title, and a message whose code is highlighted. Below it stand the keys, as the
live line. What was typed before the question appeared does not answer it, nor does a paste; a user who was typing
when it appeared has to pause before an approval counts. Enter, which people press without reading, does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal, TypeAlias

from rich.columns import Columns
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.clock import Clock
from dragoman.frontends.terminal.blocks import Blocks, Code, MarkdownBlock
from dragoman.frontends.terminal.keys import END, ESCAPE, INTERRUPT, SHOW, KeySource
from dragoman.frontends.terminal.layout import column, note, stacked
from dragoman.frontends.terminal.markdown import render
from dragoman.frontends.terminal.prompt import PromptInterrupted
from dragoman.frontends.terminal.screen import Rows, Screen, ScreenRow
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import CancellationToken
from dragoman.tools.decision import ApprovalLevel, Approve, CannotAsk, Decision, Deny, ToolQuestion
from dragoman.visible import visible_exactly, visible_line

__all__ = ["Asker", "Choice", "choose"]

Choice: TypeAlias = Decision | Literal["reason", "more", "command", "interrupt", "gone"]

_KEYS: dict[ApprovalLevel, str] = {"once": "y", "session": "s", "workspace": "w", "always": "a"}

# What stays where the keys were. A denial shows in the outcome of the call.
_ALLOWED: dict[ApprovalLevel, str] = {
    "once": "allowed once",
    "session": "allowed for this session",
    "workspace": "allowed in this workspace from now on",
    "always": "allowed from now on",
}

_QUESTION = Style(color="yellow", bold=True)
_KEY = Style(color="cyan", bold=True)
_DIM = Style(dim=True)
_HINT = Style(color="yellow")
# What stands beside the message and must be seen with it: title, keys, tools that run meanwhile.
_OTHER_ROWS = 8
_FEWEST_ROWS = 6
# A typing user leaves less than this between two keys.
_PAUSE_SECONDS = 0.5


def choose(key: str, levels: tuple[ApprovalLevel, ...]) -> Choice | None:
    """The decision that a key stands for, if these levels are offered."""
    for level in levels:
        if key == _KEYS[level]:
            return Approve(level)
    match key:
        case "n":
            return "reason"
        case "d":
            return "more"
        case "/":
            return "command"
        case _ if key == INTERRUPT:
            return "interrupt"
        case _ if key == ESCAPE:
            return Deny()
        case _ if key == END:
            return "gone"
        case _:
            return None


class Asker:
    """Asks in a terminal. `read_reason` asks for a line of text; `interrupt` is what Ctrl-C does."""

    def __init__(
        self,
        screen: Screen,
        transcript: Transcript,
        keys: KeySource,
        clock: Clock,
        *,
        read_reason: Callable[[], Awaitable[str | None]],
        interrupt: Callable[[], None],
    ) -> None:
        self._screen = screen
        self._transcript = transcript
        self._keys = keys
        self._clock = clock
        self._read_reason = read_reason
        self._interrupt = interrupt

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        # The caller cancels us when the token is cancelled.
        del token
        details = Details(question.confirmation.message, self._screen)
        self._transcript.say(note("?", visible_line(question.confirmation.title), _QUESTION), "question")
        self._print(details)
        try:
            decision = await self._decide(question, details)
        finally:
            self._transcript.ask(None)
        if isinstance(decision, Approve):
            allowed = _ALLOWED[decision.level]
            if decision.level != "once":
                allowed += f": {visible_line(question.covers)}"
            self._transcript.say(note("→", allowed, Style(color="green")), "question")
        return decision

    async def _decide(self, question: ToolQuestion, details: Details) -> Decision:
        keys = _keys_line(question, details.left)
        if not self._screen.is_live:
            self._transcript.say(keys, "question")
        with self._keys.listening() as typed_before:
            # Not before we listen: a user who sees the keys may press one.
            self._transcript.ask(keys)
            quiet_from = self._clock.now() + (_PAUSE_SECONDS if typed_before else 0)
            while True:
                choice = choose(await self._keys.key(), question.levels)
                now = self._clock.now()
                hint = ""
                match choice:
                    case Deny():
                        return choice
                    case Approve() if now >= quiet_from:
                        return choice
                    case "reason":
                        break
                    case "gone":
                        raise CannotAsk("The terminal is gone.")
                    case "interrupt":
                        self._interrupt()
                    case "more":
                        self._print(details)
                    case "command":
                        # The letters of `/show` are keys of this question, too: so the line is read to its end first.
                        if await self._command_line(question, details.left) == SHOW:
                            details = Details(
                                question.confirmation.whole or question.confirmation.message, self._screen
                            )
                            self._print(details)
                        else:
                            hint = f"{SHOW} shows all of the question; there is no other command here."
                        quiet_from = self._clock.now() + _PAUSE_SECONDS
                    case _:
                        quiet_from = now + _PAUSE_SECONDS
                        hint = "Take a moment, then press it again." if choice else "Press one of these keys."
                self._transcript.ask(_keys_line(question, details.left, hint))
        self._transcript.ask(None)
        if self._screen.is_live:
            self._screen.print()
        return Deny(await self._reason())

    async def _command_line(self, question: ToolQuestion, left: int) -> str:
        """The command that is typed after a slash, up to Enter; empty after Escape."""
        typed = "/"
        while True:
            self._transcript.ask(_keys_line(question, left, typed))
            match await self._keys.key():
                case "c-m" | "c-j" | "enter":
                    return typed.strip()
                case "c-h":
                    typed = typed[:-1]
                case key if len(key) == 1:
                    typed += key
                case "c-c" | "escape" | "end":
                    return ""
                case _:
                    # A paste, an arrow: not part of a command.
                    pass
            if not typed:
                return ""

    async def _reason(self) -> str | None:
        try:
            return await self._read_reason()
        except PromptInterrupted:
            self._interrupt()
            # Being cancelled takes effect where something is awaited.
            await asyncio.sleep(0)
            return None

    def _print(self, details: Details) -> None:
        rows = details.page(max(_FEWEST_ROWS, self._screen.console.height - _OTHER_ROWS))
        if rows:
            self._transcript.say(Rows(rows), "question")


class Details:
    """The message of a question, laid out as far as it has been shown."""

    def __init__(self, markdown: str, screen: Screen) -> None:
        blocks = Blocks()
        self._screen = screen
        self._blocks = [*blocks.feed(visible_exactly(markdown)), *blocks.close()]
        self._rows: list[ScreenRow] = []
        self._is_first = True

    @property
    def left(self) -> int:
        """How many lines have not been shown, estimated without laying them out."""
        return len(self._rows) + sum(_lines(block) for block in self._blocks)

    def page(self, height: int) -> list[ScreenRow]:
        while self._blocks and len(self._rows) < height:
            self._rows += self._laid_out(self._blocks.pop(0))
        page, self._rows = self._rows[:height], self._rows[height:]
        return page

    def _laid_out(self, block: MarkdownBlock) -> Iterator[ScreenRow]:
        if block.gap and not self._is_first:
            yield []
        self._is_first = False
        yield from self._screen.rows(column(render(block)))


def _lines(block: MarkdownBlock) -> int:
    return len(block.lines) if isinstance(block, Code) else block.source.count("\n") + 1


def _keys_line(question: ToolQuestion, left: int, hint: str = "") -> RenderableType:
    choices = [(_KEYS[level], str(level)) for level in question.levels]
    choices += [("n", "deny, with a reason"), ("Esc", "deny")]
    if question.confirmation.whole:
        choices.append((SHOW, "all of it"))
    if left:
        choices.append(("d", f"{left} more {'line' if left == 1 else 'lines'}"))
    keys = Columns(
        [Text.assemble((key, _KEY), (f" {meaning}", _DIM)) for key, meaning in choices], padding=(0, 3, 0, 0)
    )
    lines = [Text(), column(keys)]
    if lasting := [_KEYS[level] for level in question.levels if level != "once"]:
        # They approve more than this call, so the user must see what they cover.
        covered = f"{', '.join(lasting)}: for {visible_line(question.covers)}"
        lines.append(column(Text(covered, _DIM, overflow="fold")))
    if hint:
        lines.append(column(Text(hint, _HINT)))
    return stacked(lines, loose=False)
