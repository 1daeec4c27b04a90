"""Names of tools: which are legal."""

from __future__ import annotations

import re

__all__ = ["is_tool_name", "legal_name"]

# VS Code's rule for contributed tools. `\w` there is ASCII, and the two prefixes belong to its own tools.
_TOOL_NAME = re.compile(r"(?!copilot_|vscode_)[\w-]+", re.ASCII)
_RESERVED_PREFIX = re.compile(r"^(?:(?:copilot|vscode)_)+")
_ILLEGAL = re.compile(r"[^\w-]", re.ASCII)


def is_tool_name(name: str) -> bool:
    return _TOOL_NAME.fullmatch(name) is not None


def legal_name(text: str) -> str:
    """`text` as a tool could be called; empty if nothing of it is left."""
    return _RESERVED_PREFIX.sub("", _ILLEGAL.sub("_", text))
