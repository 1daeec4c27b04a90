"""Holds a stream of events against the specification: its schemas, and the state machine that no schema can say.

Written from the rules, not from our code: what it knows of a response it learns from the events alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

import pydantic
from openresponses_types import types as spec

__all__ = ["check_events", "check_resource", "problems"]

Json = dict[str, Any]

_TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_TEXTS = {
    "response.output_text": ("output_text", "text"),
    "response.refusal": ("refusal", "refusal"),
    "response.reasoning": ("reasoning_text", "text"),
    "response.reasoning_text": ("reasoning_text", "text"),
}
# Names that are OpenAI's and not the specification's, and items that only a client which asks for them gets.
_OTHERS = ("response.reasoning_text.delta", "response.reasoning_text.done")
_ASKED_FOR = "mcp_approval_request"


def _schemas() -> dict[str, type[pydantic.BaseModel]]:
    found: dict[str, type[pydantic.BaseModel]] = {}
    for name, model in inspect.getmembers(spec, inspect.isclass):
        if name.endswith("StreamingEvent") and issubclass(model, pydantic.BaseModel):
            (kind,) = cast("type[Enum]", model.model_fields["type"].annotation)
            found[kind.value] = model
    return found


_SCHEMAS = _schemas()


def check_resource(response: Json) -> None:
    """All thirty-one fields, each as it should be."""
    assert set(response) == set(spec.ResponseResource.model_fields), set(response) ^ set(
        spec.ResponseResource.model_fields
    )
    if not any(item["type"] == _ASKED_FOR for item in response["output"]):
        spec.ResponseResource.model_validate(response)


def check_events(events: Sequence[Json]) -> Json:
    """The response that the events tell; fails with everything that is wrong with them."""
    assert problems(events) == []
    whole: Json = events[-1]["response"]
    return whole


def problems(events: Sequence[Json]) -> list[str]:
    return _Check(events).found


class _Check:
    def __init__(self, events: Sequence[Json]) -> None:
        self.found: list[str] = []
        self._done: list[Json] = []
        self._open: Json | None = None
        self._part: Json | None = None
        self._texts: list[str] = []
        self._text_is_done = False
        self._ids: set[str] = set()
        for number, event in enumerate(events):
            self._schema(event)
            self._expect(event.get("sequence_number") == number, event, f"should have the number {number}")
            if 1 < number < len(events) - 1:
                self._inner(event, is_last_but_one=number == len(events) - 2)
        self._frame(events)

    def _expect(self, is_so: object, event: Json, words: str) -> None:
        if not is_so:
            self.found.append(f"{event.get('sequence_number')} {event.get('type')}: {words}")

    def _schema(self, event: Json) -> None:
        if event["type"] in _OTHERS or _ASKED_FOR in str(event):
            return
        model = _SCHEMAS.get(event["type"])
        self._expect(model, event, "is no event of the specification")
        if model is not None:
            try:
                model.model_validate(event)
            except pydantic.ValidationError as error:
                self._expect(None, event, str(error))

    def _frame(self, events: Sequence[Json]) -> None:
        kinds = [event["type"] for event in events]
        if kinds[:2] != ["response.created", "response.in_progress"]:
            self.found.append(f"begins with {kinds[:2]}")
        last = events[-1]
        self._expect(last["type"] in _TERMINAL, last, "is not an end")
        self._expect(self._open is None, last, "leaves an item open")
        if last["type"] in _TERMINAL:
            response = last["response"]
            check_resource(response)
            self._expect(response["status"] == _TERMINAL[last["type"]], last, "has another status")
            self._expect(response["output"] == self._done, last, "repeats other items than were told")
            self._expect((response["error"] is not None) == (response["status"] == "failed"), last, "error")
            cut = [item.get("status") == "incomplete" for item in self._done]
            self._expect(not any(cut[:-1]), last, "an incomplete item is not the last")
            self._expect(
                not any(cut) or response["status"] != "completed", last, "complete, and an item is not"
            )
        for event in events[:2]:
            begun = event.get("response", {})
            self._expect(begun.get("output") == [], event, "has output already")
            self._expect(begun.get("status") == "in_progress", event, "is not in progress")
        self._expect(
            ("error" in kinds) == (last["type"] == "response.failed"), last, "an error and no failure"
        )
        if "error" in kinds:
            self._expect(kinds.index("error") == len(kinds) - 2, last, "something came after the error")

    def _inner(self, event: Json, *, is_last_but_one: bool) -> None:
        kind: str = event["type"]
        stem, _, step = kind.rpartition(".")
        if kind == "error":
            self._expect(is_last_but_one, event, "is not the last but one")
        elif kind == "response.output_item.added":
            self._added(event)
        elif kind == "response.output_item.done":
            self._finished(event)
        elif self._open is None:
            self._expect(None, event, "has no item")
        elif stem == "response.content_part":
            self._content_part(event, step)
        elif stem in _TEXTS:
            self._text(event, step, *_TEXTS[stem])
        elif stem == "response.function_call_arguments":
            self._arguments(event, step)
        else:
            self._expect(None, event, "has no place here")

    def _added(self, event: Json) -> None:
        self._expect(self._open is None, event, "the item before is open")
        self._expect(event["output_index"] == len(self._done), event, "is not the next")
        item = event["item"]
        self._expect(item["id"] not in self._ids, event, "has the id of another")
        self._ids.add(item["id"])
        self._expect(not item.get("content"), event, "has content already")
        self._expect(item.get("status", "in_progress") == "in_progress", event, "is not in progress")
        self._open, self._texts, self._text_is_done, self._part = item, [], False, None

    def _at(self, event: Json) -> None:
        opened = self._open or {}
        self._expect(event["item_id"] == opened.get("id"), event, "is of another item")
        self._expect(event["output_index"] == len(self._done), event, "is at another place")

    def _content_part(self, event: Json, step: str) -> None:
        self._at(event)
        if step == "added":
            self._expect(self._part is None, event, "the part before is open")
            self._part = event["part"]
        else:
            self._expect(self._part is not None and self._text_is_done, event, "its text is not done")
            name = "refusal" if event["part"]["type"] == "refusal" else "text"
            self._expect(event["part"][name] == "".join(self._texts), event, "has another text")
            if self._open is not None:
                self._open = {**self._open, "content": [*(self._open.get("content") or []), event["part"]]}
            self._part = None

    def _text(self, event: Json, step: str, part: str, name: str) -> None:
        self._at(event)
        self._expect(self._part is not None and self._part["type"] == part, event, "has no such part")
        if step == "delta":
            self._expect(event["delta"], event, "says nothing")
            self._expect(not self._text_is_done, event, "comes after the end")
            self._texts.append(event["delta"])
        else:
            self._expect(event[name] == "".join(self._texts), event, "has another text")
            self._expect(not self._text_is_done, event, "comes twice")
            self._text_is_done = True

    def _arguments(self, event: Json, step: str) -> None:
        self._at(event)
        self._expect(self._open is not None and self._open["type"] == "function_call", event, "no call")
        if step == "delta":
            self._expect(not self._text_is_done, event, "comes after the end")
            self._texts.append(event["delta"])
        else:
            self._expect(event["arguments"] == "".join(self._texts), event, "has other arguments")
            self._expect(not self._text_is_done, event, "comes twice")
            self._text_is_done = True

    def _finished(self, event: Json) -> None:
        item, opened = event["item"], self._open or {}
        self._expect(item["id"] == opened.get("id"), event, "is another item")
        self._expect(event["output_index"] == len(self._done), event, "is at another place")
        self._expect(self._part is None, event, "a part is open")
        if item["type"] == "function_call":
            self._expect(self._text_is_done and item["arguments"] == "".join(self._texts), event, "arguments")
        elif item["type"] != _ASKED_FOR:
            self._expect(item["content"] == opened.get("content"), event, "has other content")
        self._expect(item.get("status") != "in_progress", event, "is in progress")
        self._done.append(item)
        self._open = None
