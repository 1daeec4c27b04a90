"""Activities, plans and usage for consumers: as text where they have no such parts, and thinned where they have.

As text, what an agent does is thinking: each state once, and of an output that grows only what is new. Output stands in
indented lines below its step's title: unlike a fence, that is code until a line begins at the margin, whatever is in it.

The same parts in always give the same parts out. What came out of one `Activities` passes through another unchanged, so
that a back end may keep one for longer than a response.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from dragoman.diffs import FileDiff, files_of, shortened
from dragoman.lm.gfm import code, escape, fence
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
    UsagePart,
)

__all__ = ["INTERRUPTION", "OUTPUT_LIMIT", "Activities"]

_T = TypeVar("_T")

# The agent began to say something else, and said nothing: output that follows needs its title again. No consumer gets it.
INTERRUPTION = ThinkingPart("")

# Output beyond this is not shown: it is for the agent to read. A provider reports one character more of a longer one.
OUTPUT_LIMIT = 64_000
# Of each file. More than that is read in the file itself.
_DIFF_LINES = 60
# Up to this an output is passed on with every change: about a screen, which costs little however often it is sent.
_SMALL_OUTPUT = 2_000
# A larger output must have grown by this fraction of itself. All that is sent of it is then at most nine times its length.
_GROWTH = 8
# More steps than any agent takes at once. One that was forgotten is told of anew.
_KNOWN_LIMIT = 200

_MARKS = {"completed": "✓", "failed": "✗"}
_PLAN_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
# Renderers end a line at each of them.
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(slots=True)
class _Told:
    """What was written of one activity."""

    title: str = ""
    diff: str | None = None
    files: set[FileDiff] = field(default_factory=set)
    # The output as it was last, and how much of it all was shown.
    output: str = ""
    shown: int = 0
    ended: bool = False


class Activities:
    """What a consumer was given of one agent's activities."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what was given: another run of the agent names its activities anew."""
        self._passed: dict[str, ActivityPart] = {}
        self._told: dict[str, _Told] = {}
        self._plan: frozenset[tuple[str, str]] = frozenset()
        # The activity that was written of last, and whether its output was; None once something else was said. Then output
        # needs its title again.
        self.telling: tuple[str, bool] | None = None

    def present(self, part: Part, *, structured: bool) -> Iterable[Part]:
        """`structured`: the consumer has `features.activity`. Parts of all other kinds are passed on."""
        match part:
            case _ if part is INTERRUPTION:
                self.telling = None
                return ()
            case TextPart() | ThinkingPart() | DataPart(is_internal=False):
                self.telling = None
                return (part,)
            case ActivityNote():
                return (part.activity,) if structured else (ThinkingPart(part.text),)
            case ActivityPart():
                return self._thinned(part) if structured else _thinking("".join(self._tell(part)))
            case PlanPart() if not structured:
                return self._tell_plan(part)
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

    def _tell(self, part: ActivityPart) -> Iterator[str]:
        told = self._told.get(part.id)
        if told is None:
            told = _Told()
            _remember(self._told, part.id, told)
        if part.title != told.title:
            told.title = part.title
            yield self._line(part, f"▸ {escape(part.title)}")
        if part.diff is not None and part.diff != told.diff:
            told.diff = part.diff
            for changed in files_of(part.diff):
                if changed not in told.files:
                    told.files.add(changed)
                    path, lines = changed
                    yield self._line(part, f"{code(path)}\n\n{fence(shortened(lines, _DIFF_LINES), 'diff')}")
        yield from self._output(part, told)
        if part.status in _MARKS and not told.ended:
            told.ended = True
            yield self._line(part, f"{_MARKS[part.status]} {escape(told.title)}")

    def _output(self, part: ActivityPart, told: _Told) -> Iterator[str]:
        before, now = told.output, part.output or ""
        if now == before:
            return
        told.output = now
        new = now.removeprefix(before)
        room = OUTPUT_LIMIT - told.shown
        if room <= 0:
            return
        told.shown += len(new)
        if self.telling != (part.id, True):
            if self.telling is None or self.telling[0] != part.id:
                # A line at the margin ends whatever list or quotation came before.
                yield self._line(part, f"▸ {escape(told.title)} …")
            yield "\n    "
            self.telling = part.id, True
        yield _LINE_END.sub("\n    ", new[:room])
        if len(new) > room:
            yield self._line(part, "… and more")

    def _line(self, part: ActivityPart, text: str) -> str:
        self.telling = part.id, False
        return f"\n\n{text}\n"

    def _tell_plan(self, plan: PlanPart) -> Iterable[Part]:
        before, self._plan = self._plan, frozenset(map(_state, plan.entries))
        changed = [entry for entry in plan.entries if _state(entry) not in before]
        if not changed:
            return ()
        self.telling = None
        lines = "".join(f"{_PLAN_MARKS[entry.status]} {escape(entry.text)}  \n" for entry in changed)
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
    """What is told of an entry: its priority is not."""
    return entry.text, entry.status


def _usage(usage: UsagePart) -> Iterable[Part]:
    """The tokens in the form that fills an editor's context indicator."""
    if usage.input is usage.output is usage.total is None:
        return ()
    prompt, completion = usage.input or 0, usage.output or 0
    counted = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": usage.total or prompt + completion,
    }
    return (DataPart.json(counted, USAGE),)
