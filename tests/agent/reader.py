"""Reads the context updates in prompts, independently of the code that writes them."""

from __future__ import annotations

import re
from itertools import pairwise

from dragoman.conversations.context import units

__all__ = ["REPLACED", "Known", "read"]

REPLACED = "instead of everything that it told you before.\n\n"
# All that is said, in its order: sections with their names, and text without.
Known = list[tuple[str, str]]


def read(known: Known, sent: str) -> Known:
    """The context that a reader has after it has applied an update."""
    if REPLACED in sent:
        return [*units(sent.partition(REPLACED)[2])]
    if not known:
        return [*units(sent)]
    for (_, said), (name, section) in pairwise([*units(sent), ("", "")]):
        known = _obeyed(known, said, name, section)
    return known


def _obeyed(known: Known, said: str, name: str, section: str) -> Known:
    """After one sentence, or several that stand together, with the section that follows."""

    def place(named: str, number: str | None) -> int:
        places = [index for index, (each, _) in enumerate(known) if each == named]
        assert number is not None or len(places) == 1
        return places[int(number or 1) - 1]

    gone = [
        place(*found)
        for found in re.findall(r"No longer valid: the section <(\w+)>(?: number (\d+))?\.", said)
    ]
    known = [unit for index, unit in enumerate(known) if index not in gone]
    if replaced := re.search(r"This replaces the earlier section <(\w+)>(?: number (\d+))?:$", said):
        known[place(*replaced.groups())] = (name, section)
    elif new := re.search(r"New, behind the section <(\w+)>(?: number (\d+))?:$", said):
        known.insert(place(*new.groups()) + 1, (name, section))
    return known
