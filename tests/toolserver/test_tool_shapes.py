"""Schemas: what is offered is legal, and means the same."""

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from dragoman.backends.agent.toolserver.offer import offer
from dragoman.backends.tool_shapes import MAX_SCHEMA_DEPTH, legal_schema, unwrapped
from dragoman.lm import JsonObject, ToolDefinition
from searching import examples

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(st.sampled_from(["input", "a", "b"]), _values, max_size=3)


def _is_valid(value: object, schema: JsonObject) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def test_t10_a_tool_without_a_schema_takes_no_properties() -> None:
    schema: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    plain, with_one = offer([ToolDefinition("plain"), ToolDefinition("with_one", "", schema)]).tools
    assert plain.input_schema == {"type": "object", "properties": {}}
    assert with_one.input_schema == schema
    assert plain.arguments_for({"input": {}}) == {"input": {}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": ["object", "null"]},
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "$id": "https://example.com/s",
            "type": "object",
        },
        {"properties": None, "required": "all"},
    ],
)
def test_what_describes_a_plain_object_is_one(schema: JsonObject) -> None:
    assert legal_schema(schema) == ({"type": "object", "properties": {}}, False)


def test_other_keywords_of_a_plain_object_are_kept() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a", "default": None}, "b": True, "c": 5},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"a": {"enum": [None, 1]}},
    }
    legal, wrapped = legal_schema(schema)
    assert not wrapped
    assert legal == {
        **schema,
        "properties": {"a": {"$ref": "#/$defs/a", "default": None}, "b": True, "c": {}},
    }


def test_references_to_the_document_itself_lose_its_address() -> None:
    base = "https://example.com/schema.json"
    schema: JsonObject = {
        "$id": base,
        "properties": {"a": {"$ref": f"{base}#/$defs/a"}, "b": {"$ref": base}, "c": {"$ref": "other.json"}},
    }
    legal, _ = legal_schema(schema)
    assert legal["properties"] == {
        "a": {"$ref": "#/$defs/a"},
        "b": {"$ref": "#"},
        "c": {"$ref": "other.json"},
    }


_TREE: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "anyOf": [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/leaf"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"$ref": "#"}, "c": {"$ref": "#/anyOf/0"}}, "required": ["b"]},
    ],
    "$defs": {"leaf": {"type": "integer"}, "$ref": {"const": {"$ref": "#/anyOf/0"}}},
}


@pytest.mark.parametrize(
    "value", [{"a": 1}, {"a": "x"}, {"b": {"a": 1}, "c": {"a": 2}}, {"b": {"a": "x"}}, {}]
)
def test_t11_alternatives_at_the_top_are_wrapped_and_mean_the_same(value: JsonObject) -> None:
    legal, wrapped = legal_schema(_TREE)
    assert wrapped
    assert legal["type"] == "object"
    assert set(legal) == {"type", "properties", "required", "$defs"}
    assert _is_valid({"input": value}, legal) == _is_valid(value, _TREE)
    assert not _is_valid(value, legal)


def test_t11_what_only_looks_like_a_reference_is_not_moved() -> None:
    legal, _ = legal_schema(_TREE)
    assert legal["$defs"] == _TREE["$defs"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["object", "string"]},
        {"oneOf": [{"type": "object"}]},
        {"allOf": [{"type": "object"}]},
        {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"$ref": "#/definitions/a", "definitions": {"a": {"type": "object"}}},
        {"enum": [{}, {"a": 1}]},
    ],
)
@settings(deadline=None, max_examples=examples(60))
@given(_objects)
def test_t11_every_other_schema_is_wrapped_and_means_the_same(schema: JsonObject, value: JsonObject) -> None:
    legal, wrapped = legal_schema(schema)
    assert wrapped
    assert legal["type"] == "object"
    assert {"anyOf", "oneOf", "allOf", "enum", "$ref"}.isdisjoint(legal)
    assert _is_valid({"input": value}, legal) == _is_valid(value, schema)


@settings(deadline=None, max_examples=examples(60))
@given(_objects)
def test_t11_wrapped_arguments_come_back_as_they_were(arguments: JsonObject) -> None:
    assert unwrapped({"input": arguments}) == arguments


@pytest.mark.parametrize("arguments", [{"a": 1}, {"input": "text"}, {"input": {}, "more": 1}, {}])
def test_arguments_of_a_model_that_did_not_keep_to_the_schema_are_left_alone(arguments: JsonObject) -> None:
    assert unwrapped(arguments) == arguments


def test_a_schema_that_is_too_deep_to_be_written_is_left_out() -> None:
    deep: JsonObject = {"type": "object"}
    for _ in range(MAX_SCHEMA_DEPTH):
        deep = {"properties": {"inner": deep}}
    assert legal_schema(deep) == ({"type": "object", "properties": {}}, False)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.dictionaries(
        st.sampled_from(["type", "properties", "required", "anyOf", "$ref", "$id", "enum"]), _values
    )
)
def test_whatever_is_given_as_a_schema_becomes_one_that_mcp_takes(schema: JsonObject) -> None:
    legal, _ = legal_schema(schema)
    assert legal["type"] == "object"
    properties = legal["properties"]
    assert isinstance(properties, dict)
    assert all(isinstance(value, dict | bool) for value in properties.values())


def test_what_would_have_arguments_repeated_in_headers_is_left_out_wherever_it_stands() -> None:
    routed: JsonObject = {"type": "string", "x-mcp-header": "Region"}
    schema: JsonObject = {
        "properties": {"a": routed, "b": {"items": routed}, "x-mcp-header": {"type": "integer"}},
        "x-mcp-header": "Root",
        "$defs": {"c": {"allOf": [routed], "default": {"x-mcp-header": "a value"}}},
    }
    left: JsonObject = {"type": "string"}
    for alternatives in ({}, {"anyOf": [routed]}):
        legal, wrapped = legal_schema({**schema, **alternatives})
        properties = legal["properties"]
        assert isinstance(properties, dict)
        inner = properties["input"] if wrapped else legal
        assert inner["properties"] == {"a": left, "b": {"items": left}, "x-mcp-header": {"type": "integer"}}
        assert "x-mcp-header" not in inner
        assert inner.get("anyOf", [left]) == [left]
        assert legal["$defs"] == {"c": {"allOf": [left], "default": {"x-mcp-header": "a value"}}}
