"""Parts for the consumer's tools: which of those offered plays which role, and with what arguments.

The script does not know what a consumer offers. It calls roles: `@read` and `@search`, for which the tool that sounds most
like it is chosen, and `@any`, `@any.2`, `@any.3`, which are different tools where there are that many. What arguments a
tool needs is in its schema; what to put into them is taken from the user's words. A tool that it does know it calls by the
consumer's own name for it, whatever server it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.demo.agent.tools import OWN_TOOLS
from dragoman.lm import JsonObject, ToolDefinition
from dragoman.tools.names import legal_name

__all__ = ["ROLE", "arguments_for", "cast", "consumers", "named", "plain_names"]

ROLE = "@"

_SOUNDS_LIKE = {
    "read": re.compile(r"read|open|view|show|cat\b|get", re.IGNORECASE),
    "search": re.compile(r"look|search|find|grep|query|fetch|list", re.IGNORECASE),
}
# Tools that change something are not what a demonstration reaches for first.
_CHANGES = re.compile(
    r"write|edit|create|delete|remove|move|run|exec|command|shell|install|send", re.IGNORECASE
)

_QUOTED = re.compile(r"[\"“'`]([^\"”'`]+)[\"”'`]")
# "the weather in Izmir": a name after a word that points at one.
_PROPER = re.compile(r"\b(?:in|of|for|about|to) ([A-Z][\w-]+)")
_FILE = re.compile(r"[\w./~-]*[\w-]\.\w{1,8}\b|[\w.~-]*/[\w./-]+")
_LEADING_VERB = re.compile(
    r"^\W*(?:please\s+)?(?:read|open|show|look\s+up|look\s+for|search(?:\s+for)?|find)\s+", re.IGNORECASE
)
# A schema that goes deeper asks for more than a demonstration has to say.
_MAX_DEPTH = 4


def consumers(offered: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """The tools that are the consumer's, harmless ones first."""
    theirs = (tool for tool in offered if tool.name not in OWN_TOOLS)
    return tuple(sorted(theirs, key=lambda tool: _CHANGES.search(_bare(tool)) is not None))


def cast(role: str, offered: Sequence[ToolDefinition]) -> ToolDefinition | None:
    """The tool that plays `role`; None if the consumer offers none at all."""
    tools = consumers(offered)
    if not tools:
        return None
    kind, _, number = role.removeprefix(ROLE).partition(".")
    if kind in _SOUNDS_LIKE:
        sound = _SOUNDS_LIKE[kind]
        return next((tool for tool in tools if sound.search(_bare(tool))), tools[0])
    return tools[(int(number or 1) - 1) % len(tools)]


def named(name: str, offered: Sequence[ToolDefinition]) -> ToolDefinition | None:
    """The tool that a person means by `name`: as it is offered, or as its server calls it."""
    ending = f"__{legal_name(name)}"
    return next((tool for tool in offered if tool.name == name or tool.name.endswith(ending)), None)


def plain_names(offered: Sequence[ToolDefinition]) -> dict[str, str]:
    """What the consumer calls each of its tools. One that is called like a tool of ours keeps its long name."""
    plain: dict[str, str] = {}
    for tool in consumers(offered):
        name = _bare(tool)
        if name not in OWN_TOOLS and name not in plain.values():
            plain[tool.name] = name
    return plain


def _bare(tool: ToolDefinition) -> str:
    """Its name without that of its server, which may sound like anything."""
    return tool.name.partition("__")[2] or tool.name


def arguments_for(tool: ToolDefinition, words: str, given: JsonObject) -> JsonObject:
    """What to call `tool` with: everything it requires, and of what is given everything it knows."""
    schema = tool.input_schema or {}
    properties = _object(schema.get("properties"))
    known = {name: value for name, value in given.items() if name in properties}
    required = schema.get("required")
    needed = [str(name) for name in required] if isinstance(required, list) else []
    filled = {name: _value(name, _object(properties.get(name)), words, 1) for name in needed}
    return {**filled, **known}


def _value(name: str, schema: JsonObject, words: str, depth: int) -> object:
    """Something that fits, and makes sense where the words allow."""
    if "const" in schema or "default" in schema:
        return schema.get("const", schema.get("default"))
    for choices in (schema.get("enum"), schema.get("examples")):
        if isinstance(choices, list) and choices:
            return choices[0]
    for branches in (schema.get("anyOf"), schema.get("oneOf")):
        if isinstance(branches, list) and branches:
            return _value(name, _object(branches[0]), words, depth)
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "null":
            return None
        case "array":
            items = _value(name, _object(schema.get("items")), words, depth + 1)
            return [items] if schema.get("minItems") else []
        case "object" if depth < _MAX_DEPTH:
            inner = _object(schema.get("properties"))
            required = schema.get("required")
            names = [str(each) for each in required] if isinstance(required, list) else []
            return {each: _value(each, _object(inner.get(each)), words, depth + 1) for each in names}
        case "object":
            return {}
        case _:
            return _text(name, words)


def _text(name: str, words: str) -> str:
    """A text for a property of that name."""
    file = _FILE.search(words)
    quoted = _QUOTED.search(words)
    match name.lower():
        case "path" | "file" | "filepath" | "file_path" | "filename" | "uri":
            return file[0] if file else "README.md"
        case "url":
            return "http://localhost/"
        case "command":
            return "echo hello"
        case called if told := re.search(rf"\bthe {re.escape(called)} (\w[\w-]*)", words, re.IGNORECASE):
            # "with the word ping"
            return told[1]
        case _ if quoted:
            return quoted[1]
        case _ if proper := _PROPER.search(words):
            return proper[1]
        case _:
            return _LEADING_VERB.sub("", words).strip(" ?!.") or "hello"


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
