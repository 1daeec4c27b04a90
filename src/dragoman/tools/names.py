"""Names of tools: which are legal, and which one somebody may have meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "is_tool_name", "legal_name", "nearest"]

# VS Code's rule for contributed tools. `\w` there is ASCII, and the two prefixes belong to its own tools.
_TOOL_NAME = re.compile(r"(?!copilot_|vscode_)[\w-]+", re.ASCII)
_RESERVED_PREFIX = re.compile(r"^(?:(?:copilot|vscode)_)+")
_ILLEGAL = re.compile(r"[^\w-]", re.ASCII)

# Comparing takes time in the product of both lengths, and nobody misspells a name that is longer than this.
_COMPARED_LENGTH = 100
# What the standard library calls a close match, 1 being the same.
_NEAR = 0.6


def is_tool_name(name: str) -> bool:
    return _TOOL_NAME.fullmatch(name) is not None


def legal_name(text: str) -> str:
    """`text` as a tool could be called; empty if nothing of it is left."""
    return _RESERVED_PREFIX.sub("", _ILLEGAL.sub("_", text))


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
