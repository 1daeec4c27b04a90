"""Which known name is the nearest to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "nearest"]

# Comparing takes time in the product of both lengths; a longer name is not a misspelt one.
_COMPARED_LENGTH = 100
# What the standard library calls a close match, 1 being the same.
_NEAR = 0.6


def nearest(name: str, known: Iterable[str], *, near: float = _NEAR) -> str | None:
    """The one of `known` that is most like `name`, if any is: case, `_` and `-` make no difference."""
    spellings = {_folded(each): each for each in known if len(each) <= _COMPARED_LENGTH}
    found = get_close_matches(_folded(name[:_COMPARED_LENGTH]), spellings, n=1, cutoff=near)
    return spellings[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence to put after an error, with a space before it; empty if nothing is near."""
    found = nearest(name, known)
    return f" Did you mean {found!r}?" if found else ""


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
