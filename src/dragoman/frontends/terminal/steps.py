"""What an agent does itself: one line for each step, the plan as a list, the usage in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.diffs import files_of
from dragoman.frontends.terminal.layout import elapsed, marked, short_places
from dragoman.frontends.terminal.tool_call_line import spinner
from dragoman.lm import ActivityPart, PlanEntry, PlanPart, UsagePart
from dragoman.visible import visible_line

__all__ = ["PlanView", "StepView", "cost_in_words", "step_state", "usage_in_words"]

_DIM = Style(dim=True)
_CYAN = Style(color="cyan")
_GREEN = Style(color="green")
_RED = Style(color="red")
_DONE = {"completed": ("✓", _GREEN), "failed": ("✗", _RED)}
_PLANNED = {"pending": ("☐", _DIM), "in_progress": ("◐", _CYAN), "completed": ("☑", _GREEN)}
# One line holds no more than this in any terminal.
_LINE = 400
_SMALLEST_COST = 0.01
# The time of a shorter step is not shown.
_WORTH_SHOWING = 1.0


@dataclass(slots=True)
class StepView:
    """One activity, and since when it runs: not while it waits for a person."""

    part: ActivityPart
    since: float | None = None

    def update(self, part: ActivityPart, now: float) -> None:
        self.part = part
        if self.since is None and part.status == "in_progress":
            self.since = now

    @property
    def is_over(self) -> bool:
        return self.part.status in _DONE

    @property
    def is_running(self) -> bool:
        return self.part.status == "in_progress"

    @property
    def has_failed(self) -> bool:
        return self.part.status == "failed" or bool(self.part.exit_status)

    @property
    def failed_output(self) -> str:
        """What a step that failed has printed; empty if it did not fail."""
        return (self.part.output or "").strip("\n") if self.has_failed else ""

    def running(self, now: float) -> RenderableType:
        line = self._title()
        if self.since is not None:
            line.append(f" · {elapsed(now - self.since)}", _DIM)
        if last := _last_line(self.part.output):
            line.append(f" · {last}", _DIM)
        return marked(spinner(now), line, _CYAN)

    def finished(self, now: float, *, with_output: bool = True) -> RenderableType:
        """The final line: how much it changed, its exit status, and what it printed last if it failed."""
        mark, style = _DONE[self.part.status]
        # What is set apart at the end, for example which rule allowed it, must be seen, however long the command is.
        title, separator, why = self.part.title[:_LINE].rpartition(" · ")
        fixed, rest = Text(f" · {visible_line(short_places(why))}" if separator else ""), Text()
        if self.part.diff is not None:
            fixed.append_text(_counted(self.part.diff))
        if self.part.exit_status:
            fixed.append(f" · exit {self.part.exit_status}", _RED)
        if self.since is not None and now - self.since >= _WORTH_SHOWING:
            rest.append(f" · {elapsed(now - self.since)}", _DIM)
        if with_output and (last := _last_line(self.failed_output)):
            rest.append(f" · {last}", _DIM)
        return marked(mark, Text(visible_line(title or why)), style, fixed=fixed, rest=rest)

    def _title(self) -> Text:
        return Text(visible_line(self.part.title[:_LINE]))


class PlanView:
    """One list; what has changed in it since it was printed is still to be printed."""

    def __init__(self) -> None:
        self._entries: tuple[PlanEntry, ...] = ()
        self._printed: dict[str, str] = {}

    def update(self, plan: PlanPart) -> None:
        self._entries = plan.entries

    def changes(self) -> list[RenderableType]:
        return [_planned(entry) for entry in self._changed()]

    def take(self) -> list[RenderableType]:
        """Return the changes since the last call."""
        changed = list(self._changed())
        self._printed = {entry.text: entry.status for entry in self._entries}
        return [_planned(entry) for entry in changed]

    def _changed(self) -> Iterator[PlanEntry]:
        return (entry for entry in self._entries if self._printed.get(entry.text) != entry.status)


def step_state(step: ActivityPart) -> str:
    """What kind of step it is, and how it went: `execute, failed, exit status 2`."""
    end = f", exit status {step.exit_status}" if step.exit_status is not None else ""
    return f"{step.kind}, {step.status}{end}"


def usage_in_words(usage: UsagePart) -> str:
    """The known figures of the usage, in a sentence."""
    words: list[str] = []
    if usage.context_used is not None and usage.context_size:
        share = f"{usage.context_used / usage.context_size:.0%}"
        words.append(f"context: {usage.context_used:,} of {usage.context_size:,} tokens ({share})")
    elif usage.context_used is not None:
        words.append(f"context: {usage.context_used:,} tokens")
    if usage.input is not None:
        cached = f" ({usage.cached:,} of them cached)" if usage.cached else ""
        words.append(f"last answer: {usage.input:,} tokens in{cached}")
    if usage.output is not None:
        thought = f" ({usage.reasoning:,} of them thinking)" if usage.reasoning else ""
        words.append(f"{usage.output:,} out{thought}")
    if usage.cost is not None:
        words.append(f"cost so far: {cost_in_words(usage)}")
    return " · ".join(words)


def cost_in_words(usage: UsagePart) -> str:
    cost = usage.cost or 0.0
    digits = 2 if cost >= _SMALLEST_COST or not cost else 4
    return f"{cost:,.{digits}f} {visible_line(usage.currency or '')}".rstrip()


def _planned(entry: PlanEntry) -> RenderableType:
    mark, style = _PLANNED[entry.status]
    return marked(mark, Text(visible_line(entry.text[:_LINE])), style)


def _counted(diff: str) -> Text:
    lines = [line for _, lines in files_of(diff) for line in lines]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    text = Text()
    if added or removed:
        text.append(" ·", _DIM)
    if added:
        text.append(f" +{added}", _GREEN)
    if removed:
        text.append(f" -{removed}", _RED)
    return text


def _last_line(output: str | None) -> str:
    """The last line that has something in it, from the end of what may be long."""
    tail = (output or "")[-_LINE:].rstrip()
    return visible_line(tail.rpartition("\n")[2].strip())
