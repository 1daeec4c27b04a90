"""Makes values that fit a JSON Schema, with what a prompt plainly says filled in.

The demo agent needs them twice: for the arguments of a function, and for an answer in a given form. The part of JSON Schema
that counts is the one that clients send: types, `enum` and `const`, limits, `format`, `$ref` into the schema itself, `allOf`,
`anyOf` and `oneOf`. A `pattern` is ignored.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Final

from dragoman.demo.agent.facts import PromptFacts, tokens
from dragoman.demo.agent.properties import direction_of, kind_of, part_of_place
from dragoman.demo.agent.schemas import (
    FORMATS,
    MAX_RECURSIONS,
    SchemaReader,
    allows,
    branches,
    fits,
    least,
    listed,
    merged,
    object_in,
    of_length,
    type_of,
    without_branches,
)
from dragoman.lm import JsonObject

__all__ = ["Filler", "fill"]

_FILE = re.compile(r"[\w./~-]*[\w-]\.\w{1,8}\b|[\w.~-]*/[\w./-]+")
_LEADING_VERB = re.compile(
    r"^\W*(?:please\s+)?(?:read|open|show|look\s+up|look\s+for|search(?:\s+for)?|find)\s+", re.IGNORECASE
)
_EXAMPLE = re.compile(r"\be\.?g\.?,? [`'\"]?([^`'\".;()]+)")
_SOMEWHERE = "Istanbul"
# Properties for the whole of what was said.
_WHOLE = frozenset(
    tokens("query question prompt text message body content input answer explanation summary task reasoning")
)
# A text for which the prompt has no better words than its own.
_MAX_TEXT = 200

_PATHS = frozenset({"path", "file", "filepath", "file_path", "filename", "file_name", "uri"})


def fill(schema: JsonObject, facts: PromptFacts, *, generous: bool = False, name: str = "") -> object:
    """A value that fits `schema`."""
    try:
        return Filler(schema, facts, generous=generous).value(name, schema)
    except RecursionError:
        # A schema that consists of nothing but itself.
        return {}


class _Missing:
    """What the prompt does not say."""


_MISSING: Final = _Missing()


class Filler:
    """Fills schemas within `root` from `facts`.

    A generous filler also fills in what nothing requires, where that shows more: of an answer, but not of a call.
    """

    def __init__(self, root: JsonObject, facts: PromptFacts, *, generous: bool = False) -> None:
        self._schemas = SchemaReader(root)
        self._facts = facts
        self._generous = generous
        # Each number is used once: "add 2 and 3".
        self._numbers = deque(facts.numbers)

    def value(self, name: str, schema: object, siblings: frozenset[str] = frozenset()) -> object:
        """A value for the property `name`. `siblings` are the names of the others."""
        return self._value(name, schema, siblings, ())

    def plain(self, name: str, schema: object) -> bool:
        """Whether the prompt plainly says what the property is."""
        return self._plain(name, self._schemas.whole(schema), frozenset()) is not _MISSING

    def object_of(
        self, schema: JsonObject, *, optional: bool = True, _path: tuple[int, ...] = ()
    ) -> dict[str, object]:
        """An object with everything that is required and, if `optional`, what else the prompt plainly says."""
        whole = self._schemas.whole(schema)
        properties = object_in(whole.get("properties"))
        required = [str(each) for each in listed(whole.get("required"))]
        siblings = frozenset(properties)
        wanted = dict.fromkeys(required)
        if optional:
            fills_all = self._generous and not required
            wanted |= dict.fromkeys(
                each
                for each, inner in properties.items()
                if (fills_all and not self._schemas.recurs(inner, _path))
                or self._plain(each, self._schemas.whole(inner), siblings) is not _MISSING
            )
        return {each: self._value(each, properties.get(each), siblings - {each}, _path) for each in wanted}

    def _value(
        self,
        name: str,
        schema: object,
        siblings: frozenset[str],
        path: tuple[int, ...],
        identity: int | None = None,
    ) -> object:
        identity = identity or id(self._schemas.target(schema))
        whole = self._schemas.whole(schema)
        plain = self._plain(name, whole, siblings)
        if not isinstance(plain, _Missing):
            return plain
        for key in ("const", "default"):
            if key in whole:
                return whole[key]
        for choices in (whole.get("enum"), whole.get("examples")):
            if isinstance(choices, list) and choices:
                return choices[0]
        if alternatives := branches(whole):
            chosen = min(alternatives, key=lambda each: self._schemas.recurs(each, (*path, identity)))
            both = merged(without_branches(whole), self._schemas.whole(chosen))
            return self._value(name, both, siblings, path, id(self._schemas.target(chosen)))
        return self._made(name, whole, path, identity)

    def _made(self, name: str, schema: JsonObject, path: tuple[int, ...], identity: int) -> object:
        match type_of(schema):
            case "integer" | "number":
                return self._number(schema)
            case "boolean":
                return False
            case "null":
                return None
            case "array":
                return self._array(name, schema, (*path, identity))
            case "object" if path.count(identity) < MAX_RECURSIONS:
                return self.object_of(schema, _path=(*path, identity))
            case "object":
                return {}
            case _:
                return of_length(self._text(name, schema), schema)

    def _array(self, name: str, schema: JsonObject, path: tuple[int, ...]) -> list[object]:
        first = [self._value(name, each, frozenset(), path) for each in listed(schema.get("prefixItems"))]
        required = schema.get("minItems", 0)
        items = schema.get("items", {})
        shows_one = (
            self._generous
            and not first
            and not self._schemas.recurs(items, path)
            and schema.get("maxItems") != 0
        )
        wanted = max(required if isinstance(required, int) else 0, 1 if shows_one else 0)
        rest = [self._value(name, items, frozenset(), path) for _ in range(wanted - len(first))]
        return first + rest

    def _number(self, schema: JsonObject) -> object:
        for number in self._numbers:
            if fits(number, schema):
                self._numbers.remove(number)
                return number
        return least(schema)

    def _text(self, name: str, schema: JsonObject) -> str:
        """A text for a property that the prompt does not name."""
        words = self._facts.words
        form = schema.get("format")
        if isinstance(form, str) and form in FORMATS:
            return FORMATS[form]
        match name.lower():
            case called if called in _PATHS:
                file = _FILE.search(words)
                return file[0] if file else "README.md"
            case "url":
                return FORMATS["uri"]
            case "command":
                return "echo hello"
        if kind_of(name) == "place":
            example = _EXAMPLE.search(str(schema.get("description", "")))
            return example[1].strip() if example else _SOMEWHERE
        if self._facts.quoted:
            return self._facts.quoted
        if self._facts.places:
            return self._facts.places[0]
        if self._facts.people and not _WHOLE.intersection(tokens(name)):
            return self._facts.people[0]
        return _LEADING_VERB.sub("", words).strip(" ?!.\n")[:_MAX_TEXT] or "hello"

    # What the prompt plainly says.

    def _plain(self, name: str, schema: JsonObject, siblings: frozenset[str]) -> object:
        if alternatives := branches(schema):
            rest = without_branches(schema)
            found = (
                self._plain(name, merged(rest, self._schemas.whole(each)), siblings) for each in alternatives
            )
            return next((value for value in found if value is not _MISSING), _MISSING)
        kind = type_of(schema)
        if kind == "object" or "const" in schema:
            return _MISSING
        candidates = self._lists(name, schema) if kind == "array" else self._scalars(name, schema, siblings)
        return next((value for value in candidates if self._accepts(schema, value)), _MISSING)

    def _accepts(self, schema: JsonObject, value: object) -> bool:
        """Whether a value that was found fits: a scalar, or a list of them."""
        if alternatives := branches(schema):
            rest = without_branches(schema)
            return any(self._accepts(merged(rest, self._schemas.whole(each)), value) for each in alternatives)
        if not isinstance(value, list):
            return fits(value, schema)
        items = self._schemas.whole(schema.get("items", {}))
        return fits(value, schema) and all(
            not isinstance(each, list) and self._accepts(items, each) for each in value
        )

    def _scalars(self, name: str, schema: JsonObject, siblings: frozenset[str]) -> Iterator[object]:
        facts = self._facts
        if name in facts.known:
            yield facts.known[name]
        if isinstance(schema.get("enum"), list):
            yield from self._mentioned(listed(schema["enum"]))
            return
        about = kind_of(name) or ("place" if "city" in tokens(str(schema.get("description", ""))) else None)
        if allows(schema, "number") or allows(schema, "integer"):
            yield facts.age if about == "age" else facts.amount(name)
        if not allows(schema, "string") or name.lower() in (*_PATHS, "command"):
            return
        yield facts.stated(name)
        if name.lower() == "to":
            yield facts.email
            yield from facts.people
        direction = direction_of(name)
        match about:
            case "place":
                place = facts.place(direction)
                yield place and part_of_place(place, name, str(schema.get("description", "")))
            case "people":
                yield from facts.people
            case "name" if "event" in tokens(name) or any(kind_of(each) == "people" for each in siblings):
                # The people have a property of their own, so this is the name of something else.
                yield facts.event
            case "name":
                yield from facts.people
            case "event":
                yield facts.quoted
                yield facts.event
            case "date":
                yield facts.iso_date
                yield facts.date
            case "email":
                yield facts.email
            case "url":
                yield facts.url
            case "code":
                yield from reversed(facts.codes) if direction == "to" else facts.codes
            case "expression":
                yield facts.expression
            case _:
                pass

    def _lists(self, name: str, schema: JsonObject) -> Iterator[object]:
        items = self._schemas.whole(schema.get("items", {}))
        facts = self._facts
        if name in facts.known:
            yield facts.known[name]
        if isinstance(items.get("enum"), list):
            yield [*self._mentioned(listed(items["enum"]))] or None
        elif items.get("type") in ("number", "integer"):
            yield facts.numbers or None
        elif allows(items, "string"):
            match kind_of(name):
                case "people" | "name":
                    yield facts.people or None
                case "place":
                    yield facts.places or None
                case _:
                    pass

    def _mentioned(self, choices: list[object]) -> Iterator[object]:
        """The choices that the words mention."""
        said = f" {' '.join(tokens(self._facts.words))} "
        for choice in choices:
            if isinstance(choice, str) and choice and f" {' '.join(tokens(choice))} " in said:
                yield choice
