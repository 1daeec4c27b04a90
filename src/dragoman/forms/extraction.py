"""Finds the JSON value in an answer.

An agent that was asked for JSON answers with it alone, puts it into a code block, or writes words around it. Nothing is
repaired: a value inside broken JSON is not a value of the answer, and neither is the beginning of one that was cut off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from dragoman.lm.json import decode

__all__ = ["MOST_CHARACTERS", "FoundValue", "values_in"]

# A longer answer is not searched: no client wants that much JSON in one message.
MOST_CHARACTERS = 1_000_000
# So many places between words are tried. A failed try may read the rest of the text.
_TRIES = 64
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
    """The JSON values of an answer: the whole text, else the code blocks that are JSON and the values between words.

    Beside a block that is JSON, other code blocks are code. Without one, a value may be in any of them.
    """
    if len(text) > MOST_CHARACTERS:
        return ()
    whole = _value(text, 0, len(text))
    if whole is not None:
        return (whole,)
    blocks = [*_blocks(text)]
    found = [block for start, end in blocks if (block := _value(text, start, end)) is not None]
    # A block may be an example, and the answer be in the words around it.
    found += _between_words(text, blocks if found else ())
    return tuple(sorted(found, key=lambda each: each.start))


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


def _between_words(text: str, without: Sequence[tuple[int, int]]) -> Iterator[FoundValue]:
    """The values in a text, `without` what is in some places of it."""
    begins = [0, *(end for _, end in without)]
    ends = [*(start for start, _ in without), len(text)]
    tries = _TRIES
    for begin, end in zip(begins, ends, strict=True):
        piece, place = text[begin:end], 0
        while tries and (opening := _OPENING.search(piece, place)) is not None:
            tries -= 1
            start = opening.start()
            after = _end_of_value(piece, start)
            found = None if after is None else _value(text, begin + start, begin + after)
            if found is not None:
                yield found
            # What is inside a bracket that is not JSON is no value of the answer.
            place = found.end - begin if found is not None else _end_of_brackets(piece, start)


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
