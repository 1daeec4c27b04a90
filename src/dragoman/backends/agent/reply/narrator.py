"""Converts an agent's updates to parts.

Messages become text, thoughts thinking, pictures data. The agent's own tool calls become activities, its plan a plan, and
its token counts usage: each part is complete, and is reported only when it differs from the last one.
`lm.presentation` decides how they are shown.

Calls of the consumer's own tools are not reported here: the consumer sees them as calls.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

import msgspec

from dragoman.acp.content import TextBlock, parts_of
from dragoman.acp.messages import (
    ChunkUpdate,
    Diff,
    PlanUpdate,
    ToolActivity,
    Update,
    UsageUpdate,
    count,
)
from dragoman.diffs import file_diff
from dragoman.lm import (
    ActivityLocation,
    ActivityPart,
    JsonObject,
    Part,
    PlanEntry,
    PlanPart,
    TextPart,
    ThinkingPart,
    UsagePart,
)
from dragoman.lm.activity_text import INTERRUPTION, OUTPUT_LIMIT
from dragoman.lm.parts import ActivityKind, ActivityStatus, PlanPriority, PlanStatus
from dragoman.lm.surrogates import SurrogateJoiner

__all__ = ["Narrator", "new_activity_id"]

_KINDS: dict[object, ActivityKind] = {kind: kind for kind in get_args(ActivityKind)}
_STATUSES: dict[object, ActivityStatus] = {status: status for status in get_args(ActivityStatus)}
_PRIORITIES: dict[object, PlanPriority] = {priority: priority for priority in get_args(PlanPriority)}
_PLAN_STATUSES: dict[object, PlanStatus] = {status: status for status in get_args(PlanStatus)}
_ENDED = frozenset({"completed", "failed"})
# Agents number their tool calls; a session with more open ones than this has lost count of them itself.
_KNOWN_LIMIT = 1_000
_TITLE_LIMIT = 500
# Characters of a step's diff. More is not read in an answer, and a part is sent again with every change of its step.
_DIFF_LIMIT = 256_000
# Of a step that has something to show and no title.
_UNTITLED = "Tool call"
# By so much of its beginning a window of output is found in the one before.
_OVERLAP = 64
# Where agents have a text in a raw output that is an object.
_RAW_TEXTS = ("output", "aggregated_output", "stdout", "message", "error")
_FENCE = re.compile(r"(`{3,})[^\n`]*\n")


def new_activity_id() -> str:
    """An id that no other activity has: agents use theirs again in the next session, which may be the same response."""
    return f"act_{secrets.token_hex(8)}"


@dataclass(slots=True)
class _Known:
    """What is known of one tool call."""

    id: str
    activity: ToolActivity
    # What its terminal has printed, where the agent reports that separately and in pieces.
    printed: str = ""
    # What the agent showed last of the output, and all of it so far.
    window: str = ""
    output: str = ""
    diffs: tuple[Diff, ...] = ()
    diff: str | None = None
    # The last one that was reported.
    part: ActivityPart | None = None

    @property
    def ended(self) -> bool:
        return self.part is not None and self.part.status in _ENDED


class Narrator:
    """Follows one session."""

    def __init__(
        self, is_consumers: Callable[[ToolActivity], bool], new_id: Callable[[], str] = new_activity_id
    ) -> None:
        self._is_consumers = is_consumers
        self._new_id = new_id
        self._calls: dict[str, _Known] = {}
        self._plan = PlanPart(())
        # As last reported. The tokens in it are those of one turn.
        self._usage = UsagePart()
        self._words = SurrogateJoiner()
        self._thoughts = SurrogateJoiner()

    def known(self, activity: ToolActivity) -> ToolActivity:
        """All updates of a tool call so far, merged with this one."""
        known = self._calls.get(activity.tool_call_id)
        return known.activity.updated(activity) if known else activity

    def parts(self, update: Update) -> Iterable[Part]:
        if (
            isinstance(update, ChunkUpdate)
            and update.role == "agent"
            and isinstance(update.content, TextBlock)
        ):
            # As nearly all updates are.
            whole = self._words.feed(update.content.text)
            return (TextPart(whole),) if whole else self._interrupted()
        return self._parts(update)

    def _parts(self, update: Update) -> Iterator[Part]:
        match update:
            case ChunkUpdate(role="agent", content=content):
                yield from parts_of(content)
            case ChunkUpdate(role="thought", content=TextBlock(text=text)):
                whole = self._thoughts.feed(text)
                yield from (ThinkingPart(whole),) if whole else self._interrupted()
            case ToolActivity():
                known = self._remember(update)
                if not self._is_consumers(known.activity):
                    yield from self._report(known)
            case PlanUpdate():
                plan = PlanPart(tuple(_entries(update)))
                if plan != self._plan:
                    self._plan = plan
                    yield plan
            case UsageUpdate():
                yield from self._counted(
                    msgspec.structs.replace(
                        self._usage,
                        context_used=update.used,
                        context_size=update.size,
                        # An update without a cost says nothing about it.
                        cost=update.amount if update.amount is not None else self._usage.cost,
                        currency=update.currency if update.amount is not None else self._usage.currency,
                    )
                )
            case _:
                # The user's own messages, titles, modes, commands: nothing new to the user.
                return

    def end_turn(self) -> tuple[Part, ...]:
        """Tool calls that the agent left open are over with their turn, and so is half a character."""
        self._calls.clear()
        thought, word = self._thoughts.end(), self._words.end()
        return tuple(ThinkingPart(half) for half in thought) + tuple(TextPart(half) for half in word)

    def _interrupted(self) -> tuple[Part, ...]:
        """The parts for a chunk without text, which fast-agent sends between the updates of a tool call."""
        return (INTERRUPTION,) if self._calls else ()

    def usage(self, counted: JsonObject | None) -> tuple[Part, ...]:
        """What a turn has used, by the result of its prompt."""
        counted = counted or {}
        tokens = {name: count(counted.get(theirs)) for name, theirs in _TOKENS.items()}
        if not any(tokens[name] for name in ("input", "output", "total")):
            # An agent that does not count reports zeros.
            return ()
        parts = tuple(self._counted(msgspec.structs.replace(self._usage, **tokens)))
        self._usage = msgspec.structs.replace(self._usage, **dict.fromkeys(_TOKENS))
        return parts

    def _counted(self, usage: UsagePart) -> Iterator[Part]:
        if usage != self._usage:
            self._usage = usage
            yield usage

    def _remember(self, update: ToolActivity) -> _Known:
        known = self._calls.get(update.tool_call_id)
        if known is None:
            if len(self._calls) >= _KNOWN_LIMIT:
                del self._calls[next(iter(self._calls))]
            known = self._calls[update.tool_call_id] = _Known(self._new_id(), update)
        else:
            known.activity = known.activity.updated(update)
        if not known.ended and len(known.printed) <= OUTPUT_LIMIT:
            known.printed += update.terminal_output
        return known

    def _report(self, known: _Known) -> Iterator[Part]:
        activity = known.activity
        if activity.status == "pending" and activity.raw_input == {}:
            # Its input is still being written, and until then Claude calls every command "Terminal".
            return
        _take_output(known)
        diffs = activity.diffs
        if diffs and diffs != known.diffs:
            known.diffs = diffs
            whole = "\n".join(file_diff(each.path, each.old_text, each.new_text) for each in diffs)
            known.diff = (
                whole if len(whole) <= _DIFF_LIMIT else whole[: whole.rfind("\n", 0, _DIFF_LIMIT) + 1]
            )
        status = (
            known.part.status if known.part and known.ended else _STATUSES.get(activity.status, "pending")
        )
        title = (activity.title or activity.name or "")[:_TITLE_LIMIT]
        if not title and known.diff is None and not known.output and status not in _ENDED:
            return
        part = ActivityPart(
            known.id,
            title or _UNTITLED,
            _KINDS.get(activity.kind, "other"),
            status,
            tuple(ActivityLocation(place.path, place.line) for place in activity.locations or ()),
            known.diff,
            known.output or None,
            activity.exit_status,
        )
        if part != known.part:
            known.part = part
            yield part


_TOKENS = {
    "input": "inputTokens",
    "output": "outputTokens",
    "total": "totalTokens",
    "cached": "cachedReadTokens",
    "reasoning": "thoughtTokens",
}


def _entries(plan: PlanUpdate) -> Iterator[PlanEntry]:
    for entry in plan.entries:
        yield PlanEntry(
            entry.content,
            _PRIORITIES.get(entry.priority, "medium"),
            _PLAN_STATUSES.get(entry.status, "pending"),
        )


def _take_output(known: _Known) -> None:
    """Append new output. Some agents send a sliding window of it: then only the new end is appended."""
    before, now = known.window, _unfenced(known.activity.text) or known.printed or _raw(known.activity)
    if now in before:
        return
    known.window = now
    same = _overlap(before, now)
    whole = known.output + now[same:] if same else now
    known.output = whole[: OUTPUT_LIMIT + 1]


def _raw(activity: ToolActivity) -> str:
    """The raw output, of agents that report output in no other way: old Codex for commands, Copilot for errors.

    Not a raw output that is only a text: Claude sends there what is for its model.
    """
    if activity.status not in _ENDED or not isinstance(activity.raw_output, dict):
        return ""
    texts = (activity.raw_output.get(name) for name in _RAW_TEXTS)
    return next((text for text in texts if isinstance(text, str)), "")


def _unfenced(output: str) -> str:
    """Output without the fence that Claude puts around it. With it, growing output would look like new output."""
    begins = _FENCE.match(output)
    if begins is None or not output.endswith(f"\n{begins[1]}"):
        return output
    inside = output[begins.end() : -len(begins[1]) - 1]
    # Otherwise these are two fences.
    return output if f"\n{begins[1]}" in f"\n{inside}" else inside


def _overlap(before: str, now: str) -> int:
    """How many characters at the beginning of `now` are the end of `before`."""
    if now.startswith(before):
        return len(before)
    moved = before.find(now[:_OVERLAP])
    return len(before) - moved if moved >= 0 and now.startswith(before[moved:]) else 0
