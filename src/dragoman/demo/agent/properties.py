"""Tells what a property is about by its name: a place, a person, a day."""

from __future__ import annotations

import re

from dragoman.demo.agent.facts import tokens

__all__ = ["direction_of", "kind_of", "part_of_place"]

# What a property is about, by a word of its name.
_KINDS = {
    word: kind
    for kind, words in {
        "place": "location city town place country region capital area address destination origin departure arrival timezone",
        "people": "participant attendee people person guest member friend who",
        "name": "name author user customer recipient",
        "event": "event title",
        "date": "date day when deadline due",
        "age": "age",
        "email": "email mail",
        "url": "url link website",
        "code": "symbol ticker currency",
        "expression": "expression formula equation calculation",
    }.items()
    for word in words.split()
}
_DIRECTIONS = {"origin": "from", "departure": "from", "from": "from", "to": "to", "destination": "to"}


def kind_of(name: str) -> str | None:
    """What a property is about."""
    words = [word if word in _KINDS else _singular(word) for word in tokens(name)]
    return next((_KINDS[word] for word in words if word in _KINDS), None)


def direction_of(name: str) -> str | None:
    """Whether a property is for where something comes from, or where it goes to."""
    return next((_DIRECTIONS[word] for word in tokens(name) if word in _DIRECTIONS), None)


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def part_of_place(place: str, name: str, description: str) -> str:
    """The part of a place that a property is for: of "Bogotá, Colombia" the city, the country, or all."""
    first, _, second = place.partition(", ")
    words = tokens(name)
    if "country" in words and second:
        return second
    if "city" in words:
        return first
    # As the description writes it, if that is its example: "San Francisco, CA".
    match = re.search(rf"\b{re.escape(place)}, [A-Z]{{2}}\b", description)
    return match[0] if match else place
