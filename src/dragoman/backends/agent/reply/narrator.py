"""What the user sees of the agent: its updates as parts.

Words are text, thoughts are thinking, pictures are data. What the agent does by itself, and its plans, are told as
thinking, compactly: each state once, and of an output that grows only what is new, however often the agent sends all of
it again. Output stands in indented lines below its tool's name: unlike a fence, that is code until a line begins at the
margin, whatever is in it.

Calls of the consumer's own tools are not told here: the consumer sees them as calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dragoman.acp.content import TextBlock, parts_of
from dragoman.acp.messages import (
    ChunkUpdate,
    Diff,
    PlanUpdate,
    ToolActivity,
    Update,
)
from dragoman.lm import DataPart, JsonObject, Part, TextPart, ThinkingPart
from dragoman.lm.gfm import code, escape, fence
from dragoman.lm.parts import USAGE
from dragoman.lm.surrogates import SurrogateJoiner
from dragoman.permissions.diffs import unified

__all__ = ["Narrator", "usage_part"]

_MARKS = {"completed": "✓", "failed": "✗"}
_PLAN_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
# Agents number their tool calls; a session with more open ones than this has lost count of them itself.
_KNOWN_LIMIT = 1_000
# Output beyond this is counted, not shown: it is for the agent to read.
_OUTPUT_LIMIT = 64_000
_TITLE_LIMIT = 500
_DIFF_LINES = 60
# By so much of its beginning a window of output is found in the one before.
_OVERLAP = 64
# Where agents have a text in a raw output that is an object.
_RAW_TEXTS = ("output", "aggregated_output", "stdout", "message", "error")
# Renderers end a line at each of them.
_LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE = re.compile(r"(`{3,})[^\n`]*\n")


@dataclass(slots=True)
class _Told:
    """What was told of one tool call."""

    activity: ToolActivity
    title: str = ""
    # What its terminal has printed, where the agent tells that apart, and piece by piece.
    printed: str = ""
    # The output as it was last, and how much of it all was shown.
    output: str = ""
    shown: int = 0
    diffs: set[Diff] = field(default_factory=set)
    ended: bool = False


class Narrator:
    """Follows one session."""

    def __init__(self, is_consumers: Callable[[ToolActivity], bool]) -> None:
        self._is_consumers = is_consumers
        self._calls: dict[str, _Told] = {}
        self._plan: frozenset[tuple[str, str]] = frozenset()
        # The tool call that was told of last, if nothing else was since, and whether its output was.
        self._telling: tuple[str, bool] | None = None
        self._words = SurrogateJoiner()
        self._thoughts = SurrogateJoiner()

    def known(self, activity: ToolActivity) -> ToolActivity:
        """Everything said of that tool call so far, with this on top."""
        told = self._calls.get(activity.tool_call_id)
        return told.activity.updated(activity) if told else activity

    def parts(self, update: Update) -> Iterable[Part]:
        if (
            isinstance(update, ChunkUpdate)
            and update.role == "agent"
            and isinstance(update.content, TextBlock)
        ):
            # As nearly all updates are.
            self._telling = None
            whole = self._words.feed(update.content.text)
            return (TextPart(whole),) if whole else ()
        return self._parts(update)

    def _parts(self, update: Update) -> Iterator[Part]:
        match update:
            case ChunkUpdate(role="agent", content=content):
                self._telling = None
                yield from parts_of(content)
            case ChunkUpdate(role="thought", content=TextBlock(text=text)):
                self._telling = None
                if whole := self._thoughts.feed(text):
                    yield ThinkingPart(whole)
            case ToolActivity():
                told = self._remember(update)
                if not self._is_consumers(told.activity):
                    text = "".join(self._tell(told))
                    if text:
                        yield ThinkingPart(text)
            case PlanUpdate():
                text = "".join(self._changes(update))
                if text:
                    self._telling = None
                    yield ThinkingPart(f"\n\n{text}\n")
            case _:
                # The user's own words, titles, modes, commands: nothing new to the user.
                return

    def end_turn(self) -> tuple[Part, ...]:
        """Tool calls that the agent left open are over with their turn, and so is half a character."""
        self._calls.clear()
        self._telling = None
        thought, word = self._thoughts.end(), self._words.end()
        return tuple(ThinkingPart(half) for half in thought) + tuple(TextPart(half) for half in word)

    def _remember(self, update: ToolActivity) -> _Told:
        told = self._calls.get(update.tool_call_id)
        if told is None:
            if len(self._calls) >= _KNOWN_LIMIT:
                del self._calls[next(iter(self._calls))]
            told = self._calls[update.tool_call_id] = _Told(update)
        else:
            told.activity = told.activity.updated(update)
        if not told.ended and len(told.printed) <= _OUTPUT_LIMIT:
            told.printed += update.terminal_output
        return told

    def _tell(self, told: _Told) -> Iterator[str]:
        activity = told.activity
        if activity.status == "pending" and activity.raw_input == {}:
            # Its input is still being written, and until then Claude calls every command "Terminal".
            return
        title = (activity.title or activity.name or "")[:_TITLE_LIMIT]
        if title and title != told.title:
            told.title = title
            yield self._line(told, f"▸ {escape(title)}")
        for diff in activity.diffs:
            if diff not in told.diffs:
                told.diffs.add(diff)
                yield self._line(
                    told,
                    f"{code(diff.path)}\n\n{fence(unified(diff.old_text, diff.new_text, _DIFF_LINES), 'diff')}",
                )
        yield from self._output(told)
        if activity.status in _MARKS and not told.ended:
            told.ended = True
            yield self._line(told, f"{_MARKS[activity.status]} {escape(told.title)}")

    def _output(self, told: _Told) -> Iterator[str]:
        """Only what is new of the output. Of an agent that shows a window of it, what the window moves on by."""
        before, now = told.output, _unfenced(told.activity.text) or told.printed or _raw(told.activity)
        if now in before:
            return
        told.output = now
        new = now[_overlap(before, now) :]
        room = _OUTPUT_LIMIT - told.shown
        if room <= 0:
            return
        told.shown += len(new)
        id_ = told.activity.tool_call_id
        if self._telling != (id_, True):
            if self._telling is None or self._telling[0] != id_:
                # A line at the margin ends whatever list or quotation came before.
                yield self._line(told, f"▸ {escape(told.title)} …")
            yield "\n    "
            self._telling = id_, True
        yield _LINE_END.sub("\n    ", new[:room])
        if len(new) > room:
            yield self._line(told, "… and more")

    def _line(self, told: _Told, text: str) -> str:
        self._telling = told.activity.tool_call_id, False
        return f"\n\n{text}\n"

    def _changes(self, plan: PlanUpdate) -> Iterator[str]:
        before, self._plan = self._plan, frozenset((entry.content, entry.status) for entry in plan.entries)
        for entry in plan.entries:
            if (entry.content, entry.status) not in before:
                yield f"{_PLAN_MARKS.get(entry.status, '·')} {escape(entry.content)}  \n"


def _raw(activity: ToolActivity) -> str:
    """What came of a call, of an agent that shows it in no other way: Codex's old line its commands, Copilot its errors.

    Not a text that stands there alone: so Claude has what is for its model, and no news to a person.
    """
    if activity.status not in _MARKS or not isinstance(activity.raw_output, dict):
        return ""
    texts = (activity.raw_output.get(name) for name in _RAW_TEXTS)
    return next((text for text in texts if isinstance(text, str)), "")


def _unfenced(output: str) -> str:
    """Claude puts a fence around output. It stands as code in any case, and would seem to be another whenever it grows."""
    begins = _FENCE.match(output)
    if begins is None or not output.endswith(f"\n{begins[1]}"):
        return output
    inside = output[begins.end() : -len(begins[1]) - 1]
    # Else these are two that stand beside each other.
    return output if f"\n{begins[1]}" in f"\n{inside}" else inside


def _overlap(before: str, now: str) -> int:
    """How much of what is there now was there before."""
    if now.startswith(before):
        return len(before)
    moved = before.find(now[:_OVERLAP])
    return len(before) - moved if moved >= 0 and now.startswith(before[moved:]) else 0


def usage_part(usage: JsonObject | None) -> DataPart | None:
    """The tokens of a turn in the form that fills an editor's context indicator."""
    if not usage:
        return None
    prompt, completion = _count(usage, "inputTokens"), _count(usage, "outputTokens")
    total = _count(usage, "totalTokens") or prompt + completion
    if not total:
        return None
    return DataPart.json(
        {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}, USAGE
    )


def _count(usage: JsonObject, name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
