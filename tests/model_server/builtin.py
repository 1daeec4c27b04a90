"""The agents' own tools for commands and files: each has its name for them, and its own shape."""

from __future__ import annotations

import re
from collections.abc import Iterable

from model_server.asked import Json, Tool

__all__ = ["run", "write"]

# Best first, where an agent has several.
_SHELLS = ("Bash", "bash", "exec_command", "shell_command", "run_shell_command", "execute", "shell")
_COMMANDS = ("command", "cmd", "script", "input")
_WRITERS = ("Write", "write", "write_text_file", "write_file", "create", "apply_patch", "edit")


def run(command: str, tools: Iterable[Tool]) -> tuple[Tool, Json] | None:
    tool = _first(_SHELLS, tools)
    if tool is None:
        return None
    field = next((name for name in _COMMANDS if name in tool.properties), "command")
    is_list = tool.properties.get(field, {}).get("type") == "array"
    given: Json = {field: ["bash", "-c", command] if is_list else command}
    if "sandbox_permissions" in tool.properties:
        # Codex runs what its sandbox allows without a question.
        given |= {"sandbox_permissions": "require_escalated", "justification": "a test"}
    return tool, _with_required(tool, given, "a command of the test")


def write(path: str, text: str, tools: Iterable[Tool]) -> tuple[Tool, Json] | None:
    tool = _first(_WRITERS, tools)
    if tool is None:
        return None
    if tool.is_custom:
        return tool, {"input": f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch"}
    given: Json = {}
    for name in tool.properties:
        if re.search("path|^file", name, re.IGNORECASE):
            given[name] = path
        elif re.search("content|text|new_str", name, re.IGNORECASE):
            given[name] = text
    return tool, _with_required(tool, given, "a file of the test")


def _first(names: tuple[str, ...], tools: Iterable[Tool]) -> Tool | None:
    known = {tool.name: tool for tool in tools if tool.namespace is None}
    return next((known[name] for name in names if name in known), None)


def _with_required(tool: Tool, given: Json, words: str) -> Json:
    """With something of the right type for whatever else the tool insists on."""
    fillers: Json = {"boolean": False, "integer": 10, "number": 10, "array": [], "object": {}}
    for name in tool.schema.get("required", ()):
        given.setdefault(name, fillers.get(tool.properties.get(name, {}).get("type", ""), words))
    return given
