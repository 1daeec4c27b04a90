"""The rules for the events of a streamed response, which no schema can say.

`EVENT_RULES` is the list, by the sections of the Open Responses specification. `EventWatch` follows one stream and records
what is kept and what is broken. What it knows of a response it learns from the events alone, and it takes whatever JSON
comes: the stream may be anybody's. It does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from dragoman.backends.responses.sse import ServerEvent
from dragoman.lm import JsonObject
from dragoman.lm.json import decode
from dragoman.lm.rules import Rule, Violation

__all__ = ["EVENT_RULES", "EventWatch"]

_SOURCE = "Open Responses: Streaming"
EVENT_RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        Rule(
            "E1",
            "events framed",
            "An event is a JSON object with a type, which is also its `event` field; it has no `id`.",
            _SOURCE,
        ),
        Rule("E2", "events numbered", "Every event has the next `sequence_number`, from 0.", _SOURCE),
        Rule(
            "E3",
            "begins as in progress",
            "A stream begins with `response.created` and `response.in_progress`: in progress, and without output.",
            _SOURCE,
        ),
        Rule(
            "E4",
            "ends once",
            "The last event is `response.completed`, `.incomplete` or `.failed`, and the response has that status.",
            _SOURCE,
        ),
        Rule("E5", "[DONE] follows", "After the last event comes the literal `data: [DONE]`.", _SOURCE),
        Rule(
            "E6",
            "events known",
            "An event has a name of the specification's, or one of its own with a prefix: `slug:name`. Thinking may "
            "have OpenAI's name.",
            f"{_SOURCE}; Extending",
        ),
        Rule(
            "E7",
            "items in order",
            "An item begins with `output_item.added` at the next index and ends with `output_item.done`; whatever comes "
            "between names it by its id and index.",
            f"{_SOURCE}; Items",
        ),
        Rule(
            "E8",
            "one item at a time",
            "An item ends before the next begins. One with a type of its own, `slug:name`, may stay open.",
            f"{_SOURCE}; Items",
            "should",
        ),
        Rule(
            "E9",
            "parts in order",
            "Content is in a part: `added`, deltas, the text's `done`, the part's `done`, then the next part.",
            f"{_SOURCE}; Content",
        ),
        Rule(
            "E10",
            "texts are the sum",
            "The end of a text, its part and its item all say what the deltas said.",
            f"{_SOURCE}; Content",
        ),
        Rule(
            "E11",
            "arguments are the sum",
            "A function call streams its arguments, without a part; their end and the item say what the deltas said.",
            f"{_SOURCE}; Function calls",
        ),
        Rule(
            "E12",
            "the end repeats",
            "The response at the end has the items as they were told.",
            _SOURCE,
        ),
        Rule(
            "E13",
            "incomplete is last",
            "An item that is incomplete is the last one, and its response is not `completed`.",
            "Open Responses: Item states",
        ),
        Rule(
            "E14",
            "every field is there",
            "A response has all 31 fields; those without a value are null.",
            "Open Responses: the response resource",
        ),
        Rule(
            "E15",
            "errors in their form",
            "An error has a message, a type, a param and a code; in a stream `response.failed` follows it.",
            "Open Responses: Errors",
        ),
    )
}

# fmt: off
_FIELDS = frozenset({
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id",
    "instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
    "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "max_output_tokens",
    "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
})
# fmt: on
_ERROR_FIELDS = frozenset({"message", "type", "param", "code"})
_BEGINNINGS = ("response.created", "response.queued", "response.in_progress")
_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_Family: TypeAlias = Literal["content", "summary"]
# Parts by the stem of their events; vLLM has a name of its own for those of thinking.
_PARTS: dict[str, _Family] = {
    "response.content_part": "content",
    "response.reasoning_part": "content",
    "response.reasoning_summary_part": "summary",
}
# Texts by the stem of theirs: in which part, and under which name the end has it.
_TEXTS = {
    "response.output_text": ("output_text", "text"),
    "response.refusal": ("refusal", "refusal"),
    "response.reasoning": ("reasoning_text", "text"),
    "response.reasoning_text": ("reasoning_text", "text"),
    "response.reasoning_summary_text": ("summary_text", "text"),
}
_ARGUMENTS = "response.function_call_arguments"
_KNOWN = frozenset(
    (
        *_BEGINNINGS,
        *_ENDS,
        "error",
        "response.output_text.annotation.added",
        *(
            f"response.{name}.{step}"
            for name in ("output_item", "content_part")
            for step in ("added", "done")
        ),
        *(f"response.reasoning_summary_part.{step}" for step in ("added", "done")),
        *(f"{stem}.{step}" for stem in (*_TEXTS, _ARGUMENTS) for step in ("delta", "done")),
    )
)
_DONE = b"[DONE]"


@dataclass(slots=True)
class _Part:
    type: object
    said: list[str] = field(default_factory=list)
    is_said: bool = False
    is_done: bool = False

    @property
    def text(self) -> str:
        return "".join(self.said)


@dataclass(slots=True)
class _Item:
    id: object
    type: object
    parts: dict[_Family, list[_Part]] = field(default_factory=lambda: {"content": [], "summary": []})
    arguments: list[str] = field(default_factory=list)
    are_arguments_done: bool = False
    # As its end tells it.
    whole: JsonObject | None = None

    @property
    def is_own(self) -> bool:
        """Whether its type is an extension's and not the specification's."""
        return ":" in str(self.type)


class EventWatch:
    """Follows one stream. `frame` takes what comes as server-sent events, `take` what comes in another way; then `end`."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        # How often each rule might have been broken and was not.
        self.kept: Counter[str] = Counter()
        self._event: JsonObject = {}
        self._count = 0
        self._begun: list[str] = []
        self._items: dict[int, _Item] = {}
        self._ids: list[object] = []
        self._has_failed = False
        self._end: str | None = None
        self._was_done: bool | None = None

    def frame(self, event: ServerEvent) -> None:
        self._was_done = bool(self._was_done)
        if event.data.strip() == _DONE:
            self._was_done = True
            return
        try:
            value = decode(event.data)
        except msgspec.DecodeError:
            value = None
        self._event = value if isinstance(value, dict) else {}
        self._expect("E1", isinstance(value, dict) and isinstance(value.get("type"), str), "is no event")
        if not isinstance(value, dict):
            return
        self._expect("E5", not self._was_done, "comes after [DONE]")
        self._expect("E1", event.name == value.get("type"), f"is called {event.name!r}")
        self._expect("E1", event.id is None, "has an id")
        self.take(value)

    def take(self, event: JsonObject) -> None:
        self._event = event
        kind = str(event.get("type"))
        self._expect(
            "E2", event.get("sequence_number") == self._count, f"should have the number {self._count}"
        )
        self._count += 1
        self._expect("E6", kind in _KNOWN or ":" in kind, "is no event of the specification")
        self._expect("E4", self._end is None, "comes after the end")
        if self._has_failed:
            self._expect("E15", kind == "response.failed", "comes after an error")
        stem, _, step = kind.rpartition(".")
        if kind in _BEGINNINGS:
            self._begins(kind)
            return
        self._expect_begun()
        if kind == "error":
            self._has_failed = True
            self._error(event.get("error"))
        elif kind in _ENDS:
            self._ends(kind)
        elif kind == "response.output_item.added":
            self._added()
        elif kind == "response.output_item.done":
            self._finished()
        elif stem in _PARTS:
            self._part(_PARTS[stem], step)
        elif stem in _TEXTS:
            self._text(step, *_TEXTS[stem])
        elif stem == _ARGUMENTS:
            self._argument(step)
        elif ":" in kind and "item" in event:
            self._updated()

    def end(self) -> None:
        """No more will come."""
        self._event = {}
        self._expect("E4", self._end is not None, "the stream has no end")
        if self._was_done is not None:
            self._expect("E5", self._was_done, "the stream ended without it")

    def error(self, value: object) -> None:
        """The body of a request that was refused."""
        self._event = {}
        self._error(value.get("error") if isinstance(value, dict) else None)

    def _expect(self, rule: str, is_so: object, words: str) -> bool:
        if is_so:
            self.kept[rule] += 1
            return True
        kind = self._event.get("type")
        detail = f"{kind}: {words}" if kind is not None else words
        self.found.append(Violation(EVENT_RULES[rule], detail, self._event or None))
        return False

    # The response.

    def _begins(self, kind: str) -> None:
        follows = not self._begun if kind == _BEGINNINGS[0] else self._begun and kind not in self._begun
        self._expect("E3", follows and not self._items, "is out of place")
        self._begun.append(kind)
        response = self._response()
        self._expect("E3", response.get("status") in ("queued", "in_progress"), "has another status")
        self._expect("E3", response.get("output") == [], "has output already")

    def _expect_begun(self) -> None:
        wanted = (_BEGINNINGS[0], _BEGINNINGS[-1])
        if not set(wanted) <= set(self._begun):
            self._expect("E3", None, "comes before the beginning")
            self._begun = list(wanted)

    def _ends(self, kind: str) -> None:
        self._end = kind
        response = self._response()
        status = response.get("status")
        self._expect("E4", status == _ENDS[kind], f"has the status {status!r}")
        self._expect(
            "E15", (response.get("error") is not None) == (kind == "response.failed"), "and its `error`"
        )
        for index, item in self._items.items():
            self._expect("E7", item.whole is not None, f"leaves item {index} open")
        told = [item.whole for item in self._items.values() if item.whole is not None]
        self._expect("E12", response.get("output") == told, "repeats other items than were told")
        cut = [item.get("status") == "incomplete" for item in told]
        self._expect("E13", not any(cut[:-1]), "an incomplete item is not the last")
        self._expect("E13", not any(cut) or status != "completed", "is complete, and an item is not")

    def _response(self) -> JsonObject:
        response = _object(self._event.get("response"))
        missing = sorted(_FIELDS - response.keys())
        self._expect("E14", not missing, f"lacks {', '.join(missing)}")
        return response

    def _error(self, error: object) -> None:
        missing = sorted(_ERROR_FIELDS - _object(error).keys())
        self._expect("E15", not missing, f"an error lacks {', '.join(missing)}")

    # Items.

    def _added(self) -> None:
        index, given = self._event.get("output_index"), _object(self._event.get("item"))
        others = (item for item in self._items.values() if not item.is_own)
        self._expect("E8", all(item.whole is not None for item in others), "another is open")
        self._expect("E7", index == len(self._items), "is not at the next index")
        id_ = given.get("id")
        self._expect("E7", isinstance(id_, str) and id_ not in self._ids, "has the id of another, or none")
        self._ids.append(id_)
        self._expect("E7", not given.get("content") and not given.get("summary"), "has content already")
        self._expect("E7", given.get("status", "in_progress") == "in_progress", "is not in progress")
        if isinstance(index, int):
            self._items[index] = _Item(id_, given.get("type"))

    def _finished(self) -> None:
        given = _object(self._event.get("item"))
        item = self._item(given.get("id"))
        if item is None:
            return
        item.whole = given
        self._expect("E7", given.get("type") == item.type, "has become another")
        self._expect("E7", given.get("status") != "in_progress", "is in progress")
        parts = [part for family in item.parts.values() for part in family]
        self._expect("E9", all(part.is_done for part in parts), "leaves a part open")
        for family, told in item.parts.items():
            wanted = [(part.type, part.text) for part in told]
            self._expect("E10", list(_texts(given.get(family))) == wanted, f"has another {family}")
        if item.type == "function_call":
            self._expect("E11", item.are_arguments_done, "came before the end of its arguments")
            self._expect("E11", given.get("arguments") == "".join(item.arguments), "has other arguments")

    def _updated(self) -> None:
        """An event of an extension has an item of an extension, changed."""
        index, given = self._event.get("output_index"), _object(self._event.get("item"))
        item = self._items.get(index) if isinstance(index, int) else None
        if item is None or not item.is_own:
            return
        same = given.get("id") == item.id and given.get("type") == item.type
        self._expect("E7", same, "is of another item")
        if item.whole is not None:
            item.whole = given

    def _item(self, id_: object) -> _Item | None:
        """The open one that the event is about."""
        index = self._event.get("output_index")
        item = self._items.get(index) if isinstance(index, int) else None
        if not self._expect("E7", item is not None and item.whole is None, "has no open item"):
            return None
        self._expect("E7", item is not None and item.id == id_, "is of another item")
        return item

    # Parts.

    def _part(self, family: _Family, step: str) -> None:
        item = self._item(self._event.get("item_id"))
        if item is None:
            return
        parts = item.parts[family]
        given = _object(self._event.get("part"))
        index = self._event.get(f"{family}_index")
        if step == "added":
            self._expect("E9", all(part.is_done for part in parts), "the part before is open")
            self._expect("E9", index == len(parts), "is not the next part")
            parts.append(_Part(given.get("type")))
            return
        if not self._expect(
            "E9", parts and index == len(parts) - 1 and not parts[-1].is_done, "has not begun"
        ):
            return
        part = parts[-1]
        part.is_done = True
        self._expect("E9", part.is_said, "came before the end of its text")
        self._expect("E10", list(_texts([given])) == [(part.type, part.text)], "has another text")

    def _text(self, step: str, type_: str, name: str) -> None:
        item = self._item(self._event.get("item_id"))
        if item is None:
            return
        family: _Family = "summary" if type_ == "summary_text" else "content"
        parts = item.parts[family]
        is_there = parts and self._event.get(f"{family}_index") == len(parts) - 1
        if not self._expect(
            "E9", is_there and not parts[-1].is_said and parts[-1].type == type_, "has no open part"
        ):
            return
        part = parts[-1]
        if step == "delta":
            part.said.append(str(self._event.get("delta")))
            return
        part.is_said = True
        self._expect("E10", self._event.get(name) == part.text, "has another text")

    def _argument(self, step: str) -> None:
        item = self._item(self._event.get("item_id"))
        if item is None:
            return
        self._expect("E11", item.type == "function_call", "is of no function call")
        self._expect("E11", not item.are_arguments_done, "comes after the end of the arguments")
        if step == "delta":
            item.arguments.append(str(self._event.get("delta")))
            return
        item.are_arguments_done = True
        self._expect("E11", self._event.get("arguments") == "".join(item.arguments), "has other arguments")


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _texts(parts: object) -> Iterator[tuple[object, object]]:
    for part in parts if isinstance(parts, list) else ():
        given = _object(part)
        yield given.get("type"), given.get("refusal" if given.get("type") == "refusal" else "text")
