"""What a consumer's tools are called towards an agent.

Consumers name tools as they like; a model's provider takes sixty-four characters of `[a-zA-Z0-9_-]`, and agents put the
name of the server in front (`mcp__server__tool`). A name that fits is offered as it is. Any other is spelled with legal
characters, cut, and given a suffix made of the original: so what a tool is offered as depends on its own name alone, and
a tool that comes or goes never renames another.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["SERVER_NAME_LENGTH", "TOOL_NAME_LENGTH", "WAIT_TOOL", "is_server_name", "offered_names"]

# Ours, listed beside the consumer's: a tool of theirs with this name is offered under another.
WAIT_TOOL = "wait_for_result"

# What OpenAI and Anthropic take, with the longest prefix that an agent was seen to use.
_SHOWN_LENGTH = 64
_PREFIX = "mcp____"
SERVER_NAME_LENGTH = 16
TOOL_NAME_LENGTH = _SHOWN_LENGTH - len(_PREFIX) - SERVER_NAME_LENGTH

_SERVER_NAME = re.compile(rf"[a-zA-Z](?:[a-zA-Z0-9-]|_(?!_)){{0,{SERVER_NAME_LENGTH - 1}}}")
_LEGAL = re.compile(r"[a-zA-Z0-9_-]+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")
# Thirty-two bits tell the few names apart that are spelled alike; if they do not, twice as many will.
_DIGITS = 8
# A name that looks as if we had made it is made anew, so that it cannot be mistaken for one.
_MADE = re.compile(r".*_0x[0-9a-f]+", re.DOTALL)


def is_server_name(name: str) -> bool:
    """Whether `name` leaves room for a tool's behind it, and cannot be misread where agents join the two."""
    return _SERVER_NAME.fullmatch(name) is not None


def offered_names(names: Iterable[str], length: int = TOOL_NAME_LENGTH) -> dict[str, str]:
    """The legal name for each of `names`; no two are the same, and none is longer than `length`."""
    offered = {name: _offered(name, _DIGITS, length) for name in names}
    count = Counter(offered.values())
    return {
        name: made if count[made] == 1 else _offered(name, 2 * _DIGITS, length)
        for name, made in offered.items()
    }


def _offered(name: str, digits: int, length: int) -> str:
    is_short = len(name) <= length
    if is_short and _LEGAL.fullmatch(name) and name != WAIT_TOOL and not _MADE.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    suffix = f"_0x{digest[:digits]}"
    return _ILLEGAL.sub("_", name)[: length - len(suffix)] + suffix
