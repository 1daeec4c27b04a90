"""One line about each tool call: what it is doing, and then its outcome."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.frontends.terminal.layout import elapsed, marked, short_places
from dragoman.lm import Outcome, ToolCallPart, ToolResultPart
from dragoman.loop.events import ToolStarted
from dragoman.loop.round import APPROVAL_FAILED, DENIED_BY_RULE, DENIED_WITH_REASON
from dragoman.permissions.decide import EDITS_ACCEPTED
from dragoman.visible import visible_line

__all__ = ["SHORTEST", "ToolCallLine", "failed_output", "spinner"]

_DIM = Style(dim=True)
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 10
# One line holds no more than this in any terminal; a tool may report far longer ones.
_LINE = 400

_MARKS: dict[Outcome, tuple[str, Style]] = {
    "ok": ("✓", Style(color="green")),
    "error": ("✗", Style(color="red")),
    "denied": ("⊘", Style(color="yellow")),
    "skipped": ("⊘", _DIM),
    "interrupted": ("⊘", Style(color="yellow")),
    "timed_out": ("⊘", Style(color="yellow")),
}
_WORDS: dict[Outcome, str] = {
    "ok": "",
    "error": "failed",
    "denied": "denied",
    "skipped": "skipped",
    "interrupted": "interrupted",
    "timed_out": "no decision in time",
}
# These need no mention: the first is the usual case, the next ones the user has just decided, and the last is shown with
# its change.
_USUAL_APPROVALS = ("read-only", "approved once", "approved:", EDITS_ACCEPTED)
# What comes before a person's reason in the result of a call.
_REASON = DENIED_WITH_REASON.partition("{")[0]
# What comes before the rule that has denied a call.
_BY_RULE = DENIED_BY_RULE.partition("{")[0]
# How a result begins when the user could not be asked.
_NOT_ASKED = APPROVAL_FAILED.partition("{")[0]
# Shorter times are not shown.
SHORTEST = 0.05


def spinner(now: float) -> str:
    return _SPINNER[int(now * _FRAMES_A_SECOND) % len(_SPINNER)]


@dataclass(slots=True)
class ToolCallLine:
    """A call that has no result yet."""

    call: ToolCallPart
    # Of the question about it; what it is called until it runs, if it ever does.
    title: str = ""
    # What an agent calls the action that it asks about.
    subject: str = ""
    started: ToolStarted | None = None
    since: float = 0.0
    progress: str = ""

    @property
    def is_permission(self) -> bool:
        """Whether it is an agent's request, and not a tool that does something itself."""
        return _is_permission(self.call)

    @property
    def about(self) -> str:
        """What it does, or would have done, in words that stand on one line."""
        message = self.started.message if self.started is not None else ""
        return visible_line((message or self._name())[:_LINE])

    def is_already_known(self, result: ToolResultPart) -> bool:
        """Whether the user knows the result already: they have just allowed it, and the agent will act."""
        approved = self.started.approved if self.started is not None else ""
        return self.is_permission and result.outcome == "ok" and approved.startswith(_USUAL_APPROVALS)

    def running(self, now: float) -> RenderableType | None:
        if self.started is None:
            return None
        line = Text(self.about)
        line.append(f" · {elapsed(now - self.since)}", _DIM)
        if self.progress:
            line.append(f" · {visible_line(self.progress[:_LINE])}", _DIM)
        return marked(spinner(now), line, Style(color="cyan"))

    def finished(self, result: ToolResultPart, seconds: float, *, with_output: bool = True) -> RenderableType:
        """The final line: the outcome, why it was allowed, and why it was not done or what it said if it failed."""
        outcome = _outcome(result)
        mark, style = _MARKS[outcome]
        # The outcome, and why no approval was needed, must be seen, however long the command is.
        fixed = Text()
        if _WORDS[outcome]:
            fixed.append(f" · {_WORDS[outcome]}", style if outcome == "error" else None)
        if self.started is not None and not self.started.approved.startswith(_USUAL_APPROVALS):
            fixed.append(f" · {visible_line(short_places(self.started.approved[:_LINE]))}", _DIM)
        rest = Text()
        if seconds >= SHORTEST:
            rest.append(f" · {elapsed(seconds)}", _DIM)
        if (outcome != "error" or with_output) and (why := _why(result, outcome)):
            rest.append(f" · {visible_line(why[:_LINE])}", _DIM)
        return marked(mark, Text(self.about), style, fixed=fixed, rest=rest)

    def _name(self) -> str:
        if self.is_permission and not self.title:
            from dragoman.frontends.terminal.permission_tools import request_in_words  # noqa: PLC0415 - agents only

            return request_in_words(self.call)
        return self.title.removesuffix("?") or self.call.name


def failed_output(result: ToolResultPart) -> str:
    """What a call that failed has said; empty if it did not fail."""
    return result.text.strip("\n") if _outcome(result) == "error" else ""


def _outcome(result: ToolResultPart) -> Outcome:
    return result.outcome or ("error" if result.is_error else "ok")


def _is_permission(call: ToolCallPart) -> bool:
    from dragoman.permissions.action import is_permission_tool  # noqa: PLC0415 - agents only

    return is_permission_tool(call.name)


def _why(result: ToolResultPart, outcome: Outcome) -> str:
    """Details of the outcome in a few words, if there are any."""
    match outcome:
        case "error":
            return result.text
        case "denied" if result.text.startswith(_REASON):
            return result.text.removeprefix(_REASON)
        case "denied" if result.text.startswith(_BY_RULE):
            # The reason first: it is what the user has to know.
            rule, _, reason = short_places(result.text.removeprefix(_BY_RULE)).partition(" it: ")
            return f"{reason} {rule} it." if reason else rule
        case "denied" if result.text.startswith(_NOT_ASKED):
            return "the user could not be asked"
        case _:
            return ""
