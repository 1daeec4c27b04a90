"""Globs over paths: relative to the workspace, to the home (`~/…`), or absolute.

A path is compared by its words and by where it leads. An *allow* rule needs both to match, and compares letters
exactly. For *deny* and *ask* one of them suffices, and upper and lower case do not matter.
"""

from __future__ import annotations

import os.path
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile

from dragoman.globs import Glob
from dragoman.permissions.sensitive import Places
from dragoman.policy.match import Match

__all__ = ["PathPatterns", "resolving_once"]

_WILD = re.compile(r"[*?\[{]")


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


# Of a few folders, again and again.
_normal = lru_cache(256)(os.path.normpath)


def _folded(text: str) -> str:
    """As the most forgiving file system compares it: without case, and with each letter in one form."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


class PathPatterns:
    """Raises `GlobError` for a pattern that cannot be used."""

    def __init__(self, patterns: Iterable[str]) -> None:
        texts = tuple(patterns)
        self._exact = _Patterns(texts)
        self._folded = _Patterns(tuple(_folded(text) for text in texts))

    def all_ways_match(self, path: str, places: Places) -> bool:
        """Whether an absolute path matches by its words and by where it leads."""
        try:
            ways = {os.path.normpath(path), places.resolve(path)}
        except (OSError, ValueError):
            return False
        return all(self._exact.match(way, places) for way in ways)

    def a_way_matches(self, path: str, places: Places) -> bool:
        """Whether an absolute path matches by its words or by where it leads, in upper or lower case."""
        return self.of_restricted(path, places) is Match.YES

    def of_restricted(self, path: str, places: Places) -> Match:
        """The same; MAYBE if the path is a folder above something that a pattern names, without a wildcard before it."""
        ways = {_folded(way) for way in places.ways_to(path)}
        if any(self._folded.match(way, places, is_folded=True) for way in ways):
            return Match.YES
        return Match.MAYBE if any(self._folded.begin_below(way, places) for way in ways) else Match.NO


class _Patterns:
    """Patterns by what they are relative to."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._in_workspace: list[Glob | None] = []
        self._in_home: list[Glob | None] = []
        self._absolute: list[Glob | None] = []
        # The beginnings without wildcards, and what they are relative to: the workspace, the home or the root.
        self._beginnings: list[tuple[str, tuple[str, ...]]] = []
        for text in texts:
            is_home = text == "~" or text.startswith("~/")
            glob = text[1:] if is_home else text
            group = (
                self._in_home if is_home else self._absolute if text.startswith("/") else self._in_workspace
            )
            # None: the folder itself.
            group.append(None if glob.strip("/") in ("", ".") else Glob(glob))
            names = tuple(name for name in glob.split("/") if name not in ("", "."))
            literal = tuple(takewhile(lambda name: not _WILD.search(name), names))
            self._beginnings.append(("~" if is_home else "/" if text.startswith("/") else "", literal))

    def begin_below(self, path: str, places: Places) -> bool:
        """Whether a pattern begins with a path below this folder. Both are without upper case."""
        for base, literal in self._beginnings:
            roots = places.workspace if not base else (places.home if base == "~" else "/",)
            for root in roots:
                for way in {_normal(root), places.resolve(root)}:
                    beginning = "/".join((_folded(way).rstrip("/"), *literal))
                    if literal and beginning.startswith(path.rstrip("/") + "/"):
                        return True
        return False

    def match(self, path: str, places: Places, *, is_folded: bool = False) -> bool:
        return (
            _any_matches(self._in_workspace, path, places.workspace, places, is_folded=is_folded)
            or _any_matches(self._in_home, path, (places.home,), places, is_folded=is_folded)
            or _any_matches(self._absolute, path, ("/",), places, is_folded=is_folded)
        )


def _any_matches(
    patterns: list[Glob | None], path: str, roots: tuple[str, ...], places: Places, *, is_folded: bool
) -> bool:
    """Whether the path below one of these folders matches one of the patterns."""
    if not patterns:
        return False
    for root in roots:
        for way in {_normal(root), places.resolve(root)}:
            base = (_folded(way) if is_folded else way).rstrip("/")
            if path == base or path.startswith(f"{base}/"):
                names = tuple(filter(None, path[len(base) :].split("/")))
                if any(not names if glob is None else glob.matches(names) for glob in patterns):
                    return True
    return False
