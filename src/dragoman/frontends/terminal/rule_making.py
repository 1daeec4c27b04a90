"""Making a rule of an answer: the person picks an offer, reads the rule, and confirms it.

The rule is printed for good, to the letter, with the file that it goes to. It can be confirmed only when all of it has
been on the screen, and only after a pause. Every other way out leads back to the question.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.frontends.rule_offers import CannotAddRule, RuleOffer, RuleOffers
from dragoman.frontends.terminal.keys import END, ESCAPE, INTERRUPT, KeySource
from dragoman.frontends.terminal.layout import Hanging, column, note, place, stacked
from dragoman.frontends.terminal.question_pages import PAUSE_SECONDS, Details, key_row, more_lines
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import gfm
from dragoman.permissions.pipeline import PermissionServices
from dragoman.tools.decision import Approve, ToolQuestion
from dragoman.visible import visible_line

__all__ = ["ChatRules", "RuleMaker", "RuleMaking"]

# How it ends: the call is allowed and the rule is in force, the question is still open, or as keys of the question do.
Made: TypeAlias = Approve | Literal["back", "interrupt", "gone"]

_KEY = Style(color="cyan", bold=True)
_HINT = Style(bold=True)
_FAILURE = Style(color="red")
# An offer is picked with one digit.
_MOST_OFFERED = 9
_BACK = ("Esc", "back to the question")


class RuleMaker(Protocol):
    """Offers rules for what a question is about, and writes them."""

    @property
    def file(self) -> str:
        """The file that rules are written to."""
        ...

    def offers(self, question: ToolQuestion) -> tuple[RuleOffer, ...]: ...

    def add(self, offer: RuleOffer) -> str:
        """Write the rule and put it in force. Returns its file and line. Raises `CannotAddRule`."""
        ...


class ChatRules:
    """The rules for what a chat asks about."""

    def __init__(
        self, offers: RuleOffers, permissions: PermissionServices, workspace: tuple[Path, ...]
    ) -> None:
        self._offers = offers
        self._permissions = permissions
        self._workspace = workspace

    @property
    def file(self) -> str:
        return str(self._offers.file)

    def offers(self, question: ToolQuestion) -> tuple[RuleOffer, ...]:
        # What can be allowed only once, no rule of this kind allows.
        if question.action is None or question.levels == ("once",) or not self._workspace:
            return ()
        places = self._permissions.places(tuple(map(str, self._workspace)))
        return self._offers.of(question.action, places)

    def add(self, offer: RuleOffer) -> str:
        rule = self._offers.add(offer)
        return f"{self.file}:{rule.line}"


class RuleMaking:
    """Makes rules at a question. The caller listens for keys."""

    def __init__(
        self, screen: Screen, transcript: Transcript, keys: KeySource, clock: Clock, rules: RuleMaker
    ) -> None:
        self._screen = screen
        self._transcript = transcript
        self._keys = keys
        self._clock = clock
        self._rules = rules

    async def make(self, offers: tuple[RuleOffer, ...]) -> Made:
        picked = await self._pick(offers[:_MOST_OFFERED])
        if not isinstance(picked, RuleOffer):
            return picked
        confirmed = await self._confirm(picked)
        if confirmed != "confirmed":
            return confirmed
        try:
            return Approve("once", new_rule=self._rules.add(picked))
        except CannotAddRule as problem:
            said = f"The rule was not written. {problem} The question is still open."
            self._transcript.say(note("✗", visible_line(said), _FAILURE), "question")
            return "back"

    async def _pick(self, offers: tuple[RuleOffer, ...]) -> RuleOffer | Literal["back", "interrupt", "gone"]:
        hint = ""
        while True:
            self._ask(_menu(offers, hint))
            match await self._keys.key():
                case digit if digit.isdecimal() and 0 < int(digit) <= len(offers):
                    return offers[int(digit) - 1]
                case key if (way_out := _way_out(key)) is not None:
                    return way_out
                case _:
                    hint = "Press the number of a rule."

    async def _confirm(self, offer: RuleOffer) -> Literal["confirmed", "back", "interrupt", "gone"]:
        file = gfm.code(place(self._rules.file))
        shown = Details(f"This goes to the end of {file}:\n\n{gfm.fence(offer.toml, 'toml')}\n", self._screen)
        shown.print_page(self._transcript, "rule")
        hint = ""
        quiet_from = self._clock.now() + PAUSE_SECONDS
        while True:
            pause = quiet_from - self._clock.now()
            try:
                key = await self._key_after(pause, _confirmation(shown.left, hint, is_ready=pause <= 0))
            except DeadlinePassed:
                continue
            hint = ""
            match key:
                case "y" if not shown.left and pause <= 0:
                    return "confirmed"
                case "d" if shown.left:
                    shown.print_page(self._transcript, "rule")
                case _ if (way_out := _way_out(key)) is not None:
                    return way_out
                case _:
                    hint = "Press one of these keys."
            quiet_from = self._clock.now() + PAUSE_SECONDS

    async def _key_after(self, pause: float, footer: RenderableType) -> str:
        """The next key. `DeadlinePassed` if the pause ends without one."""
        if pause <= 0:
            self._ask(footer)
            return await self._keys.key()
        self._transcript.ask(footer)
        return await within(self._keys.key(), pause, self._clock)

    def _ask(self, footer: RenderableType) -> None:
        if not self._screen.is_live:
            self._transcript.say(footer, "question")
        self._transcript.ask(footer)


def _way_out(key: str) -> Literal["back", "interrupt", "gone"] | None:
    match key:
        case _ if key == ESCAPE:
            return "back"
        case _ if key == INTERRUPT:
            return "interrupt"
        case _ if key == END:
            return "gone"
        case _:
            return None


def _menu(offers: tuple[RuleOffer, ...], hint: str) -> RenderableType:
    lines: list[RenderableType] = [Text()]
    for number, offer in enumerate(offers, start=1):
        words = Text(visible_line(offer.words), overflow="fold")
        lines.append(column(Hanging(f"{number} ", "  ", words, _KEY)))
    return stacked([*lines, key_row([_BACK]), *_hinted(hint)], loose=False)


def _confirmation(left: int, hint: str, *, is_ready: bool) -> RenderableType:
    # All of it must have been seen first. The key appears when it counts.
    confirm = [("y", "write it, and allow this once")] if is_ready else []
    return stacked([Text(), key_row([*(more_lines(left) or confirm), _BACK]), *_hinted(hint)], loose=False)


def _hinted(hint: str) -> list[RenderableType]:
    return [column(Text(hint, _HINT))] if hint else []
