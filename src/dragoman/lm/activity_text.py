"""Activities, plans and usage for consumers: as text where they have no such parts, and thinned where they have.

As text, activities become thinking: each state once, and of a growing output only what is new. Output is in indented
lines below its activity's title: unlike a fence, that is code until a line begins at the margin, whatever is in it.

The conversion is deterministic. The output of one `Activities` passes through another unchanged, so that a back end may
use one instance for several responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from dragoman.diffs import FileDiff, files_of, shortened
from dragoman.lm.gfm import code, escape, fence, plain
from dragoman.lm.parts import (
    USAGE,
    ActivityNote,
    ActivityPart,
    DataPart,
    Part,
    PlanEntry,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
)

__all__ = ["INTERRUPTION", "OUTPUT_LIMIT", "Activities"]

_T = TypeVar("_T")

# Marks that the agent began another message without text: output that follows needs its title again. No consumer gets it.
INTERRUPTION = ThinkingPart("")

# Output beyond this is not shown: it is for the agent to read. A provider reports one character more of a longer one.
OUTPUT_LIMIT = 64_000
# Of each file. More than that is read in the file itself.
_DIFF_LINES = 60
# Up to this an output is passed on with every change: about a screen, which costs little however often it is sent.
_SMALL_OUTPUT = 2_000
# A larger output must have grown by this fraction of itself. All that is sent of it is then at most nine times its length.
_GROWTH = 8
# More steps than any agent takes at once. One that was forgotten is written again.
_KNOWN_LIMIT = 200

_MARKS = {"completed": "✓", "failed": "✗"}
_PLAN_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
# Renderers end a line at each of them.
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(slots=True)
class _Written:
    """What the consumer has got of one activity."""

    title: str = ""
    diff: str | None = None
    files: set[FileDiff] = field(default_factory=set)
    # The output as it was last, and how much of it all was shown.
    output: str = ""
    shown: int = 0
    ended: bool = False


class Activities:
    """Presents one agent's activities to a consumer, and stores what it has got."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Drop the state: another run of the agent uses new activity ids."""
        self._passed: dict[str, ActivityPart] = {}
        self._written: dict[str, _Written] = {}
        self._markdown = True
        self._plan: frozenset[tuple[str, str]] = frozenset()
        # The id of the activity that was written last, and whether its output was. None after any other part: then output
        # needs its title again.
        self.last_written: tuple[str, bool] | None = None

    def present(self, part: Part, *, structured: bool, markdown: bool = True) -> Iterable[Part]:
        """Convert a part. `structured`: the consumer has `features.activity`. Other parts are passed on.

        `markdown`: the consumer renders it. Else the text has no marks.
        """
        self._markdown = markdown
        match part:
            case _ if part is INTERRUPTION:
                self.last_written = None
                return ()
            case TextPart() | ThinkingPart() | ToolCallPart() | DataPart(is_internal=False):
                self.last_written = None
                return (part,)
            case ActivityNote():
                self.last_written = None
                text = part.text if markdown else plain(part.text)
                return (part.activity,) if structured else (ThinkingPart(text),)
            case ActivityPart():
                return self._thinned(part) if structured else _thinking("".join(self._write(part)))
            case PlanPart() if not structured:
                return self._write_plan(part)
            case UsagePart() if not structured:
                return _usage(part)
            case _:
                return (part,)

    def _thinned(self, part: ActivityPart) -> Iterable[Part]:
        last = self._passed.get(part.id)
        if last is not None and _grew_little(last, part):
            return ()
        _remember(self._passed, part.id, part)
        return (part,)

    def _write(self, part: ActivityPart) -> Iterator[str]:
        written = self._written.get(part.id)
        if written is None:
            written = _Written()
            _remember(self._written, part.id, written)
        if part.title != written.title:
            written.title = part.title
            yield self._line(part, f"▸ {self._shown(part.title)}")
        if part.diff is not None and part.diff != written.diff:
            written.diff = part.diff
            for changed in files_of(part.diff):
                if changed not in written.files:
                    written.files.add(changed)
                    path, lines = changed
                    diff = shortened(lines, _DIFF_LINES)
                    shown = (
                        f"{code(path)}\n\n{fence(diff, 'diff')}" if self._markdown else f"{path}\n\n{diff}"
                    )
                    yield self._line(part, shown)
        yield from self._output(part, written)
        if part.status in _MARKS and not written.ended:
            written.ended = True
            yield self._line(part, f"{_MARKS[part.status]} {self._shown(written.title)}")

    def _output(self, part: ActivityPart, written: _Written) -> Iterator[str]:
        before, now = written.output, part.output or ""
        if now == before:
            return
        written.output = now
        new = now.removeprefix(before)
        room = OUTPUT_LIMIT - written.shown
        if room <= 0:
            return
        written.shown += len(new)
        if self.last_written != (part.id, True):
            if self.last_written is None or self.last_written[0] != part.id:
                # A line at the margin ends whatever list or quotation came before.
                yield self._line(part, f"▸ {self._shown(written.title)} …")
            yield "\n    "
            self.last_written = part.id, True
        yield _LINE_END.sub("\n    ", new[:room])
        if len(new) > room:
            yield self._line(part, "… and more")

    def _line(self, part: ActivityPart, text: str) -> str:
        self.last_written = part.id, False
        return f"\n\n{text}\n"

    def _shown(self, text: str) -> str:
        return escape(text) if self._markdown else text

    def _write_plan(self, plan: PlanPart) -> Iterable[Part]:
        before, self._plan = self._plan, frozenset(map(_state, plan.entries))
        changed = [entry for entry in plan.entries if _state(entry) not in before]
        if not changed:
            return ()
        self.last_written = None
        # Two spaces break a line in Markdown.
        end = "  \n" if self._markdown else "\n"
        lines = "".join(f"{_PLAN_MARKS[entry.status]} {self._shown(entry.text)}{end}" for entry in changed)
        return (ThinkingPart(f"\n\n{lines}\n"),)


def _remember(known: dict[str, _T], key: str, value: _T) -> None:
    if key not in known and len(known) >= _KNOWN_LIMIT:
        del known[next(iter(known))]
    known[key] = value


def _grew_little(last: ActivityPart, part: ActivityPart) -> bool:
    """Whether nothing but its output has changed, and that by little."""
    if last.output is None or part.output is None or len(last.output) < _SMALL_OUTPUT:
        return False
    grown = len(part.output) - len(last.output)
    return (
        0 <= grown * _GROWTH < len(last.output)
        and part.output.startswith(last.output)
        and msgspec.structs.replace(part, output=last.output) == last
    )


def _thinking(text: str) -> Iterable[Part]:
    return (ThinkingPart(text),) if text else ()


def _state(entry: PlanEntry) -> tuple[str, str]:
    """The parts of an entry that are written: not its priority."""
    return entry.text, entry.status


def _usage(usage: UsagePart) -> Iterable[Part]:
    """The tokens in the form that fills an editor's context indicator: it shows prompt and completion as used.

    What the provider says of the context counts; the tokens of a turn with many requests may be more than fit into it.
    """
    prompt, completion, total = usage.input or 0, usage.output or 0, usage.total
    if usage.context_used is not None:
        completion = min(completion, usage.context_used)
        prompt, total = usage.context_used - completion, usage.context_used
    elif usage.input is usage.output is usage.total is None:
        return ()
    counted = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total or prompt + completion,
        # Editors ignore these; their extension may show them.
        "context_size": usage.context_size,
        "cost": usage.cost,
        "currency": usage.currency,
    }
    counted = {name: value for name, value in counted.items() if value is not None}
    return (DataPart.json(counted, USAGE),)
