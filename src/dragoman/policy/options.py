"""Arguments that a rule names: the only options that may be there, and what must not be there.

Programs take a long option by any beginning that is clear (`--outp` for `--output`), and short ones in a cluster
(`-la`). So a beginning of a forbidden long option may be it, and so may a cluster with a forbidden letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from dragoman.policy.match import Match

__all__ = ["ListedOptions", "has_forbidden", "is_option"]

_GLOB = re.compile(r"[*?\[]")
_PATTERN = re.compile(r"[*?\[=]")
# The shortest beginning of a long option: two dashes and a letter.
_SHORTEST_LONG = 3


def is_option(argument: str) -> bool:
    """Whether a program may take an argument for an option. `-` is a file, `--` ends the options."""
    return argument.startswith("-") and argument not in ("-", "--")


class ListedOptions:
    """The only options that may be there."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._names = frozenset(entries)
        self._patterns = tuple(entry for entry in self._names if _GLOB.search(entry))

    def __contains__(self, option: str) -> bool:
        """Whether an option is listed: by itself, with a value behind `=`, or as a cluster of short ones."""
        if option in self._names or any(fnmatchcase(option, entry) for entry in self._patterns):
            return True
        if option.startswith("--"):
            name, equals, _ = option.partition("=")
            return bool(equals) and name in self._names
        return all(f"-{letter}" in self._names for letter in option[1:])


def has_forbidden(argument: str, forbidden: Iterable[str]) -> Match:
    """Whether an argument is one of those that must not be there."""
    return max((_is_forbidden(argument, entry) for entry in forbidden), default=Match.NO)


def _is_forbidden(argument: str, entry: str) -> Match:
    if argument == entry or fnmatchcase(argument, entry):
        return Match.YES
    if not is_option(argument) or not is_option(entry):
        return Match.NO
    # What the entry certainly begins with, without its pattern or value.
    name = _PATTERN.split(entry, maxsplit=1)[0]
    given = argument.partition("=")[0]
    if given.lstrip("-") == name.lstrip("-"):
        # Some programs take `-name` and `--name` alike.
        return Match.YES
    if given.startswith("--") and name.startswith("--"):
        return Match.MAYBE if len(given) >= _SHORTEST_LONG and name.startswith(given) else Match.NO
    if given.startswith("--") or name.startswith("--"):
        return Match.NO
    if len(name) == 2:  # noqa: PLR2004 - a dash and a letter
        is_in = name[1] in argument[1:]
        return Match.YES if given.startswith(name) else Match.MAYBE if is_in else Match.NO
    # `-exec` for `-exec*`: a single dash with a long name.
    return Match.of(given.startswith(name) and entry.endswith("*"))
