"""Holds a stream of events against the specification: its schemas, and the rules that no schema can say."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

import pydantic
from openresponses_types import types as spec

from dragoman.checker.event_rules import EventWatch

__all__ = ["check_events", "check_resource", "problems"]

Json = dict[str, Any]

# Names that are OpenAI's and not the specification's, and items that only a client which asks for them gets.
_OTHERS = ("response.reasoning_text.delta", "response.reasoning_text.done")
_ASKED_FOR = ("mcp_approval_request", "dragoman:activity", "dragoman:plan")


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
    # OpenAI's field, which only a response in a conversation has.
    fields = set(response) - {"conversation"}
    assert fields == set(spec.ResponseResource.model_fields), fields ^ set(spec.ResponseResource.model_fields)
    known = [item for item in response["output"] if item["type"] not in _ASKED_FOR]
    spec.ResponseResource.model_validate({**_without_schema(response), "output": known})


def _without_schema(response: Json) -> Json:
    """The released file allows no schema in the format that a response repeats. OpenAI's server repeats it, and so do we."""
    form = response["text"]["format"]
    if form["type"] != "json_schema":
        return response
    return {**response, "text": {**response["text"], "format": {**form, "schema": None}}}


def check_events(events: Sequence[Json]) -> Json:
    """The response that the events tell; fails with everything that is wrong with them."""
    assert [*_schema_problems(events), *problems(events), *_own_problems(events)] == []
    whole: Json = events[-1]["response"]
    check_resource(whole)
    return whole


def problems(events: Sequence[Json]) -> list[str]:
    """By the rules that `dragoman check` holds any endpoint against."""
    watch = EventWatch()
    for event in events:
        watch.take(event)
    watch.end()
    return list(map(str, watch.found))


def _schema_problems(events: Sequence[Json]) -> list[str]:
    found = []
    for event in events:
        if event["type"] in _OTHERS or any(name in str(event) for name in _ASKED_FOR):
            continue
        model = _SCHEMAS.get(event["type"])
        if model is None:
            found.append(f"{event['type']} is no event of the specification")
            continue
        try:
            told = {"response": _without_schema(event["response"])} if "response" in event else {}
            model.model_validate({**event, **told})
        except pydantic.ValidationError as error:
            found.append(f"{event['type']}: {error}")
    return found


def _own_problems(events: Sequence[Json]) -> list[str]:
    """What only we promise: an error before every failure, and no delta that says nothing."""
    kinds = [event["type"] for event in events]
    found = []
    if (kinds[-1] == "response.failed") != (kinds[-2:-1] == ["error"]):
        found.append("an error and no failure, or a failure and no error")
    found += [f"{event['type']} says nothing" for event in events if event.get("delta") == ""]
    return found
