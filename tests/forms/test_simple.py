"""Which schemas are checked at once, and which in a process."""

from __future__ import annotations

from typing import Literal

import pytest
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel, Field

from dragoman.forms.simple import is_simple
from dragoman.lm import JsonObject


class _Step(BaseModel):
    explanation: str = Field(description="What is done")
    kind: Literal["add", "multiply"]
    before: _Step | None


class _Solution(BaseModel):
    steps: list[_Step] = Field(min_length=1)
    answer: int = Field(ge=0)
    by_name: dict[str, bool] = {}


def test_schemas_of_common_helpers_are_simple() -> None:
    assert is_simple(_Solution.model_json_schema())
    assert is_simple(to_strict_json_schema(_Step))
    zod: JsonObject = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    assert is_simple(zod)
    assert is_simple(None)
    assert is_simple({"properties": {"pattern": {"const": "a"}, "enum": True}, "additionalProperties": False})


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a"},
        {"properties": {"a": {"pattern": "a"}}},
        {"items": {"anyOf": [{"patternProperties": {"a": True}}]}},
        {"$defs": {"a": {"uniqueItems": True}}},
        {"enum": [{"a": 1}]},
        {"const": {"a": 1}},
        {"unevaluatedProperties": False},
        {"$dynamicRef": "#a"},
        {"no such keyword": 1},
        {"items": [{}]},
        {"items": "a"},
        {"anyOf": {}},
        {"properties": []},
        {"enum": [str(number) for number in range(300)]},
        {"properties": {str(number): {} for number in range(300)}},
        {"required": ["a"] * 300},
        {"description": "a" * 20_000},
    ],
)
def test_what_may_take_long_is_not_simple(schema: JsonObject) -> None:
    assert not is_simple(schema)
