"""Chooses the consumer's tool for each role in the script, and its arguments.

The script does not know what a consumer offers. It calls roles: `@read` and `@search`, for which the tool that sounds most
like it is chosen, and `@any`, `@any.2`, `@any.3`, which are different tools where there are that many. What arguments a
tool needs is in its schema; what to put into them is taken from the user's words. A tool that it does know it calls by the
consumer's own name for it, whatever server it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.demo.agent.facts import PromptFacts
from dragoman.demo.agent.filling import Filler
from dragoman.demo.agent.tools import OWN_TOOLS
from dragoman.lm import JsonObject, ToolDefinition
from dragoman.tools.names import legal_name

__all__ = ["ROLE", "arguments_for", "bare_name", "cast", "consumers", "named", "plain_names"]

ROLE = "@"

_SOUNDS_LIKE = {
    "read": re.compile(r"read|open|view|show|cat\b|get", re.IGNORECASE),
    "search": re.compile(r"look|search|find|grep|query|fetch|list", re.IGNORECASE),
}
# Tools that change something are not what a demonstration reaches for first.
_CHANGES = re.compile(
    r"write|edit|create|delete|remove|move|run|exec|command|shell|install|send", re.IGNORECASE
)


def consumers(offered: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """The consumer's tools, harmless ones first."""
    theirs = (tool for tool in offered if tool.name not in OWN_TOOLS)
    return tuple(sorted(theirs, key=lambda tool: _CHANGES.search(bare_name(tool)) is not None))


def cast(role: str, offered: Sequence[ToolDefinition]) -> ToolDefinition | None:
    """The tool that plays `role`; None if the consumer offers none at all."""
    tools = consumers(offered)
    if not tools:
        return None
    kind, _, number = role.removeprefix(ROLE).partition(".")
    if kind in _SOUNDS_LIKE:
        sound = _SOUNDS_LIKE[kind]
        same = (tool for tool in tools if kind in bare_name(tool).lower())
        return next(same, next((tool for tool in tools if sound.search(bare_name(tool))), tools[0]))
    return tools[(int(number or 1) - 1) % len(tools)]


def named(name: str, offered: Sequence[ToolDefinition]) -> ToolDefinition | None:
    """The tool that a person means by `name`: as it is offered, or as its server calls it."""
    ending = f"__{legal_name(name)}"
    return next((tool for tool in offered if tool.name == name or tool.name.endswith(ending)), None)


def plain_names(offered: Sequence[ToolDefinition]) -> dict[str, str]:
    """What the consumer calls each of its tools. One that is called like a tool of ours keeps its long name."""
    plain: dict[str, str] = {}
    for tool in consumers(offered):
        name = bare_name(tool)
        if name not in OWN_TOOLS and name not in plain.values():
            plain[tool.name] = name
    return plain


def bare_name(tool: ToolDefinition) -> str:
    """A tool's name without the name of its server."""
    return tool.name.partition("__")[2] or tool.name


def arguments_for(tool: ToolDefinition, words: str, given: JsonObject) -> JsonObject:
    """What to call `tool` with: everything it requires, and of what is given everything it knows."""
    schema = tool.input_schema or {}
    properties = schema.get("properties")
    known = {
        name: value for name, value in given.items() if isinstance(properties, dict) and name in properties
    }
    return {**Filler(schema, PromptFacts(words)).object_of(schema, optional=False), **known}
