"""Approval questions in the terminal.

The question is printed for good: a title, and a message whose code is highlighted. Below it stand the keys, as the
live line. What was typed before the question appeared does not answer it, nor does a paste; a user who was typing
when it appeared has to pause before an approval counts. Enter, which people press without reading, does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.clock import Clock
from dragoman.frontends.rule_offers import RuleOffer
from dragoman.frontends.terminal.keys import END, ESCAPE, INTERRUPT, SHOW, SWITCH_MODE, KeySource
from dragoman.frontends.terminal.layout import column, note, place, stacked
from dragoman.frontends.terminal.prompt import PromptInterrupted
from dragoman.frontends.terminal.question_pages import PAUSE_SECONDS, Details, key_row, more_lines
from dragoman.frontends.terminal.rule_making import RuleMaker, RuleMaking
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import CancellationToken
from dragoman.tools.decision import ApprovalLevel, Approve, CannotAsk, Decision, Deny, ToolQuestion
from dragoman.visible import visible_line

__all__ = ["Asker", "Choice", "choose"]

Choice: TypeAlias = (
    Decision | Literal["reason", "more", "command", "rule", "accept-edits", "back", "interrupt", "gone"]
)

_KEYS: dict[ApprovalLevel, str] = {"once": "y", "session": "s", "workspace": "w", "always": "a"}

# What stays where the keys were. A denial shows in the outcome of the call.
_ALLOWED: dict[ApprovalLevel, str] = {
    "once": "allowed once",
    "session": "allowed for this session",
    "workspace": "allowed in this workspace from now on",
    "always": "allowed from now on",
}

_ACCEPTED = "edits in this folder are accepted from now on (Shift-Tab at the prompt ends that)"

_QUESTION = Style(color="yellow", bold=True)
_HINT = Style(bold=True)


def choose(
    key: str,
    levels: tuple[ApprovalLevel, ...],
    *,
    can_make_rule: bool = False,
    can_accept_edits: bool = False,
) -> Choice | None:
    """The decision that a key stands for, if these levels are offered."""
    for level in levels:
        if key == _KEYS[level]:
            return Approve(level)
    match key:
        case "n":
            return "reason"
        case "d":
            return "more"
        case "r" if can_make_rule:
            return "rule"
        case _ if key == SWITCH_MODE and can_accept_edits:
            return "accept-edits"
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
        rules: RuleMaker | None = None,
        accept_edits: Callable[[], None] | None = None,
    ) -> None:
        """Without `rules`, no rule can be made of an answer. Without `accept_edits`, the chat has no such mode."""
        self._screen = screen
        self._transcript = transcript
        self._keys = keys
        self._clock = clock
        self._read_reason = read_reason
        self._interrupt = interrupt
        self._rules = rules
        self._accept_edits = accept_edits

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        # The caller cancels us when the token is cancelled.
        del token
        offers = self._rules.offers(question) if self._rules is not None else ()
        asked = _Asked(
            question,
            Details(question.confirmation.message, self._screen),
            offers,
            can_accept_edits=self._accept_edits is not None and question.is_plain_edit,
        )
        self._transcript.say(note("?", visible_line(question.confirmation.title), _QUESTION), "question")
        asked.details.print_page(self._transcript)
        try:
            decision = await self._decide(asked)
        finally:
            self._transcript.ask(None)
        if isinstance(decision, Approve):
            accepted = f"; {_ACCEPTED}" if asked.accepts_edits else ""
            allowed = f"{_allowed(decision, question)}{accepted}"
            self._transcript.say(note("→", allowed, Style(color="green")), "question")
        return decision

    async def _decide(self, asked: _Asked) -> Decision:
        if not self._screen.is_live:
            self._transcript.say(asked.keys(), "question")
        with self._keys.listening() as typed_before:
            # Not before we listen: a user who sees the keys may press one.
            self._transcript.ask(asked.keys())
            quiet_from = self._clock.now() + (PAUSE_SECONDS if typed_before else 0)
            while True:
                choice = asked.choice(await self._keys.key())
                now = self._clock.now()
                hint = ""
                if choice == "rule" and now >= quiet_from:
                    choice = await self._make_rule(asked)
                if choice == "accept-edits" and now >= quiet_from:
                    choice = self._begin_accepting(asked)
                match choice:
                    case Deny() | Approve(new_rule=str()):
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
                        asked.details.print_page(self._transcript)
                    case "back":
                        quiet_from = self._clock.now() + PAUSE_SECONDS
                    case "command":
                        # The letters of `/show` are keys of this question, too: so the line is read to its end first.
                        if await self._command_line(asked) == SHOW:
                            whole = asked.question.confirmation.whole or asked.question.confirmation.message
                            asked.details = Details(whole, self._screen)
                            asked.details.print_page(self._transcript)
                        else:
                            hint = f"{SHOW} shows all of the question; there is no other command here."
                        quiet_from = self._clock.now() + PAUSE_SECONDS
                    case _:
                        quiet_from = now + PAUSE_SECONDS
                        hint = "Take a moment, then press it again." if choice else "Press one of these keys."
                self._transcript.ask(asked.keys(hint))
        self._transcript.ask(None)
        if self._screen.is_live:
            self._screen.print()
        return Deny(await self._reason())

    def _begin_accepting(self, asked: _Asked) -> Choice:
        """Allow this edit, and switch on the mode that accepts those that follow."""
        if self._accept_edits is None:
            raise AssertionError("the key is offered only where there is such a mode")
        self._accept_edits()
        asked.accepts_edits = True
        return Approve()

    async def _make_rule(self, asked: _Asked) -> Choice:
        if self._rules is None:
            raise AssertionError("only rules that can be made are offered")
        making = RuleMaking(self._screen, self._transcript, self._keys, self._clock, self._rules)
        return await making.make(asked.offers)

    async def _command_line(self, asked: _Asked) -> str:
        """The command that is typed after a slash, up to Enter; empty after Escape."""
        typed = "/"
        while True:
            self._transcript.ask(asked.keys(typed))
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


@dataclass(slots=True)
class _Asked:
    """An open question: how much of it has been shown, and the rules that can be made of its answer."""

    question: ToolQuestion
    details: Details
    offers: tuple[RuleOffer, ...]
    can_accept_edits: bool = False
    # Whether the answer has switched on the mode that accepts edits.
    accepts_edits: bool = False

    def choice(self, key: str) -> Choice | None:
        return choose(
            key,
            self.question.levels,
            can_make_rule=bool(self.offers),
            can_accept_edits=self.can_accept_edits,
        )

    def keys(self, hint: str = "") -> RenderableType:
        levels = self.question.levels
        choices = [(_KEYS[level], str(level)) for level in levels]
        if self.offers:
            choices.append(("r", "make a rule"))
        if self.can_accept_edits:
            choices.append(("Shift-Tab", "accept edits here"))
        choices += [("n", "deny, with a reason"), ("Esc", "deny")]
        if self.question.confirmation.whole:
            choices.append((SHOW, "all of it"))
        lines = [Text(), key_row([*choices, *more_lines(self.details.left)])]
        if lasting := [_KEYS[level] for level in levels if level != "once"]:
            # They approve more than this call, so the user must see what they cover.
            covered = f"{', '.join(lasting)}: for {visible_line(self.question.covers)}"
            lines.append(column(Text(covered, overflow="fold")))
        if hint:
            lines.append(column(Text(hint, _HINT)))
        return stacked(lines, loose=False)


def _allowed(decision: Approve, question: ToolQuestion) -> str:
    allowed = _ALLOWED[decision.level]
    if decision.new_rule is not None:
        return f"{allowed}, and from now on by the rule at {visible_line(place(decision.new_rule))}"
    return allowed if decision.level == "once" else f"{allowed}: {visible_line(question.covers)}"
