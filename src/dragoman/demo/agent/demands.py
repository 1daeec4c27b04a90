"""Finds what a prompt demands of the answer: a form in JSON, or a call of a function.

A demand is in the user's own words, or in a text that the client puts beside them. The demo agent does not know who writes
it: any text that speaks of JSON and contains a JSON Schema, or an example, asks for an answer of that form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.demo.agent.prompt import TRANSCRIPT
from dragoman.lm import JsonObject, Message, Request

__all__ = ["JsonText", "PromptDemands", "json_texts", "read_demands"]

# What a client says about itself, and what was said before: neither is about this answer alone.
_STANDING = re.compile(r"<(client-context[\w-]*)>(.*?)</\1>", re.DOTALL)
_BEFORE = re.compile(rf"({TRANSCRIPT}[\w-]*)>.*?</{TRANSCRIPT[1:]}[\w-]*>", re.DOTALL)

_WANTS_JSON = re.compile(
    r"\b(?:answer|reply|respond|response|message|return|output|format|write|give)\b.{0,200}\bjson\b|\b(?:as|in) json\b|\bjson (?:format|schema|object)\b",
    re.IGNORECASE | re.DOTALL,
)
_WANTS_LIST = re.compile(r"\bjson (?:array|list)\b", re.IGNORECASE)
_MUST_CALL = re.compile(
    r"\b(?:must|have to|required to)\b[^.\n]{0,40}\b(?:call|use)\b[^.\n]{0,80}\b(?:function|tool)s?\b",
    re.IGNORECASE,
)
# A second prompt about the same answer: the user's words are in an earlier one.
_AGAIN = re.compile(r"\b(?:form|call) that is described above\b", re.IGNORECASE)

_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
# A place that is no JSON may be read to the end of the text, so only so many are tried.
_MAX_TRIES = 200
_OPENING = re.compile(r"[{\[]")
_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class JsonText:
    """A JSON object or list in a text, and where it is."""

    start: int
    end: int
    value: object


@dataclass(frozen=True, slots=True)
class PromptDemands:
    # The user's own words, without the JSON in them.
    words: str
    # The user's own words as they are.
    spoken: str
    # The schema of the answer; None if no form is asked for.
    form: JsonObject | None = None
    must_call: bool = False
    # The text that says so, which may name the function.
    call_text: str = ""
    # Where the user's message is among the messages.
    at: int = 0


def read_demands(request: Request) -> PromptDemands:
    """What the last prompt asks for."""
    messages = request.messages
    last = _last_prompt(messages, len(messages))
    beside = _beside(messages, last)
    spoken = messages[last].text
    at = last
    if _AGAIN.search(spoken) and (earlier := _last_prompt(messages, last)) >= 0:
        spoken, at = messages[earlier].text, earlier
    standing = next((text for text in map(_standing, reversed(messages[: last + 1])) if text), "")
    form = _form(beside) or _form(spoken, own=True) or _form(standing, schema_only=True)
    call_text = next((text for text in (beside, messages[last].text) if _MUST_CALL.search(text)), "")
    return PromptDemands(_without_json(spoken), spoken, form, bool(call_text), call_text, at)


def json_texts(text: str) -> Iterator[JsonText]:
    """The JSON objects and lists in a text, outermost ones only."""
    place = 0
    for _ in range(_MAX_TRIES):
        opening = _OPENING.search(text, place)
        if opening is None:
            return
        try:
            value, place = _decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            place = opening.end()
        else:
            yield JsonText(opening.start(), place, value)


def _last_prompt(messages: tuple[Message, ...], end: int) -> int:
    return next(
        (
            index
            for index in reversed(range(end))
            if messages[index].role == "user" and not messages[index].results
        ),
        -1,
    )


def _beside(messages: tuple[Message, ...], last: int) -> str:
    """What the client says beside this prompt, and about this prompt only."""
    if last < 1 or messages[last - 1].role != "system":
        return ""
    return _BEFORE.sub("", _STANDING.sub("", messages[last - 1].text)).strip()


def _standing(message: Message) -> str:
    """What the client says about itself, in a system message."""
    if message.role != "system":
        return ""
    return "\n".join(match[2] for match in _STANDING.finditer(message.text))


def _form(text: str, *, own: bool = False, schema_only: bool = False) -> JsonObject | None:
    """The schema that the answer must fit, by what a text says."""
    wants_list = _WANTS_LIST.search(text)
    if not wants_list and not _WANTS_JSON.search(text):
        return None
    found = [each.value for each in json_texts(text)]
    for value in found:
        if (schema := _schema_in(value)) is not None:
            return schema
    if schema_only:
        return None
    examples = [value for value in found if isinstance(value, dict) and value] if own else []
    if examples:
        return _schema_of(examples[-1])
    if wants_list:
        return {"type": "array", "items": {"type": "string"}, "minItems": 1}
    return {"type": "object"}


def _schema_in(value: object) -> JsonObject | None:
    """A value as a schema, or the schema that it is an envelope of."""
    if not isinstance(value, dict):
        return None
    for name in ("schema", "json_schema", "format"):
        if (inner := _schema_in(value.get(name))) is not None:
            return inner
    kind = value.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    is_typed = all(isinstance(each, str) and each in _TYPES for each in kinds)
    has_parts = any(
        isinstance(value.get(key), dict) for key in ("properties", "$defs", "definitions", "items")
    )
    has_branches = any(isinstance(value.get(key), list) for key in ("anyOf", "oneOf", "allOf", "enum"))
    return value if is_typed or has_parts or has_branches or isinstance(value.get("$ref"), str) else None


def _schema_of(example: object) -> JsonObject:
    """A schema for values like an example."""
    match example:
        case dict():
            properties = {str(name): _schema_of(value) for name, value in example.items()}
            return {"type": "object", "properties": properties, "required": [*properties]}
        case list():
            return {"type": "array", "items": _schema_of(example[0]) if example else {}, "minItems": 1}
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case _:
            return {"type": "string"}


def _without_json(text: str) -> str:
    for each in reversed([*json_texts(text)]):
        text = f"{text[: each.start]} {text[each.end :]}"
    return re.sub(r"```\w*", " ", text).strip()
