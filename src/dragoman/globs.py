"""Glob patterns over paths taken apart: `*`, `?`, `[a-z]` within a name, `**` for any number of folders, `{a,b}`.

Matching walks along the names once, keeping the set of places in the pattern where it may be, so that no pattern takes
more than its length times the path's.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TypeAlias

__all__ = ["MAX_ALTERNATIVES", "MAX_GLOB_LENGTH", "Glob", "GlobError"]

MAX_GLOB_LENGTH = 1_000
# `{a,b}{c,d}` stands for four patterns; a dozen braces would stand for thousands.
MAX_ALTERNATIVES = 100

_BRACES = re.compile(r"\{([^{}]*)\}")
# None stands for `**`.
_Segments: TypeAlias = tuple[re.Pattern[str] | None, ...]


class GlobError(ValueError):
    """A pattern that cannot be used, and why."""


class Glob:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_GLOB_LENGTH:
            raise GlobError(f"The glob has {len(text):,} characters; at most {MAX_GLOB_LENGTH:,} are taken.")
        self._alternatives = tuple(map(_segments, _without_braces(text)))

    def matches(self, names: tuple[str, ...]) -> bool:
        return any(len(segments) in _reached(segments, names) for segments in self._alternatives)

    def may_match_below(self, names: tuple[str, ...]) -> bool:
        """Whether anything inside the folder `names` could match."""
        return any(_reached(segments, names) - {len(segments)} for segments in self._alternatives)


def _without_braces(text: str) -> list[str]:
    done: list[str] = []
    waiting = [text]
    while waiting:
        each = waiting.pop()
        braces = _BRACES.search(each)
        if braces is None:
            done.append(each)
        else:
            before, after = each[: braces.start()], each[braces.end() :]
            waiting.extend(f"{before}{choice}{after}" for choice in braces[1].split(","))
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise GlobError(f"The braces of the glob stand for more than {MAX_ALTERNATIVES} patterns.")
    return done


def _segments(text: str) -> _Segments:
    names = [name for name in text.split("/") if name not in ("", ".")]
    if ".." in names:
        raise GlobError("A glob does not climb with '..'. Name the folder to begin in as the path.")
    if not names:
        raise GlobError(
            "The glob is empty. Use '*' for everything in the folder, '**' for everything below it."
        )
    return tuple(None if name == "**" else re.compile(fnmatch.translate(name)) for name in names)


def _reached(segments: _Segments, names: tuple[str, ...]) -> set[int]:
    """The numbers of segments that may be consumed after all of `names`."""
    places = _with_empty({0}, segments)
    for name in names:
        following = set()
        for place in places:
            if place == len(segments):
                continue
            segment = segments[place]
            if segment is None:
                following.add(place)
            elif segment.match(name):
                following.add(place + 1)
        places = _with_empty(following, segments)
    return places


def _with_empty(places: set[int], segments: _Segments) -> set[int]:
    """Add the positions that are reached when a `**` matches no folder."""
    reached = set(places)
    for place in places:
        following = place
        while following < len(segments) and segments[following] is None:
            following += 1
            reached.add(following)
    return reached
