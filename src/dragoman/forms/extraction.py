"""Finds the JSON value in an answer.

An agent that was asked for JSON answers with it alone, puts it into a code block, or writes words around it. Nothing is
repaired: a value inside broken JSON is not a value of the answer, and neither is the beginning of one that was cut off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from dragoman.lm.json import decode

__all__ = ["MOST_CHARACTERS", "FoundValue", "values_in"]

# A longer answer is not searched: no client wants that much JSON in one message.
MOST_CHARACTERS = 1_000_000
# So many places between words are tried. A failed try may read the rest of the text.
_TRIES = 64
# So many values are returned. More than one means doubt already.
_MOST_VALUES = 8
_OPENING = re.compile(r"[{\[]")
# A bracket, or a string: brackets in it do not count. One without an end takes the rest.
_BRACKET = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class FoundValue:
    """A JSON value, and where in the text it is."""

    start: int
    end: int
    value: object


def values_in(text: str) -> tuple[FoundValue, ...]:
    """The JSON values of an answer: the whole text, else the code blocks that are JSON, else the values between words."""
    if len(text) > MOST_CHARACTERS:
        return ()
    whole = _value(text, 0, len(text))
    if whole is not None:
        return (whole,)
    blocks = [_value(text, start, end) for start, end in _blocks(text)]
    found = tuple(block for block in blocks if block is not None)
    return (found or tuple(_between_words(text)))[:_MOST_VALUES]


def _value(text: str, start: int, end: int) -> FoundValue | None:
    inner = text[start:end]
    own = inner.strip()
    try:
        value = decode(own)
    except msgspec.DecodeError:
        return None
    start += len(inner) - len(inner.lstrip())
    return FoundValue(start, start + len(own), value)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """The contents of the fenced code blocks. A block without an end is none: it was cut off."""
    place = begins = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark is not None and not fence:
            fence, begins = mark[1], place + len(line)
        elif mark is not None and mark[1].startswith(fence) and not line[mark.end() :].strip():
            yield begins, place
            fence = ""
        place += len(line)


def _between_words(text: str) -> Iterator[FoundValue]:
    place = 0
    for _ in range(_TRIES):
        opening = _OPENING.search(text, place)
        if opening is None:
            return
        end = _end_of_value(text, opening.start())
        found = None if end is None else _value(text, opening.start(), end)
        if found is not None:
            yield found
            place = found.end
        else:
            # What is inside a bracket that is not JSON is no value of the answer.
            place = _end_of_brackets(text, opening.start())


def _end_of_value(text: str, start: int) -> int | None:
    try:
        return _decoder.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None


def _end_of_brackets(text: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += _STEPS.get(bracket[0], 0)
        if depth == 0:
            return bracket.end()
    return len(text)
