"""The stream rules: what a response may be made of.

`RULES` is the list, each with the sentence that states it and the place it comes from (the section of the provider
stream semantics, or what an editor was seen to do). `StreamWatch` follows one response and says which rule a part
breaks. It does no I/O, emits nothing and changes nothing: the guard uses it to refuse, the checker to report.
"""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass
from typing import Literal, TypeGuard, get_args

from dragoman.lm.foreign_items import is_call, is_heading, item_of
from dragoman.lm.parts import (
    ITEM,
    REFUSAL,
    ActivityKind,
    ActivityLocation,
    ActivityNote,
    ActivityPart,
    ActivityStatus,
    DataPart,
    PlanEntry,
    PlanPart,
    PlanPriority,
    PlanStatus,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
)
from dragoman.lm.request import Request
from dragoman.visible import hides

__all__ = [
    "CALL_ID",
    "CALL_ID_LIMIT",
    "NAMESPACE",
    "RULES",
    "Rule",
    "StreamWatch",
    "Violation",
    "is_shown",
    "is_visible",
]

NAMESPACE = "dg_"
CALL_ID_LIMIT = 64
CALL_ID = re.compile(r"[A-Za-z0-9_-]+")
# VS Code adds `__vscode-n` to a call id and cuts it off again at the first place it finds it.
_RESERVED = "__vscode"

_KINDS = frozenset(get_args(ActivityKind))
_STATUSES = frozenset(get_args(ActivityStatus))
_ENDED = frozenset({"completed", "failed"})
_PRIORITIES = frozenset(get_args(PlanPriority))
_PLAN_STATUSES = frozenset(get_args(PlanStatus))
_COUNTS = ("input", "output", "total", "cached", "reasoning", "context_used", "context_size")


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    title: str
    sentence: str
    source: str
    level: Literal["must", "should"] = "must"


RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        Rule(
            "S1",
            "order kept",
            "Parts reach the consumer in the order they were reported; none is reported after the response has ended "
            "or from another thread.",
            "1.1 Ordering; 8.1 Ordered emission",
        ),
        Rule(
            "S2",
            "parts atomic",
            "Each report is one whole part of a known type with fields of the right types, and text is Unicode without "
            "halves of characters.",
            "1.1 Atomicity; 2.2 Content; 6.1",
        ),
        Rule(
            "S3",
            "no tool results",
            "A tool result stands in a message, never in a response.",
            "1.2 Important; 6.1",
        ),
        Rule(
            "S4.unique",
            "call ids unique",
            "No call id occurs twice in a response or again later.",
            "3.2 Uniqueness; 8.1",
        ),
        Rule(
            "S4.legal",
            "call ids legal",
            f"A call id has 1 to {CALL_ID_LIMIT} characters of A–Z, a–z, 0–9, _ and -, and does not contain "
            f"'{_RESERVED}'.",
            "VS Code appends its own suffix; Open Responses limits the length",
        ),
        Rule(
            "S4.namespaced",
            "call ids namespaced",
            f"A call id begins with '{NAMESPACE}', so that two providers never issue the same.",
            "3.3 Namespacing; 8.2",
            "should",
        ),
        Rule(
            "S5",
            "tool was offered",
            "A call names a tool that the request offered, unless the consumer answers any other with an error.",
            "3.1 name",
        ),
        Rule(
            "S6",
            "nothing after cancellation",
            "Once the token is cancelled no part is reported, and the response resolves.",
            "1.1 Cancellation; 5.2; VS Code drops what comes later",
        ),
        Rule(
            "S7",
            "input is an object",
            "The input of a call is a complete JSON object.",
            "3.1 input; 3.2 Completeness",
        ),
        Rule(
            "S8",
            "errors keep what was said",
            "A failure before any part rejects with a LanguageModelError; after parts it keeps them.",
            "5.3",
        ),
        Rule(
            "S9",
            "answers are visible",
            "A response has text that a person can see, which is more than white space, or a tool call; or a file or an item, if "
            "the consumer shows them itself.",
            "5.3 rationale; VS Code shows 'no response' otherwise",
        ),
        Rule(
            "S10",
            "thinking is marked",
            "Thinking is reported as thinking, and shown as the consumer's features and the configuration say.",
            "2.4; 9.3",
        ),
        Rule(
            "S11",
            "data intact and visible",
            "A data part has a mime type and bytes, which reach the consumer unchanged, with a visible line beside it unless "
            "the consumer shows files itself.",
            "4.2; 4.3",
        ),
        Rule("S12", "every rule has an id", "A broken rule is reported by its id.", "this list"),
        Rule(
            "S13",
            "links are inert",
            "Text has no active `command:` link and no link to the editor's pseudo hosts.",
            "2.6",
        ),
        Rule(
            "S14",
            "activities and plans whole",
            "An activity has an id, a title, and a kind and a status that ACP knows, and so have the entries of a plan; all "
            "their fields have the right types.",
            "ACP: tool calls, plans",
        ),
        Rule(
            "S15",
            "activities end once",
            "An activity that completed or failed keeps that status in every later part with its id.",
            "ACP: tool calls",
        ),
        Rule(
            "S16",
            "usage as counted",
            "A usage has at least one number; each is one that the provider named, finite and not negative.",
            "ACP: usage_update; Open Responses: usage",
        ),
        Rule(
            "T14",
            "required call made",
            "Where the request requires a tool call, a response that is complete has made one.",
            "VS Code's tool mode 'required'",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Violation:
    rule: Rule
    detail: str
    part: object = None

    def __str__(self) -> str:
        return f"{self.rule.id} ({self.rule.title}): {self.detail}"


def is_visible(text: str) -> bool:
    """Whether there is anything to see in it: not white space, not characters without a form of their own."""
    return any(not char.isspace() and not hides(char) for char in text)


def is_shown(part: DataPart) -> bool:
    """Whether a consumer shows this data part: a picture, a file, a refusal or an item."""
    if part.mime_type == ITEM:
        return not is_heading(item_of(part))
    return part.mime_type == REFUSAL or not part.is_internal


class StreamWatch:
    """Follows one response. `violation` is asked before each part, `missing` once at the end."""

    def __init__(self, request: Request) -> None:
        self._offered = {tool.name for tool in request.options.tools}
        self._unparsed_calls = request.consumer.features.unparsed_calls
        self._shows_files = request.consumer.features.items
        self._unknown_calls = request.consumer.features.unknown_calls
        # Those of results too: a consumer may have dropped the call that a result belongs to.
        self._call_ids = {call.call_id for message in request.messages for call in message.calls}
        self._call_ids.update(result.call_id for message in request.messages for result in message.results)
        self._thread = threading.get_ident()
        self._requires_call = request.options.tool_mode == "required"
        self._called = False
        self._visible = False
        # How each activity ended, by its id.
        self._activities_ended: dict[str, str] = {}
        self.ended = False

    def violation(self, part: object) -> Violation | None:
        """The rule that `part` breaks here, if any; otherwise it counts as reported."""
        if (
            type(part) is TextPart
            and self._visible
            and not self.ended
            and threading.get_ident() == self._thread
            and type(part.value) is str
            and part.value.isascii()
        ):
            # Nearly all parts are of this kind, and nothing can be wrong with them.
            return None
        found = self._check(part)
        if found is not None:
            rule, detail = found
            return Violation(RULES[rule], detail, part)
        if isinstance(part, TextPart):
            # As nearly all parts are.
            self._visible = self._visible or is_visible(part.value)
        elif isinstance(part, ToolCallPart):
            self._call_ids.add(part.call_id)
            self._called = self._visible = True
        elif isinstance(part, DataPart):
            self._visible = self._visible or (self._shows_files and is_shown(part))
            self._called = self._called or (part.mime_type == ITEM and is_call(item_of(part)))
        elif isinstance(part, ActivityPart) and part.status in _ENDED:
            self._activities_ended[part.id] = part.status
        return None

    def missing(self) -> Violation | None:
        """What the response lacks, now that it is complete. A call that was required matters more than words."""
        if self._requires_call and not self._called:
            return Violation(RULES["T14"], "a tool call was required and none was made")
        if self._visible:
            return None
        return Violation(RULES["S9"], "the answer has no text and no tool call")

    def _check(self, part: object) -> tuple[str, str] | None:
        if self.ended:
            return "S1", "a part was reported after the response had ended"
        if threading.get_ident() != self._thread:
            return "S1", "a part was reported from another thread"
        # A provider in Python can build a part of anything, so its fields are looked at as objects.
        match part:
            case TextPart():
                return (
                    None
                    if _is_text(part.value)
                    else ("S2", "the value of a text part is not a string of text")
                )
            case ThinkingPart():
                return self._check_thinking(part)
            case ToolCallPart():
                return self._check_call(part)
            case DataPart():
                if not _is(part.data, bytes):
                    return "S11", "the data of a data part is not bytes"
                if not _is_text(part.mime_type) or not part.mime_type:
                    return "S11", "a data part has no mime type"
                return None
            case ActivityPart():
                return self._check_activity(part)
            case PlanPart():
                return _check_plan(part)
            case UsagePart():
                return _check_usage(part)
            case ToolResultPart(call_id=call_id):
                return "S3", f"a tool result for {call_id!r} was reported"
            case _:
                return "S2", f"{type(part).__name__} is not a part"

    def _check_thinking(self, part: ThinkingPart) -> tuple[str, str] | None:
        value: object = part.value
        if not (_is_text(value) or (isinstance(value, tuple | list) and all(map(_is_text, value)))):
            return "S2", "the value of a thinking part is neither a string nor strings"
        if not (part.id is None or _is_text(part.id)):
            return "S2", "the id of a thinking part is not a string"
        if not (part.metadata is None or _is_json_object(part.metadata)):
            return "S2", "the metadata of a thinking part is not a JSON object"
        return None

    def _check_call(self, call: ToolCallPart) -> tuple[str, str] | None:
        call_id = call.call_id
        if not _is(call_id, str) or not _is(call.name, str):
            return "S2", "the call id and the name of a call must be strings"
        if not CALL_ID.fullmatch(call_id) or len(call_id) > CALL_ID_LIMIT or _RESERVED in call_id:
            return "S4.legal", f"the call id {call_id!r} is not legal"
        if call_id in self._call_ids:
            return "S4.unique", f"the call id {call_id!r} was used before"
        if not call_id.startswith(NAMESPACE):
            return "S4.namespaced", f"the call id {call_id!r} does not begin with {NAMESPACE!r}"
        if call.name not in self._offered and not self._unknown_calls:
            return "S5", f"the tool {call.name!r} was not offered"
        if not _is_json_object(call.input):
            return "S7", f"the input of {call.name!r} is not a JSON object"
        if call.unparsed is not None and not self._unparsed_calls:
            return "S7", f"the arguments of {call.name!r} are not a JSON object"
        return None

    def _check_activity(self, part: ActivityPart) -> tuple[str, str] | None:
        if not (_is_text(part.id) and part.id and _is_text(part.title) and part.title):
            return "S14", "an activity needs an id and a title"
        if part.kind not in _KINDS or part.status not in _STATUSES:
            return (
                "S14",
                f"the activity {part.id!r} has the kind {part.kind!r} and the status {part.status!r}",
            )
        texts = (part.diff, part.output, part.text if isinstance(part, ActivityNote) else None)
        if not all(text is None or _is_text(text) for text in texts):
            return "S14", f"a text of the activity {part.id!r} is not a string of text"
        if not (part.exit_status is None or _is_whole(part.exit_status)):
            return "S14", f"the exit status of the activity {part.id!r} is not a number"
        if not _is(part.locations, tuple) or not all(map(_is_location, part.locations)):
            return "S14", f"the locations of the activity {part.id!r} are not places in files"
        ended = self._activities_ended.get(part.id, part.status)
        if part.status != ended:
            return "S15", f"the activity {part.id!r} has {ended}, and is {part.status} again"
        return None


def _is_location(value: object) -> bool:
    return (
        isinstance(value, ActivityLocation)
        and _is_text(value.path)
        and (value.line is None or _is_whole(value.line))
    )


def _check_plan(plan: PlanPart) -> tuple[str, str] | None:
    if _is(plan.entries, tuple) and all(map(_is_entry, plan.entries)):
        return None
    return "S14", "a plan has an entry without a text, a known priority or a known status"


def _is_entry(value: object) -> bool:
    return (
        isinstance(value, PlanEntry)
        and _is_text(value.text)
        and value.priority in _PRIORITIES
        and value.status in _PLAN_STATUSES
    )


def _check_usage(usage: UsagePart) -> tuple[str, str] | None:
    counts = [count for name in _COUNTS if (count := getattr(usage, name)) is not None]
    cost: object = usage.cost
    if not counts and cost is None:
        return "S16", "a usage has no number"
    if not all(_is_whole(count) and count >= 0 for count in counts):
        return "S16", "a number of a usage is not a whole number from 0 up"
    if cost is not None and not (_is_number(cost) and cost >= 0):
        return "S16", "the cost of a usage is not a number from 0 up"
    if not (usage.currency is None or _is_text(usage.currency)):
        return "S16", "the currency of a usage is not a string"
    return None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _is_text(value: object) -> bool:
    """A string that can be sent: half of a surrogate pair cannot."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_json_object(value: object) -> bool:
    try:
        return isinstance(value, dict) and _is_json(value)
    except RecursionError:
        # It contains itself, or might as well.
        return False


def _is_json(value: object) -> bool:
    match value:
        case None | bool() | int():
            return True
        case float():
            return math.isfinite(value)
        case str():
            return _is_text(value)
        case list():
            return all(map(_is_json, value))
        case dict():
            return all(_is_text(key) and _is_json(inner) for key, inner in value.items())
        case _:
            return False
