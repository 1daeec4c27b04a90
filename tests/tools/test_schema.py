"""Inputs against their schemas: defaults, validation in words for a model, limits."""

from __future__ import annotations

import socket
from copy import deepcopy

import pytest
from hypothesis import given, settings, strategies as st

from dragoman.lm import JsonObject
from dragoman.tools import validation
from dragoman.tools.schema import (
    MAX_DEPTH,
    MAX_PROBLEMS,
    MAX_VALUES,
    SchemaError,
    SchemaProblem,
    check_schema,
    complete,
)
from searching import examples


def obj(properties: JsonObject, **more: object) -> JsonObject:
    return {"type": "object", "properties": properties, **more}


def lines(schema: JsonObject, value: JsonObject) -> tuple[str, ...]:
    with pytest.raises(SchemaProblem) as caught:
        complete(schema, value)
    return caught.value.problems


def line(rule: object, value: object) -> str:
    (only,) = lines(obj({"value": rule}), {"value": value})
    return only


class TestDefaults:
    def test_a_missing_property_gets_its_default(self) -> None:
        schema = obj({"pattern": {"type": "string"}, "maxResults": {"type": "number", "default": 10}})
        assert complete(schema, {"pattern": "*"}) == {"pattern": "*", "maxResults": 10}

    def test_a_given_property_keeps_its_value(self) -> None:
        schema = obj({"a": {"default": 1}, "b": {"default": 1}})
        assert complete(schema, {"a": 2, "b": None}) == {"a": 2, "b": None}

    def test_defaults_reach_nested_objects_items_references_and_all_of(self) -> None:
        schema = obj(
            {
                "inner": obj({"a": {"default": 1}}),
                "made": {**obj({"a": {"default": 2}}), "default": {}},
                "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
                "pair": {
                    "type": "array",
                    "prefixItems": [obj({"a": {"default": 4}})],
                    "items": obj({"a": {}}),
                },
            },
            allOf=[obj({"other": {"default": "x"}})],
            **{"$defs": {"item": obj({"a": {"default": 3}})}},
        )
        given_input: JsonObject = {"inner": {}, "list": [{}, {"a": 0}], "pair": [{}, {}]}
        assert complete(schema, given_input) == {
            "inner": {"a": 1},
            "made": {"a": 2},
            "list": [{"a": 3}, {"a": 0}],
            "pair": [{"a": 4}, {}],
            "other": "x",
        }

    def test_draft_7_has_the_schemas_of_first_items_in_items(self) -> None:
        schema = obj({"pair": {"type": "array", "items": [obj({"a": {"default": 1}})]}})
        schema["$schema"] = "http://json-schema.org/draft-07/schema#"
        check_schema(schema)
        assert complete(schema, {"pair": [{}, {}]}) == {"pair": [{"a": 1}, {}]}

    def test_alternatives_give_no_defaults(self) -> None:
        schema = obj({}, anyOf=[obj({"a": {"default": 1}}), obj({"b": {"default": 1}})])
        assert complete(schema, {}) == {}

    def test_a_default_that_a_later_part_brings_is_filled_in_as_well(self) -> None:
        schema = obj(
            {}, allOf=[obj({"a": obj({"b": {"default": 1}})}), obj({"a": {"type": "object", "default": {}}})]
        )
        assert complete(schema, {}) == {"a": {"b": 1}}

    def test_a_required_property_with_a_default_may_be_left_out(self) -> None:
        assert complete(obj({"a": {"default": 1}}, required=["a"]), {}) == {"a": 1}

    def test_neither_input_nor_schema_is_changed(self) -> None:
        schema = obj({"list": {"type": "array", "default": [{}], "items": obj({"a": {"default": 1}})}})
        before = deepcopy(schema)
        given_input: JsonObject = {}
        completed = complete(schema, given_input)
        assert completed == {"list": [{"a": 1}]}
        assert given_input == {}
        assert schema == before


def test_a_tool_without_a_schema_accepts_any_object() -> None:
    assert complete(None, {"anything": [1, {"goes": None}]}) == {"anything": [1, {"goes": None}]}


def test_nothing_is_converted() -> None:
    assert line({"type": "number"}, "10") == "value: expected number, got string '10'"


class TestWords:
    def test_t21_a_wrong_type_names_place_expectation_and_value(self) -> None:
        schema = obj({"maxResults": {"type": "number"}})
        assert lines(schema, {"maxResults": "ten"}) == ("maxResults: expected number, got string 'ten'",)

    def test_a_missing_property_is_named_once_and_each(self) -> None:
        schema = obj({}, required=["pattern", "mode", "path"])
        assert lines(schema, {"mode": 1}) == ("pattern: required, but missing", "path: required, but missing")

    def test_an_unknown_property_is_named_with_the_one_that_was_meant(self) -> None:
        schema = obj({"pattern": {}, "path": {}}, additionalProperties=False, patternProperties={"^x-": {}})
        assert lines(schema, {"patern": "*", "x-other": 1}) == (
            "patern: unknown property. Did you mean 'pattern'? Known: pattern, path.",
        )

    def test_an_unknown_property_of_a_tool_without_parameters(self) -> None:
        assert lines({"type": "object", "additionalProperties": False}, {"a": 1}) == ("a: unknown property.",)

    def test_an_enum_lists_its_values(self) -> None:
        assert line({"enum": ["asc", "desc", 3]}, "up") == "value: expected one of 'asc', 'desc', 3, got 'up'"

    def test_a_long_enum_is_cut(self) -> None:
        assert line({"enum": list(range(100))}, -1).endswith("18, 19 … and 80 more, got -1")

    @pytest.mark.parametrize(
        ("rule", "value", "words"),
        [
            ({"minimum": 1}, 0, "must be at least 1, got number 0"),
            ({"maximum": 1}, 2, "must be at most 1, got number 2"),
            ({"exclusiveMinimum": 1}, 1, "must be greater than 1, got number 1"),
            ({"exclusiveMaximum": 1}, 1, "must be less than 1, got number 1"),
            ({"multipleOf": 2}, 3, "must be a multiple of 2, got number 3"),
            ({"minLength": 2}, "", "must have at least 2 characters, got string ''"),
            ({"maxLength": 1}, "ab", "must have at most 1 characters, got string 'ab'"),
            ({"minItems": 1}, [], "must have at least 1 items, got array []"),
            ({"maxItems": 0}, [1], "must have at most 0 items, got array [1]"),
            ({"minProperties": 1}, {}, "must have at least 1 properties, got object {}"),
            ({"maxProperties": 0}, {"a": 1}, 'must have at most 0 properties, got object {"a":1}'),
            ({"pattern": "^a$"}, "b", "must match the regular expression '^a$', got string 'b'"),
            ({"const": True}, False, "must be true, got boolean false"),
            ({"uniqueItems": True}, [1, 1], "must not have the same item twice"),
            ({"type": ["string", "null"]}, 1, "expected string or null, got number 1"),
            ({"type": "string"}, None, "expected string, got null"),
            ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "'b' is a dependency of 'a'"),
            (
                {"oneOf": [{"type": "number"}, {"type": "integer"}]},
                1,
                "fits more than one of the allowed forms, and must fit exactly one",
            ),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "expected string or null, got number 1"),
            (
                {"anyOf": [{"type": "string", "minLength": 3}, {"type": "null"}]},
                "x",
                "must have at least 3 characters, got string 'x'",
            ),
            (
                {"anyOf": [{"type": ["string", "null"]}, {"type": "string"}, {"type": "boolean"}]},
                1,
                "expected string or null or boolean, got number 1",
            ),
        ],
    )
    def test_every_kind_of_mismatch_has_its_words(self, rule: object, value: object, words: str) -> None:
        assert line(rule, value) == f"value: {words}"

    def test_alternatives_of_one_type_are_told_each(self) -> None:
        forms = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
        assert line(forms, {}) == (
            "value: fits none of the allowed forms: value.a: required, but missing; or value.b: required, but missing"
        )

    def test_a_value_that_is_never_allowed(self) -> None:
        assert lines(obj({"value": False}), {"value": 1}) == ("input: number 1 is not allowed",)

    def test_places_name_items_properties_and_strange_names(self) -> None:
        number = {"type": "number"}
        schema = obj({"files": {"items": obj({"name": number, "a b": number})}})
        assert lines(schema, {"files": [{}, {"name": "x", "a b": "y"}]}) == (
            "files[1].name: expected number, got string 'x'",
            "files[1]['a b']: expected number, got string 'y'",
        )

    def test_the_input_as_a_whole_is_called_input(self) -> None:
        assert lines({"type": "object", "minProperties": 1}, {}) == (
            "input: must have at least 1 properties, got object {}",
        )

    def test_the_number_of_lines_is_limited(self) -> None:
        schema = obj({}, required=[f"p{n}" for n in range(100)])
        problems = lines(schema, {})
        assert len(problems) == MAX_PROBLEMS + 1
        assert problems[-1] == "… and more"

    def test_the_length_of_a_line_is_limited(self) -> None:
        name = "n" * 10_000
        (only,) = lines(obj({name: {"type": "number"}}), {name: "v" * 10_000})
        assert len(only) < 350
        (only,) = lines(obj({}, propertyNames={"maxLength": 1}, additionalProperties=True), {"long": 1})
        assert only == "input: must have at most 1 characters, got string 'long'"

    def test_what_cannot_be_printed_is_escaped(self) -> None:
        assert line({"type": "number"}, "\u202ex\x1b") == r"value: expected number, got string '\u202ex\x1b'"


class TestLimits:
    @pytest.mark.parametrize("value", [[], "x", 3, None, True])
    def test_an_input_must_be_an_object(self, value: object) -> None:
        with pytest.raises(SchemaProblem, match=r"^input: expected object, got "):
            complete(None, value)

    def test_an_input_must_be_json(self) -> None:
        with pytest.raises(SchemaProblem, match=r"^input: is not JSON: "):
            complete(None, {"a": object()})
        assert complete(None, {"a": "\ud800"}) == {"a": "\ufffd"}

    def test_depth_and_size_of_an_input_are_limited(self) -> None:
        deep: JsonObject = {}
        for _ in range(MAX_DEPTH + 1):
            deep = {"a": deep}
        with pytest.raises(SchemaProblem, match=f"nested more than {MAX_DEPTH} levels"):
            complete(None, deep)
        with pytest.raises(SchemaProblem, match="has more than 10,000 values"):
            complete(None, {"a": [0] * MAX_VALUES})

    def test_an_input_as_deep_as_allowed_is_checked_against_a_recursive_schema(self) -> None:
        schema = obj({"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "n": {"default": 1}})
        value: JsonObject = {"a": None}
        for _ in range(MAX_DEPTH - 1):
            value = {"a": value}
        completed = complete(schema, value)
        assert completed["n"] == 1

    @pytest.mark.parametrize("keyword", ["allOf", "anyOf"])
    def test_a_schema_that_fans_out_ends_by_rule(self, keyword: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(validation, "MAX_STEPS", 2_000)
        steps: JsonObject = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
        schema: JsonObject = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**steps, "d40": False}}
        check_schema(schema)
        assert lines(schema, {}) == ("input: takes too long to check; use a smaller or simpler one",)

    @pytest.mark.parametrize(
        "schema",
        [
            {"$ref": "#"},
            {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#"},
            obj({"a": {"$ref": "#", "default": {}}}),
        ],
        ids=["itself", "itself in draft 7", "default"],
    )
    def test_a_schema_without_end_ends_by_rule(self, schema: JsonObject) -> None:
        assert lines(schema, {}) == ("input: takes too long to check; use a smaller or simpler one",)

    def test_text_beyond_a_limit_is_not_given_to_a_regular_expression(self) -> None:
        # Quadratic: a second for twenty thousand characters.
        assert line({"pattern": "a+a+a+$"}, "a" * (validation.MAX_PATTERN_TEXT + 1)) == (
            "value: must have at most 10,000 characters"
        )
        assert complete(obj({"value": {"pattern": "a"}}), {"value": 3}) == {"value": 3}

    @pytest.mark.parametrize(
        "rule", [{"$ref": "#/nowhere"}, {"pattern": "("}, {"$ref": "https://x.example/"}]
    )
    def test_an_unchecked_broken_schema_is_told_not_raised(
        self, rule: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_args: object) -> None:
            raise AssertionError("the network was used")

        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        assert line(rule, "x").startswith(
            "input: cannot be checked, because the schema of this tool is broken: "
        )


class TestSchemas:
    @pytest.mark.parametrize(
        ("schema", "path", "words"),
        [
            (obj({"a": {"type": "strin"}}), ".properties.a.type", "got 'strin'"),
            ({"type": "object", "required": "a"}, ".required", "expected array, got string 'a'"),
            ({"type": "object", "properties": []}, ".properties", "expected object, got array []"),
            (obj({"a": {"pattern": "("}}), ".properties.a.pattern", "is not a 'regex'"),
            (obj({"a": {"$ref": "#/$defs/b"}}), "", "refers to '#/$defs/b', which is not in this schema"),
            (obj({"a": {"$ref": "#/required/b"}}, required=["a"]), "", "refers to '#/required/b'"),
            (obj({"a": {"items": {"$ref": "file:///etc/x"}}}), "", "references are not fetched"),
            ({"type": 3}, ".type", "got 3"),
            ({"$schema": 3}, ".$schema", "expected string, got number 3"),
        ],
    )
    def test_a_broken_schema_is_refused_where_it_is_broken(
        self, schema: JsonObject, path: str, words: str
    ) -> None:
        with pytest.raises(SchemaError) as caught:
            check_schema(schema)
        assert caught.value.path == path
        assert words in caught.value.problem
        assert str(caught.value) == (f"{path}: " if path else "") + caught.value.problem

    def test_references_within_a_schema_are_fine(self) -> None:
        check_schema(
            obj(
                {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#y"}, "$ref": {"type": "string"}},
                **{
                    "$id": "https://here.example/s",
                    "$defs": {
                        "x": {"$ref": "https://here.example/s#/$defs/z"},
                        "y": {"$anchor": "y"},
                        "z": True,
                    },
                },
            )
        )

    def test_a_schema_of_an_unknown_kind_is_read_as_the_latest(self) -> None:
        schema = obj({"a": {"type": "number"}}, **{"$schema": "https://example.test/mine"})
        check_schema(schema)
        assert lines(schema, {"a": "x"}) == ("a: expected number, got string 'x'",)

    def test_depth_and_size_of_a_schema_are_limited(self) -> None:
        deep: JsonObject = {"type": "object"}
        for _ in range(MAX_DEPTH):
            deep = obj({"a": deep})
        with pytest.raises(SchemaError, match="nested more than"):
            check_schema(deep)
        with pytest.raises(SchemaError, match="has more than"):
            check_schema(obj({"a": {"enum": list(range(MAX_VALUES))}}))

    def test_recursion_in_the_library_is_told_as_a_fault(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def recurse(_schema: JsonObject) -> None:
            raise RecursionError

        monkeypatch.setattr("dragoman.tools.validation.fault", recurse)
        with pytest.raises(SchemaError, match="nested too deeply"):
            check_schema(obj({}))


_scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
_schemas = st.recursive(
    st.fixed_dictionaries({}, optional={"default": _values}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "default": _values,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=12,
)


@given(_schemas, st.dictionaries(st.sampled_from("abc"), _values, max_size=3))
@settings(max_examples=examples(100), deadline=None)
def test_filling_in_defaults_twice_changes_nothing_more(schema: JsonObject, value: JsonObject) -> None:
    once = complete(schema, value)
    assert complete(schema, once) == once
    # What was given is still there; only what was missing has come.
    assert {name: once[name] for name in value}.keys() == value.keys()
    check_schema(schema)
