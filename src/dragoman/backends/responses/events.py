"""From the events of a response to parts.

Text, refusals and thinking pass as they arrive. A `.done` event, a finished part, a finished item and the response at the
end each repeat what came before them; of each, only what its deltas did not bring is emitted. A call is emitted once, whole,
when its arguments are. An item that no part has a form for is passed on whole, and so are events about it
(`lm.foreign_items`); other events of unknown kinds are ignored, as the specification asks.

Servers do not agree on ids: one item may be announced twice under two of them, its last event may have a third, or a
call's own id in the place of the item's. So an item is found by its id, by its call's id, or by its place in the output.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from dragoman.backends.responses.failures import complaint_of_event, failure
from dragoman.backends.responses.other_servers import activity_of, ignored_by, marker_of
from dragoman.lm import (
    DataPart,
    JsonObject,
    LanguageModelError,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
)
from dragoman.lm.foreign_items import FILE_ITEM, file_in_event, item_part
from dragoman.lm.gfm import escape
from dragoman.lm.parts import ANNOTATION, IGNORED, ITEM_EVENT, LOGPROBS, REFUSAL
from dragoman.lm.stops import Stopped
from dragoman.lm.surrogates import SurrogateJoiner, mended

__all__ = ["MAX_ANSWER_CHARACTERS", "ResponseReader"]

_log = logging.getLogger(__name__)

# A model that has said as much as this is in a loop. This also bounds the text that is stored for comparison.
MAX_ANSWER_CHARACTERS = 64 * 1024 * 1024

_Kind: TypeAlias = Literal["text", "refusal", "thought", "summary"]

# `response.reasoning` is the specification's name, `response.reasoning_text` what OpenAI, vLLM and others send;
# `response.reasoning_summary` is how an early description spelled the last.
_STREAMS: dict[str, _Kind] = {
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.reasoning": "thought",
    "response.reasoning_text": "thought",
    "response.reasoning_summary_text": "summary",
    "response.reasoning_summary": "summary",
}
_PARTS: dict[object, _Kind] = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "reasoning_text": "thought",
    "reasoning": "thought",
    "summary_text": "summary",
}
_PART_ENDS = frozenset(
    {"response.content_part.done", "response.reasoning_part.done", "response.reasoning_summary_part.done"}
)
# Fields of a message that are not passed on: they are made anew, or say what is in the message.
_OUR_FIELDS = frozenset({"id", "status", "content"})
_OWN_TYPES = frozenset({"message", "reasoning", "function_call"})
# A file is passed on when it is complete: what the consumer gets of it need not be an item.
_TYPES_WITHOUT_EVENTS = _OWN_TYPES | {FILE_ITEM}
_STOPS = {
    "max_output_tokens": Stopped(
        "length", "The model stopped: it reached the limit of tokens for one answer."
    ),
    "content_filter": Stopped("content_filter", "The model stopped: a content filter cut the answer off."),
}


# The fields of a usage, each with the details in it.
_USAGE: dict[str, frozenset[str]] = {
    "input_tokens": frozenset(),
    "input_tokens_details": frozenset({"cached_tokens"}),
    "output_tokens": frozenset(),
    "output_tokens_details": frozenset({"reasoning_tokens"}),
    "total_tokens": frozenset(),
}


@dataclass(slots=True)
class _Stream:
    """One text as far as it is known."""

    said: list[str] = field(default_factory=list)
    halves: SurrogateJoiner = field(default_factory=SurrogateJoiner)

    @property
    def text(self) -> str:
        return "".join(self.said)


@dataclass(slots=True)
class _Item:
    id: str
    type: str = ""
    call_id: str = ""
    name: str = ""
    streams: dict[tuple[_Kind, int], _Stream] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    # The annotations of each text, as far as they were passed on.
    annotations: dict[int, list[object]] = field(default_factory=dict)
    has_heading: bool = False
    is_finished: bool = False

    @property
    def text(self) -> str:
        return "".join(stream.text for (kind, _), stream in self.streams.items() if kind == "text")


class ResponseReader:
    """Reads one response. `feed` takes events in order; `end` is called when no more will come."""

    def __init__(
        self,
        call: Callable[[str, str, str], ToolCallPart],
        issue: Callable[[str], str],
        name: str = "The model",
        model_id: str = "",
        redacted: Callable[[str], str] = lambda text: text,
        *,
        takes_items: bool = False,
        unasked: frozenset[str] = frozenset(),
    ) -> None:
        """`call` makes a part of a call id, a name and arguments; `issue` makes a call id of the endpoint's.

        `takes_items`: the consumer does (`Features.items`). Another gets citations as a list of sources. `unasked`: fields that
        the consumer did not send, so that it need not know that a server ignored them.
        """
        self._takes_items = takes_items
        # Whether the endpoint is a server of ours: then ids of messages prove which conversation they belong to.
        self.is_dragoman = False
        self._ignored = set(unasked)
        self._has_refused = False
        self._redacted = redacted
        self._call = call
        self._issue = issue
        self._name = name
        self._model_id = model_id
        self._items: dict[str, _Item] = {}
        self._places: dict[int, _Item] = {}
        self._made: set[str] = set()
        self._size = 0
        # The text and the thought that were emitted last, to set the next ones apart.
        self._last: dict[bool, tuple[str, _Kind, int]] = {}
        self._reasoning: list[JsonObject] = []
        # By the id of a call, the reasoning that led to it, for servers that want it back.
        self.reasoning_of: dict[str, tuple[JsonObject, ...]] = {}
        self.is_complete = False

    def feed(self, event: JsonObject) -> Iterator[Part]:
        kind = event.get("type")
        if not isinstance(kind, str) or self.is_complete:
            return
        stem, _, step = kind.rpartition(".")
        yield from self._named_as_ignored(event.get("response"))
        if stem in _STREAMS and step in ("delta", "done"):
            yield from self._stream(_STREAMS[stem], step, event)
        elif kind in _PART_ENDS:
            yield from self._part(self._found(event), event.get("part"), _place_in(event))
        elif stem == "response.function_call_arguments":
            yield from self._arguments(step, event)
        elif kind == "response.output_item.added":
            yield from self._announced(event)
        elif kind == "response.output_item.done":
            yield from self._finished(event.get("item"), event.get("output_index"))
        elif kind == "response.file":
            yield from self._file(event)
        elif kind == "response.output_text.annotation.added":
            yield from self._annotated(self._found(event), event.get("annotation"), _place_in(event))
        elif kind in ("response.completed", "response.incomplete"):
            yield from self._ended(event.get("response"), cut=step == "incomplete")
        elif kind in ("error", "response.failed", "response.cancelled"):
            yield from self._text_of_failed(event.get("response"))
            complaint = complaint_of_event(event)
            raise failure(replace(complaint, message=self._redacted(complaint.message)), self._name)
        else:
            yield from self._about_item(kind, event)

    def end(self, *, was_announced: bool) -> Iterator[Part]:
        """The stream is over, by `[DONE]` if it `was_announced`. Without either of the two ends it was cut off."""
        if self.is_complete:
            return
        if not was_announced:
            raise LanguageModelError(
                "unavailable",
                f"{self._name} broke off: the connection ended before the answer did.",
                hint="Try again.",
            )
        yield from self._ended({}, cut=False)

    # --- Text and thinking. ------------------------------------------------------------------------------------------

    def _stream(self, kind: _Kind, step: str, event: JsonObject) -> Iterator[Part]:
        item, place = self._found(event), _place_in(event)
        logprobs = event.get("logprobs")
        # At the end of a text, they repeat those of its deltas.
        if self._takes_items and logprobs and (step == "delta" or not item.text):
            yield DataPart.json(logprobs, LOGPROBS)
        if step == "delta":
            delta = event.get("delta")
            if isinstance(delta, str):
                stream = item.streams.setdefault((kind, place), _Stream())
                yield from self._emit(item, kind, place, stream.halves.feed(delta))
        else:
            whole = event.get("refusal" if kind == "refusal" else "text")
            yield from self._rest(item, kind, place, whole)

    def _part(self, item: _Item, part: object, place: int) -> Iterator[Part]:
        if not isinstance(part, dict) or part.get("type") not in _PARTS:
            return
        kind = _PARTS[part.get("type")]
        yield from self._rest(item, kind, place, part.get("refusal" if kind == "refusal" else "text"))
        annotations = part.get("annotations")
        known = len(item.annotations.get(place, ()))
        for annotation in (annotations if isinstance(annotations, list) else ())[known:]:
            yield from self._annotated(item, annotation, place)

    def _rest(self, item: _Item, kind: _Kind, place: int, whole: object) -> Iterator[Part]:
        """The part of the whole text that its deltas did not bring."""
        if not isinstance(whole, str):
            return
        whole = mended(whole)
        stream = item.streams.setdefault((kind, place), _Stream())
        said = stream.text
        if whole.startswith(said):
            # Half a character that was held back is in it, whole.
            stream.halves = SurrogateJoiner()
            yield from self._emit(item, kind, place, whole[len(said) :])
        else:
            _log.debug("the end of %s repeats another text than it was", item.id)

    def _emit(self, item: _Item, kind: _Kind, place: int, text: str) -> Iterator[Part]:
        if not text:
            return
        self._grow(len(text))
        item.streams[kind, place].said.append(text)
        is_thought = kind in ("thought", "summary")
        last = self._last.get(is_thought)
        self._last[is_thought] = key = (item.id, kind, place)
        if not is_thought:
            yield from self._heading(item, {"type": "message", "role": "assistant"})
        if kind == "refusal":
            self._has_refused = True
            if self._takes_items:
                yield DataPart(REFUSAL, text.encode())
                return
        is_same_message = last is None or last[0] == item.id or is_thought or not self._takes_items
        # Two texts are two paragraphs, or two messages.
        text = f"\n\n{text}" if last not in (None, key) and is_same_message else text
        yield ThinkingPart(text, item.id or None) if is_thought else TextPart(text)

    def _grow(self, by: int) -> None:
        self._size += by
        if self._size > MAX_ANSWER_CHARACTERS:
            raise LanguageModelError(
                "agent_failed", f"{self._name} did not stop: it has said {self._size:,} characters."
            )

    # --- Items. ------------------------------------------------------------------------------------------------------

    def _found(self, event: JsonObject) -> _Item:
        """The item that an event is about; a new one if no earlier event announced it."""
        id_, place = event.get("item_id"), event.get("output_index")
        name = id_ if isinstance(id_, str) else ""
        item = self._known(name, place)
        if item is None:
            item = _Item(name)
        self._remember(item, name, place)
        return item

    def _known(self, id_: str, place: object) -> _Item | None:
        if id_ in self._items:
            return self._items[id_]
        by_call = next((item for item in self._items.values() if id_ and item.call_id == id_), None)
        if by_call is not None:
            return by_call
        placed = self._places.get(place) if isinstance(place, int) else None
        return placed if placed is not None and not placed.is_finished else None

    def _remember(self, item: _Item, id_: str, place: object) -> None:
        if id_:
            self._items[id_] = item
        if isinstance(place, int):
            self._places[place] = item

    def _announced(self, event: JsonObject) -> Iterator[Part]:
        given = event.get("item")
        if isinstance(given, dict):
            name = _id_of(given)
            was_known = name in self._items
            item = self._items.get(name) or _Item(name)
            item.type = str(given.get("type"))
            _identify(item, given)
            self._remember(item, name, event.get("output_index"))
            if item.type == "message":
                yield from self._heading(item, given)
            elif (activity := activity_of(given)) is not None:
                yield activity
            elif item.type not in _TYPES_WITHOUT_EVENTS and name and not was_known:
                yield from self._about_item("response.output_item.added", event)

    def _heading(self, item: _Item, given: JsonObject) -> Iterator[Part]:
        """What is known of a message before its content: whose it is, and that it is another one than the last."""
        if item.has_heading:
            return
        item.has_heading = True
        if self.is_dragoman and (marker := marker_of(item.id, self._model_id)) is not None:
            yield marker
        if self._takes_items:
            yield item_part({key: value for key, value in given.items() if key not in _OUR_FIELDS})

    def _about_item(self, kind: str, event: JsonObject) -> Iterator[Part]:
        """An event about an item that no part has a form for. Any other event is passed over."""
        if (activity := activity_of(event.get("item"))) is not None:
            yield activity
            return
        id_ = event.get("item_id") if "item_id" in event else _id_of_item(event)
        item = self._known(id_ if isinstance(id_, str) else "", None)
        has_events = item is not None and item.type not in _TYPES_WITHOUT_EVENTS and not item.is_finished
        if self._takes_items and has_events:
            yield self._foreign(DataPart.json(event, ITEM_EVENT))
        else:
            _log.debug("passed over: %s", kind[:100])

    def _file(self, event: JsonObject) -> Iterator[Part]:
        """A file that is an event by itself. Open Responses does not have it; early descriptions of it do."""
        file = file_in_event(event)
        if file is None:
            _log.debug("passed over: a file without a type or bytes")
        else:
            yield self._foreign(file)

    def _foreign(self, part: DataPart) -> DataPart:
        self._grow(len(part.data))
        return part

    def _named_as_ignored(self, response: object) -> Iterator[Part]:
        """What a server of ours did not do with the request, by the metadata of its response."""
        names = [name for name in ignored_by(response) if name not in self._ignored]
        if names:
            self._ignored.update(names)
            yield DataPart.json(names, IGNORED)

    def _annotated(self, item: _Item, annotation: object, place: int) -> Iterator[Part]:
        item.annotations.setdefault(place, []).append(annotation)
        if self._takes_items:
            yield DataPart.json(annotation, ANNOTATION)
        else:
            _add_source(item, annotation)

    def _finished(self, given: object, place: object) -> Iterator[Part]:
        if not isinstance(given, dict):
            return
        name = _id_of(given)
        item = self._known(name, place)
        if item is None or (item.type and item.type != given.get("type")):
            item = _Item(name, str(given.get("type")))
        self._remember(item, name, place)
        yield from self._finish(item, given)

    def _finish(self, item: _Item, given: JsonObject) -> Iterator[Part]:
        was_finished, item.is_finished = item.is_finished, True
        item.type = str(given.get("type"))
        match given:
            case {"type": "message", "content": list(content)}:
                yield from self._heading(item, given)
                for index, part in enumerate(content):
                    yield from self._part(item, part, index)
                yield from self._sources(item)
                others = [
                    part for part in content if isinstance(part, dict) and part.get("type") not in _PARTS
                ]
                if others and not was_finished:
                    yield self._foreign(item_part({**given, "content": others}))
            case {"type": "reasoning"}:
                yield from self._thought(item, given, again=was_finished)
            case {"type": "function_call"}:
                _identify(item, given)
                if given.get("status") != "incomplete":
                    yield from self._make(item, given.get("arguments"))
            case _ if (activity := activity_of(given)) is not None:
                yield activity
            case {"type": str()} if not was_finished and item.type not in _OWN_TYPES:
                yield self._foreign(item_part(given))
            case _:
                pass

    def _thought(self, item: _Item, given: JsonObject, *, again: bool) -> Iterator[Part]:
        for name in ("content", "summary"):
            parts = given.get(name)
            for index, part in enumerate(parts if isinstance(parts, list) else ()):
                yield from self._part(item, part, index)
        if again or not isinstance(given.get("encrypted_content"), str):
            return
        self._reasoning.append(given)
        yield ThinkingPart("", item.id or None, {"model": self._model_id, "item": given})

    def _sources(self, item: _Item) -> Iterator[Part]:
        """The pages that a text cites, unless the text names them itself."""
        text = item.text
        lines = [
            f"- [{escape(title)}](<{url}>)" if title else f"- <{url}>"
            for url, title in item.sources.items()
            if url not in text
        ]
        item.sources.clear()
        if lines:
            yield TextPart("\n\nSources:\n\n" + "\n".join(lines) + "\n")

    # --- Calls. ------------------------------------------------------------------------------------------------------

    def _arguments(self, step: str, event: JsonObject) -> Iterator[Part]:
        item = self._found(event)
        item.type = item.type or "function_call"
        if step == "delta":
            delta = event.get("delta")
            if isinstance(delta, str):
                self._grow(len(delta))
                item.arguments.append(delta)
        elif step == "done":
            _identify(item, {"name": event.get("name"), "call_id": event.get("call_id")})
            whole = event.get("arguments")
            if isinstance(whole, str) and whole:
                item.arguments = [whole]
            if item.name and item.call_id:
                # The function's name may only come with the end of the item.
                yield from self._make(item, whole)

    def _make(self, item: _Item, arguments: object) -> Iterator[Part]:
        wire_id = item.call_id or item.id
        if wire_id in self._made:
            return
        self._made.add(wire_id)
        whole = arguments if isinstance(arguments, str) and arguments else "".join(item.arguments)
        call_id = self._issue(wire_id)
        part = self._call(call_id, item.name, mended(whole))
        self.reasoning_of[call_id] = tuple(self._reasoning)
        self._reasoning.clear()
        yield part

    # --- The end. ----------------------------------------------------------------------------------------------------

    def _ended(self, response: object, *, cut: bool) -> Iterator[Part]:
        given = response if isinstance(response, dict) else {}
        output = given.get("output")
        for place, item in enumerate(output if isinstance(output, list) else ()):
            yield from self._finished_again(item, place)
        for item in list(self._items.values()):
            yield from self._sources(item)
            yield from self._unfinished(item, cut=cut)
        if cut or given.get("status") == "incomplete":
            stopped = _why_cut(given)
            # The refusal itself has the words.
            has_words = stopped.reason == "content_filter" and self._has_refused and self._takes_items
            yield (Stopped("content_filter", "") if has_words else stopped).part
        if (usage := _usage(given.get("usage"))) is not None:
            yield usage
        self.is_complete = True

    def _text_of_failed(self, response: object) -> Iterator[Part]:
        """The text of a failed response that was not streamed before."""
        output = response.get("output") if isinstance(response, dict) else None
        for place, item in enumerate(output if isinstance(output, list) else ()):
            # A call is for an answer that stands.
            if isinstance(item, dict) and item.get("type") == "message":
                yield from self._finished_again(item, place)

    def _finished_again(self, given: object, place: int) -> Iterator[Part]:
        """An item as the end of the response repeats it, perhaps under another id, or none."""
        if not isinstance(given, dict):
            return
        known = self._items.get(_id_of(given)) or self._places.get(place)
        if known is not None and known.type == given.get("type"):
            yield from self._finish(known, given)
        elif not any(_text_of(given) == item.text for item in self._items.values() if item.text):
            yield from self._finished(given, place)

    def _unfinished(self, item: _Item, *, cut: bool) -> Iterator[Part]:
        """A call whose `.done` event is missing. In an answer that was cut, the call is discarded."""
        if item.type != "function_call" or cut or (item.call_id or item.id) in self._made:
            return
        if not item.name:
            raise LanguageModelError(
                "agent_failed", f"{self._name} began the call {item.id!r} and never said of which tool."
            )
        yield from self._make(item, None)


def _id_of(given: JsonObject) -> str:
    id_ = given.get("id")
    return id_ if isinstance(id_, str) else ""


def _id_of_item(event: JsonObject) -> str:
    item = event.get("item")
    return _id_of(item) if isinstance(item, dict) else ""


def _text_of(given: JsonObject) -> str:
    content = given.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts)


def _identify(item: _Item, given: JsonObject) -> None:
    for field_name in ("call_id", "name"):
        value = given.get(field_name)
        if isinstance(value, str) and value:
            setattr(item, field_name, value)


def _place_in(event: JsonObject) -> int:
    place = event.get("content_index", event.get("summary_index"))
    return place if isinstance(place, int) else 0


def _add_source(item: _Item, annotation: object) -> None:
    match annotation:
        case {"type": "url_citation", "url": str(url), "title": str(title)}:
            pass
        case {"type": "url_citation", "url": str(url)}:
            title = ""
        case _:
            return
    # Only what can stand in a link as it is.
    if url.startswith(("https://", "http://")) and not any(char in url for char in "<>\\ \r\n\t"):
        item.sources.setdefault(url, title)


def _why_cut(response: JsonObject) -> Stopped:
    match response.get("incomplete_details"):
        case {"reason": str(reason)}:
            return _STOPS.get(reason, Stopped("other", f"The model stopped: {escape(reason[:200])}."))
        case _:
            return Stopped("other", "The model stopped before the end of its answer.")


def _usage(usage: object) -> UsagePart | None:
    """The endpoint's token counts; None if one of the two required counts is missing."""
    if not isinstance(usage, dict):
        return None
    read, written = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    if read is None or written is None:
        return None
    total = _count(usage, "total_tokens")
    return UsagePart(
        read,
        written,
        total if total != read + written else None,
        cached=_count(usage.get("input_tokens_details"), "cached_tokens"),
        reasoning=_count(usage.get("output_tokens_details"), "reasoning_tokens"),
        reported=usage if _has_more(usage) else None,
    )


def _has_more(usage: JsonObject) -> bool:
    """Whether it has details that a usage part has no field for."""
    for name, value in usage.items():
        known = _USAGE.get(name)
        if known is None or (isinstance(value, dict) and not value.keys() <= known):
            return True
    return False


def _count(counts: object, name: str) -> int | None:
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
