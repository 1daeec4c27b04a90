"""Answers in a form: what asks for one, what is taken from the prompt, and that every value fits its schema."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from demo_agent.harness import Editor
from dragoman.demo.agent.facts import PromptFacts
from dragoman.demo.agent.filling import fill
from dragoman.lm import JsonObject

_Schema = dict[str, Any]

_TEXT: _Schema = {"type": "string"}
_EVENT: _Schema = {
    "type": "object",
    "properties": {"name": _TEXT, "date": _TEXT, "participants": {"type": "array", "items": _TEXT}},
    "required": ["name", "date", "participants"],
    "additionalProperties": False,
}
_WORDS = "Alice and Bob are going to a science fair on Friday."
_FILLED = {"name": "science fair", "date": "Friday", "participants": ["Alice", "Bob"]}


def _object(**properties: _Schema) -> _Schema:
    return {"type": "object", "properties": properties, "required": [*properties]}


# What is taken from the prompt.


@pytest.mark.parametrize(
    ("schema", "words", "value"),
    [
        (_EVENT, _WORDS, _FILLED),
        (_EVENT, f"Extract the event information. {_WORDS}", _FILLED),
        (
            _object(name=_TEXT, age={"type": "integer"}),
            "John Doe is 30 years old.",
            {"name": "John Doe", "age": 30},
        ),
        (
            _object(city=_TEXT, email=_TEXT),
            "Mail me@example.org in Rome",
            {"city": "Rome", "email": "me@example.org"},
        ),
        (
            _object(title=_TEXT, url=_TEXT),
            'Read "Ulysses" at http://localhost/u',
            {"title": "Ulysses", "url": "http://localhost/u"},
        ),
        (
            _object(city=_TEXT, country=_TEXT),
            "It rains in Bogotá, Colombia.",
            {"city": "Bogotá", "country": "Colombia"},
        ),
        (_object(colour=_TEXT), "The colour is green.", {"colour": "green"}),
        (_object(mood={"enum": ["bad", "very good"]}), "It was very good!", {"mood": "very good"}),
        (
            _object(numbers={"type": "array", "items": {"type": "integer"}}),
            "Sort 3, 1 and 2.",
            {"numbers": [3, 1, 2]},
        ),
        (_object(cities={"type": "array", "items": _TEXT}), "From Bern to Oslo", {"cities": ["Oslo"]}),
        (_object(tags={"type": "array", "items": {"enum": ["a", "b"]}}), "tag b, please", {"tags": ["b"]}),
        (_object(date={"type": "string", "format": "date"}), "on 2026-03-01", {"date": "2026-03-01"}),
        (_object(date={"type": "string", "format": "date"}), "on 2026-01-31", {"date": "2026-01-31"}),
        (_object(date={"type": "string", "format": "date"}), "on 2026-02-30", {"date": "2026-01-15"}),
        (_object(date={"type": "string", "format": "date"}), "on Friday", {"date": "2026-01-15"}),
        (_object(name={"anyOf": [{"type": "null"}, _TEXT]}), "Bob is here.", {"name": "Bob"}),
        (
            {"properties": {"age": {"type": "integer"}, "on": {"type": "boolean"}}},
            "I am aged 7",
            {"age": 7, "on": False},
        ),
    ],
)
def test_what_the_prompt_says_is_filled_in(schema: _Schema, words: str, value: object) -> None:
    assert fill(schema, PromptFacts(words), generous=True) == value


def test_what_a_function_returned_is_filled_in() -> None:
    schema = _object(city=_TEXT, degrees={"type": "number"}, tags={"type": "array", "items": _TEXT})
    facts = PromptFacts("The weather in Oslo?", {"degrees": 3.5, "tags": ["snow"], "city": 7})
    assert fill(schema, facts) == {"city": "Oslo", "degrees": 3.5, "tags": ["snow"]}


@pytest.mark.parametrize(
    "schema",
    [
        # A list of nodes, and a tree.
        {
            "$ref": "#/$defs/Node",
            "$defs": {
                "Node": _object(value=_TEXT, next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})
            },
        },
        {
            **_object(list={"oneOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}),
            "$defs": {"N": _object(next={"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]})},
        },
        _object(value=_TEXT, children={"type": "array", "items": {"$ref": "#"}}),
    ],
)
def test_a_schema_that_contains_itself_is_filled_with_something_that_fits(schema: _Schema) -> None:
    Draft202012Validator(schema).validate(fill(schema, PromptFacts(_WORDS), generous=True))


def test_a_schema_that_consists_of_itself_has_a_value() -> None:
    assert (
        fill({"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}}, PromptFacts("")) == {}
    )


# Every value fits.

_NAMES = st.sampled_from(
    ["name", "city", "age", "date", "email", "participants", "title", "to", "count", "x~/y"]
)
_PROMPTS = st.sampled_from(
    ["", _WORDS, "Send 3 of 12 parts to Oslo, in red.", 'He is 30: "yes" at me@x.org, 2026-02-30']
)


@st.composite
def _texts(draw: st.DrawFn) -> _Schema:
    low = draw(st.integers(0, 6))
    length: _Schema = {"minLength": low, "maxLength": low + draw(st.integers(0, 9))}
    form: _Schema = {
        "format": draw(st.sampled_from(["date", "date-time", "email", "uuid", "uri", "unknown"]))
    }
    return {
        "type": "string",
        **draw(st.sampled_from([{}, length, form, {"default": "d"}, {"examples": ["e"]}])),
    }


@st.composite
def _numbers(draw: st.DrawFn) -> _Schema:
    kind = draw(st.sampled_from(["integer", "number"]))
    low, high = sorted(draw(st.tuples(st.integers(-50, 50), st.integers(-50, 50))))
    # Whole numbers lie between limits that are two apart, also where the limits themselves are excluded.
    bottom = draw(st.sampled_from([{}, {"minimum": low}, {"exclusiveMinimum": low}]))
    top = draw(st.sampled_from([{}, {"maximum": high + 2}, {"exclusiveMaximum": high + 2}]))
    return {"type": kind, **bottom, **top}


_FLAT = st.one_of(
    _texts(),
    _numbers(),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({"type": ["string", "null"]}),
    st.builds(
        lambda values: {"enum": values}, st.lists(st.sampled_from(["red", "Oslo", 3, None]), min_size=1)
    ),
    st.builds(lambda value: {"const": value}, st.sampled_from(["c", 1, False])),
)


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[_Schema]) -> _Schema:
    properties = draw(st.dictionaries(_NAMES, inner, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    more = draw(st.sampled_from([{}, {"additionalProperties": False}]))
    return {"type": "object", "properties": properties, "required": required, **more}


def _deeper(inner: st.SearchStrategy[_Schema]) -> st.SearchStrategy[_Schema]:
    arrays = st.builds(
        lambda items, least: {"type": "array", "items": items, "minItems": least, "maxItems": least + 1},
        inner,
        st.integers(0, 3),
    )
    return st.one_of(
        _objects(inner),
        arrays,
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
        st.builds(lambda one: {"oneOf": [{"type": "null"}, _object(kind={"const": "k"}, value=one)]}, inner),
        st.builds(
            lambda one, other: {"allOf": [_object(a=one), _object(b=other)], "description": "d"}, inner, inner
        ),
        st.just({"$ref": "#/$defs/Part"}),
        st.just({"$ref": "#/$defs/x~0~1y"}),
    )


_SCHEMAS = st.recursive(_FLAT, _deeper, max_leaves=8)


@given(schema=_SCHEMAS, part=_objects(_FLAT), other=_FLAT, words=_PROMPTS, generous=st.booleans())
def test_every_value_fits_its_schema(
    *, schema: _Schema, part: _Schema, other: _Schema, words: str, generous: bool
) -> None:
    root = {**schema, "$defs": {"Part": part, "x~/y": other}}
    validator = Draft202012Validator(root, format_checker=Draft202012Validator.FORMAT_CHECKER)
    value = fill(root, PromptFacts(words), generous=generous, name="answer")
    # As text and back: it is JSON.
    validator.validate(json.loads(json.dumps(value)))


# As an agent.

_DEMAND = (
    "<answer-form>\nA program reads your answer. The last message of your turn must be one JSON value that this JSON "
    f"Schema accepts.\n{json.dumps(_EVENT)}\n</answer-form>"
)


def _block(value: str) -> JsonObject:
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    "blocks",
    [
        [_DEMAND, _WORDS],
        [f"{_WORDS} Answer with JSON of this schema: {json.dumps(_EVENT)}"],
        [
            f"{_WORDS}\nRespond in JSON, as in\n```json\n{json.dumps({'type': 'json_schema', 'schema': _EVENT})}\n```"
        ],
        [
            f"<client-context>\nAlways respond with a JSON object of this schema: {json.dumps(_EVENT)}\n</client-context>",
            _WORDS,
        ],
    ],
)
async def test_a_schema_in_the_prompt_is_the_form_of_the_answer(
    editor: Editor, folder: Path, blocks: list[str]
) -> None:
    session = await editor.start(folder)
    await editor.prompt(session, *map(_block, blocks))
    assert json.loads(editor.text(session)) == _FILLED


async def test_the_form_of_one_answer_is_not_that_of_the_next(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    await editor.prompt(session, _block(_DEMAND), _block(_WORDS))
    assert "demo agent" in await editor.say(session, _WORDS)
    # A second prompt about the same answer is about the user's words.
    before = len(editor.heard)
    again = "Your last message was not accepted.\n\nSend it again, in the form that is described above."
    await editor.prompt(session, _block(_DEMAND), _block(again))
    assert json.loads(editor.text(session, before)) == _FILLED


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Answer as JSON: who are you?", dict),
        ("Reply with a JSON array of strings with names for `x`.", list),
    ],
)
async def test_json_without_a_schema(editor: Editor, folder: Path, words: str, kind: type) -> None:
    session = await editor.start(folder)
    value = json.loads(await editor.say(session, words))
    assert isinstance(value, kind)
    assert value


async def test_an_example_is_a_form_too(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    said = await editor.say(
        session, 'Return JSON such as {"city": "x", "tags": ["y"], "n": 1, "on": true}. I am in Bern.'
    )
    assert json.loads(said) | {"tags": [], "n": 0} == {"city": "Bern", "tags": [], "n": 0, "on": False}


async def test_it_thinks_before_it_answers_in_a_form_if_it_is_asked_to(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    await editor.prompt(session, _block(_DEMAND), _block(f"Think. {_WORDS}"))
    assert json.loads(editor.text(session)) == _FILLED
    assert "see me think" in editor.text(session, kind="agent_thought_chunk")


@pytest.mark.parametrize("words", ["What is JSON?", "I like JSON.", 'I have {"type": "object"} here.'])
async def test_talk_about_json_asks_for_no_form(editor: Editor, folder: Path, words: str) -> None:
    session = await editor.start(folder)
    assert "I am the demo agent" in await editor.say(session, words)


async def test_a_command_that_is_asked_for_runs_before_the_answer_in_its_form(
    editor: Editor, folder: Path
) -> None:
    session = await editor.start(folder)
    said = await editor.say(session, "Run `echo done > out.txt`, and answer in JSON.")
    assert (folder / "out.txt").read_text() == "done\n"
    found = re.search(r"\{.*\}", said, re.DOTALL)
    assert found is not None
    assert "answer" in json.loads(found[0])


# Counting.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Count from 3 to 5.", "3, 4, 5.\n"),
        ("Please count to 4 slowly", "1, 2, 3, 4.\n"),
    ],
)
async def test_it_counts(editor: Editor, folder: Path, words: str, said: str) -> None:
    session = await editor.start(folder)
    assert await editor.say(session, words) == said


async def test_it_does_not_count_for_ever(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    assert (await editor.say(session, "count to 999999")).count(",") == 999
