"""Names of the tool server, and of the tools that it offers.

A model's provider takes sixty-four characters, and agents put the name of the server in front (`mcp__server__tool`):
what is left is for the tool. `tool_names` makes the consumer's fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dragoman.backends.tool_names import legal_names

__all__ = ["SERVER_NAME_LENGTH", "TOOL_NAME_LENGTH", "WAIT_TOOL", "is_server_name", "offered_names"]

# Ours, listed beside the consumer's: a tool of theirs with this name is offered under another.
WAIT_TOOL = "wait_for_result"

# What OpenAI and Anthropic take, with the longest prefix that an agent was seen to use.
_SHOWN_LENGTH = 64
_PREFIX = "mcp____"
SERVER_NAME_LENGTH = 16
TOOL_NAME_LENGTH = _SHOWN_LENGTH - len(_PREFIX) - SERVER_NAME_LENGTH

_SERVER_NAME = re.compile(rf"[a-zA-Z](?:[a-zA-Z0-9-]|_(?!_)){{0,{SERVER_NAME_LENGTH - 1}}}")


def is_server_name(name: str) -> bool:
    """Whether `name` leaves room for a tool's behind it, and cannot be misread where agents join the two."""
    return _SERVER_NAME.fullmatch(name) is not None


def offered_names(names: Iterable[str]) -> dict[str, str]:
    """What each of a consumer's tools is called towards an agent."""
    return legal_names(names, TOOL_NAME_LENGTH, reserved=(WAIT_TOOL,))
