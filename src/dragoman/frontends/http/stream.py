"""Convert parts to the events of a response. Values in, values out: no I/O, no clock.

A response is a list of items, one open at a time. Text opens a *message* with one part of text, thinking a *reasoning*
item. More text or thinking is added to its open item; any other part closes that item first. A call is an item that is
complete at once. Only items of activities and plans (`activity_items`) and those of an endpoint (`foreign_outputs`) stay
open beside others. So the order of events is that of the specification, for any order of parts:

    response.created, response.in_progress,
    { output_item.added, { content_part.added, delta…, done, content_part.done }, output_item.done },
    response.completed | response.incomplete | error, response.failed

An item that is open when the response stops early is incomplete, and is the last. Every event has the next number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from dragoman.frontends.http.activity_items import ActivityItem
from dragoman.frontends.http.approvals import approval_item
from dragoman.frontends.http.errors import ApiError
from dragoman.frontends.http.foreign_outputs import EventFields, ForeignOutputs, picture_item
from dragoman.frontends.http.resource import Resource
from dragoman.lm import (
    ActivityPart,
    DataPart,
    JsonObject,
    Part,
    PlanPart,
    Stopped,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from dragoman.lm.foreign_items import is_heading, item_of
from dragoman.lm.json import decode, encode_text
from dragoman.lm.parts import (
    ANNOTATION,
    IGNORED,
    ITEM,
    ITEM_EVENT,
    LOGPROBS,
    REFUSAL,
    STATEFUL_MARKER,
    STOPPED,
    progress_key,
)

__all__ = ["MESSAGE_ID", "ReasoningEvents", "ResponseStream"]

# How thinking is sent: as a summary, which OpenAI's clients and those of the specification know; or as the content of its
# item, under the specification's names or under those that OpenAI and most servers send.
ReasoningEvents: TypeAlias = Literal["summary", "spec", "openai"]
# A message is named after our marker, so that a client which gives its items back proves where they belong.
MESSAGE_ID = "msg_"

_Kind: TypeAlias = Literal["text", "refusal", "thought", "summary"]
_STEMS: dict[_Kind, str] = {
    "text": "response.output_text",
    "refusal": "response.refusal",
    "summary": "response.reasoning_summary_text",
}
_REASONING: dict[ReasoningEvents, str] = {"spec": "response.reasoning", "openai": "response.reasoning_text"}
# What an endpoint's reasoning item has, beside its text.
_REASONING_FIELDS = ("summary", "content", "encrypted_content")
_EMPTY_REASONING: JsonObject = {"content": [], "status": "completed"}


class ResponseStream:
    """Builds the events of one response from parts. `resource` is the response so far."""

    def __init__(
        self,
        resource: Resource,
        *,
        reasoning: ReasoningEvents = "summary",
        as_approval: Callable[[ToolCallPart], bool] = lambda _call: False,
    ) -> None:
        """`as_approval` selects the calls that become approval items."""
        self.resource = resource
        self._thought: _Kind = "summary" if reasoning == "summary" else "thought"
        self._stems = {**_STEMS, "thought": _REASONING.get(reasoning, "")}
        self._as_approval = as_approval
        self._new_id = resource.derived_ids
        self._number = 0
        self._open: _Open | None = None
        # By progress key: a later part with the same key replaces the earlier one.
        self._activities: dict[str, ActivityItem] = {}
        self._foreign = ForeignOutputs(resource.output)
        # Fields of the next message, and the log probabilities of the next text, as an endpoint names them.
        self._heading: JsonObject = {}
        self._logprobs: list[object] = []
        self._marker: str | None = None
        self._stop: Stopped | None = None

    def so_far(self) -> JsonObject:
        """The response as it is now, with the item that still grows."""
        whole = self.resource.as_json()
        if (item := self._open) is not None:
            growing = item.as_json("in_progress", [item.part("".join(item.texts))])
            whole["output"] = [*self.resource.output, growing]
        return whole

    def skip_to(self, number: int) -> None:
        """Give the next event at least this number."""
        self._number = max(self._number, number)

    def begin(self) -> Iterator[JsonObject]:
        yield self._whole("response.created")
        yield self._whole("response.in_progress")

    def take(self, part: Part) -> Iterator[JsonObject]:
        match part:
            case TextPart(value=text):
                yield from self._say("text", text)
            case ThinkingPart(metadata={"item": dict() as item}):
                yield from self._think(part, item)
            case ThinkingPart():
                yield from self._say(self._thought, part.text, part.id)
            case ToolCallPart():
                yield from self._close()
                yield from self._call(part)
            case ActivityPart() | PlanPart():
                yield from self._show(part)
            case DataPart(mime_type=mime_type) if mime_type == STATEFUL_MARKER:
                self._marker = part.data.rpartition(b"\\")[2].decode("ascii", "replace")
            case DataPart(mime_type=mime_type) if mime_type == STOPPED:
                self._stop = Stopped.of(part)
            case DataPart():
                yield from self._data(part)
            case _:
                # Usage is no part of the output.
                pass

    def _data(self, part: DataPart) -> Iterator[JsonObject]:
        match part.mime_type:
            case mime_type if mime_type == ITEM:
                item = item_of(part)
                yield from self._close()
                if is_heading(item):
                    self._heading = item
                else:
                    yield from self._named(self._foreign.whole(item))
            case mime_type if mime_type == ITEM_EVENT:
                if self._foreign.begins_item(part):
                    yield from self._close()
                yield from self._named(self._foreign.event(part))
            case mime_type if mime_type == REFUSAL:
                yield from self._say("refusal", part.data.decode("utf-8", "replace"))
            case mime_type if mime_type == ANNOTATION:
                yield from self._annotate(item_of(part))
            case mime_type if mime_type == LOGPROBS:
                found = decode(part.data)
                self._logprobs += found if isinstance(found, list) else []
            case mime_type if mime_type == IGNORED:
                self.resource.add_ignored(part)
            case mime_type if mime_type.startswith("image/"):
                yield from self._close()
                yield from self._named(self._foreign.whole(picture_item(part, self._new_id("ig"))))
            case _:
                # Data for other consumers.
                pass

    def complete(self, now: int) -> Iterator[JsonObject]:
        """Yield the last events of a response whose model has ended."""
        stop = self._stop
        if stop is None:
            yield from self._close()
            yield from self._end_others()
            self.resource.status, self.resource.completed_at = "completed", now
            yield self._whole("response.completed")
            return
        if stop.reason == "content_filter":
            # The refusal is the last content, also after other text.
            yield from self._say("refusal", stop.words)
        yield from self._close("incomplete")
        yield from self._end_others()
        self.resource.status, self.resource.stop = "incomplete", stop.reason
        yield self._whole("response.incomplete")

    def cancel(self) -> Iterator[JsonObject]:
        """Yield the last events of a response that was cancelled by its id. OpenAI has no name for such an end."""
        yield from self._close("incomplete")
        yield from self._end_others()
        self.resource.status = "cancelled"
        yield self._whole("response.incomplete")

    def fail(self, error: ApiError) -> Iterator[JsonObject]:
        yield from self._close("incomplete")
        yield from self._end_others()
        self.resource.status, self.resource.error = "failed", error
        yield self._event("error", {"error": error.payload})
        yield self._whole("response.failed")

    # Items.

    def _say(self, kind: _Kind, text: str, id_: str | None = None) -> Iterator[JsonObject]:
        """Add a text to the open item, or to a new one. `id_` is the id of an endpoint's reasoning item."""
        if not text:
            return
        is_same = self._open is not None and self._open.kind == kind and (id_ is None or self._open.id == id_)
        if not is_same:
            yield from self._close()
            yield from self._begin(kind, id_)
        item = self._open
        if item is None:
            raise AssertionError("an item was just opened")
        item.texts.append(text)
        logprobs = self._take_logprobs(item)
        yield self._event(f"{self._stems[kind]}.delta", {**item.place, "delta": text, **logprobs})

    def _take_logprobs(self, item: _Open) -> JsonObject:
        """Return `logprobs` for text events: the official client's types require the field."""
        if item.kind != "text":
            return {}
        taken, self._logprobs = self._logprobs, []
        item.logprobs += taken
        return {"logprobs": taken}

    def _think(self, part: ThinkingPart, item: JsonObject) -> Iterator[JsonObject]:
        """Add an endpoint's reasoning item. It came with its end, after its text."""
        yield from self._say(self._thought, part.text, part.id)
        if self._open is not None and self._open.kind == self._thought and self._open.id == part.id:
            self._open.fields = {key: item[key] for key in _REASONING_FIELDS if item.get(key) is not None}
            yield from self._close()
        else:
            yield from self._close()
            yield from self._named(self._foreign.whole({**_EMPTY_REASONING, **item}))

    def _annotate(self, annotation: JsonObject) -> Iterator[JsonObject]:
        """Add an annotation to the open text. Its indexes are those of that text."""
        item = self._open
        if item is None or item.kind != "text":
            return
        number = len(item.annotations)
        item.annotations.append(annotation)
        fields: JsonObject = {**item.place, "annotation_index": number, "annotation": annotation}
        yield self._event("response.output_text.annotation.added", fields)

    def _begin(self, kind: _Kind, given_id: str | None = None) -> Iterator[JsonObject]:
        index = len(self.resource.output)
        if kind == self._thought:
            id_ = given_id or self._new_id("rs")
        elif self._marker:
            id_ = f"{MESSAGE_ID}{index}_{self._marker}"
        else:
            id_ = self._new_id("msg")
        self._open = item = _Open(kind, id_, index)
        if kind != self._thought:
            item.fields, self._heading = self._heading, {}
        added = {"output_index": index, "item": item.as_json("in_progress", [])}
        yield self._event("response.output_item.added", added)
        yield self._event(f"{item.part_stem}.added", {**item.place, "part": item.part("")})

    def _close(self, status: Literal["completed", "incomplete"] = "completed") -> Iterator[JsonObject]:
        item, self._open = self._open, None
        if item is None:
            return
        text = "".join(item.texts)
        name = "refusal" if item.kind == "refusal" else "text"
        logprobs: JsonObject = {"logprobs": item.logprobs} if item.kind == "text" else {}
        done = {**item.place, name: text, **logprobs}
        yield self._event(f"{self._stems[item.kind]}.done", done)
        part = item.part(text)
        yield self._event(f"{item.part_stem}.done", {**item.place, "part": part})
        # No other item begins while this one is open, so its index is still the same.
        whole = item.as_json(status, [part])
        self.resource.output.append(whole)
        yield self._event("response.output_item.done", {"output_index": item.index, "item": whole})

    def _call(self, call: ToolCallPart) -> Iterator[JsonObject]:
        index = len(self.resource.output)
        if self._as_approval(call):
            item = approval_item(call)
            self.resource.output.append(item)
            yield self._event("response.output_item.added", {"output_index": index, "item": item})
            yield self._event("response.output_item.done", {"output_index": index, "item": item})
            return
        arguments = call.unparsed if call.unparsed is not None else encode_text(call.input)
        item = {
            "type": "function_call",
            "id": self._new_id("fc"),
            "call_id": call.call_id,
            "name": call.name,
            "arguments": arguments,
            "status": "completed",
        }
        self.resource.output.append(item)
        begun = {**item, "arguments": "", "status": "in_progress"}
        place = {"item_id": item["id"], "output_index": index}
        yield self._event("response.output_item.added", {"output_index": index, "item": begun})
        yield self._event("response.function_call_arguments.delta", {**place, "delta": arguments})
        yield self._event("response.function_call_arguments.done", {**place, "arguments": arguments})
        yield self._event("response.output_item.done", {"output_index": index, "item": item})

    def _show(self, part: ActivityPart | PlanPart) -> Iterator[JsonObject]:
        item = self._activities.get(progress_key(part))
        if item is None:
            yield from self._close()
            item = ActivityItem(part, self._new_id("plan"), len(self.resource.output))
            self._activities[progress_key(part)] = item
            self.resource.output.append(item.as_json())
            added = {"output_index": item.index, "item": item.as_json()}
            yield self._event("response.output_item.added", added)
        elif part == item.part:
            return
        else:
            item.part = part
            if item.is_done or not item.has_ended:
                self.resource.output[item.index] = shown = item.as_json()
                place = {"item_id": item.id, "output_index": item.index}
                yield self._event(item.updated, {**place, "item": shown})
        if item.has_ended and not item.is_done:
            yield self._end_activity(item)

    def _end_activity(self, item: ActivityItem) -> JsonObject:
        item.is_done = True
        self.resource.output[item.index] = whole = item.as_json()
        return self._event("response.output_item.done", {"output_index": item.index, "item": whole})

    def _end_others(self) -> Iterator[JsonObject]:
        """End the items that stayed open beside the last one: those of an endpoint, activities and plans."""
        yield from self._named(self._foreign.end())
        for item in self._activities.values():
            if not item.is_done:
                yield self._end_activity(item)

    # Events.

    def _named(self, events: Iterator[EventFields]) -> Iterator[JsonObject]:
        for kind, fields in events:
            yield self._event(kind, fields)

    def _whole(self, kind: str) -> JsonObject:
        return self._event(kind, {"response": self.resource.as_json()})

    def _event(self, kind: str, fields: JsonObject) -> JsonObject:
        event: JsonObject = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return event


class _Open:
    """The open item: a message or a reasoning item that may still grow."""

    def __init__(self, kind: _Kind, id_: str, index: int) -> None:
        self.kind: _Kind = kind
        self.id = id_
        self.index = index
        self.texts: list[str] = []
        self.annotations: list[JsonObject] = []
        self.logprobs: list[object] = []
        # Further fields, as an endpoint named them.
        self.fields: JsonObject = {}

    @property
    def place(self) -> JsonObject:
        family = "summary" if self.kind == "summary" else "content"
        return {"item_id": self.id, "output_index": self.index, f"{family}_index": 0}

    @property
    def part_stem(self) -> str:
        return "response.reasoning_summary_part" if self.kind == "summary" else "response.content_part"

    def part(self, text: str) -> JsonObject:
        match self.kind:
            case "text":
                return {
                    "type": "output_text",
                    "text": text,
                    "annotations": list(self.annotations),
                    "logprobs": list(self.logprobs),
                }
            case "refusal":
                return {"type": "refusal", "refusal": text}
            case "thought":
                return {"type": "reasoning_text", "text": text}
            case "summary":
                return {"type": "summary_text", "text": text}

    def as_json(self, status: str, content: list[JsonObject]) -> JsonObject:
        if self.kind in ("thought", "summary"):
            # The specification allows no `content` in a reasoning item that comes back, so one with a summary has none.
            texts = {"summary": content} if self.kind == "summary" else {"summary": [], "content": content}
            return {
                "type": "reasoning",
                "id": self.id,
                **texts,
                "encrypted_content": None,
                "status": status,
                **self.fields,
            }
        return {
            "type": "message",
            "id": self.id,
            "status": status,
            "role": "assistant",
            **self.fields,
            "content": content,
        }
