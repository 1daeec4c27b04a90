"""Globs over paths: relative to the workspace, to the home (`~/…`), or absolute.

A path is compared by its words and by where it leads. An *allow* rule needs both to match, and compares letters
exactly. For *deny* and *ask* one of them suffices, and upper and lower case do not matter.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dragoman.globs import Glob
from dragoman.permissions.sensitive import Places

__all__ = ["PathPatterns", "resolving_once"]


def resolving_once(places: Places) -> Places:
    """The same places, for one decision: each folder is looked up once."""
    known: dict[str, str] = {}

    def resolve(path: str) -> str:
        if path not in known:
            folder, name = os.path.split(path)
            is_plain = name not in ("", ".", "..") and folder not in ("", "/") and not os.path.islink(path)  # noqa: PTH114
            known[path] = os.path.join(resolve(folder), name) if is_plain else places.resolve(path)  # noqa: PTH118
        return known[path]

    return replace(places, resolve=resolve)


class PathPatterns:
    """Raises `GlobError` for a pattern that cannot be used."""

    def __init__(self, patterns: Iterable[str]) -> None:
        texts = tuple(patterns)
        self._exact = tuple(map(_PathPattern, texts))
        self._folded = tuple(_PathPattern(text.casefold()) for text in texts)

    def all_ways_match(self, path: str, places: Places) -> bool:
        """Whether an absolute path matches by its words and by where it leads."""
        try:
            ways = {os.path.normpath(path), places.resolve(path)}
        except (OSError, ValueError):
            return False
        return all(any(pattern.matches(way, places) for pattern in self._exact) for way in ways)

    def a_way_matches(self, path: str, places: Places) -> bool:
        """Whether an absolute path matches by its words or by where it leads, in upper or lower case."""
        return any(
            pattern.matches(way.casefold(), places, is_folded=True)
            for way in places.ways_to(path)
            for pattern in self._folded
        )


class _PathPattern:
    def __init__(self, text: str) -> None:
        self._is_home = text == "~" or text.startswith("~/")
        self._is_absolute = text.startswith("/")
        glob = text[1:] if self._is_home else text
        # The workspace itself, the home itself.
        self._is_root = glob.strip("/") in ("", ".")
        self._glob = Glob("**" if self._is_root else glob)

    def matches(self, path: str, places: Places, *, is_folded: bool = False) -> bool:
        return any(
            not names if self._is_root else self._glob.matches(names)
            for names in self._names(path, places, is_folded=is_folded)
        )

    def _names(self, path: str, places: Places, *, is_folded: bool) -> Iterator[tuple[str, ...]]:
        """The names of the path below each folder that the pattern is relative to."""
        if self._is_absolute:
            yield _parts(path)
            return
        for root in (places.home,) if self._is_home else places.workspace:
            for way in {os.path.normpath(root), places.resolve(root)}:
                base = (way.casefold() if is_folded else way).rstrip("/")
                if path == base or path.startswith(f"{base}/"):
                    yield _parts(path[len(base) :])


def _parts(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split("/")))
