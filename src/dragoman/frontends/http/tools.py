"""The tools and the tool choice of a request, for both APIs.

A choice that the model cannot follow is refused, never ignored: `required`, or one function by its name, needs a model
that can be made to call. `none` offers no tools, so that the model cannot call any.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.frontends.http.errors import bad_request
from dragoman.lm import JsonObject, ToolDefinition, ToolMode

__all__ = ["OfferedTools", "chosen", "functions_of", "other_tools"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# More than the strictest consumer takes, by a factor of ten.
_MOST_TOOLS = 1_280


@dataclass(frozen=True, slots=True)
class OfferedTools:
    tools: tuple[ToolDefinition, ...] = ()
    mode: ToolMode = "auto"
    # Tools of other types with their place in the request, and a choice that names one of them. Only an endpoint gets them.
    others: tuple[tuple[str, JsonObject], ...] = ()
    other_choice: JsonObject | None = None

    @property
    def ignored(self) -> tuple[str, ...]:
        """The names of the tools that an agent does not get."""
        return tuple(f"{where} ({str(tool.get('type'))[:64]})" for where, tool in self.others)


def other_tools(tools: Sequence[JsonObject]) -> tuple[tuple[str, JsonObject], ...]:
    """Return the tools that are not functions, each with its place in the request."""
    return tuple(
        (f"tools[{index}]", tool) for index, tool in enumerate(tools) if tool.get("type") != "function"
    )


def functions_of(tools: Sequence[object]) -> tuple[ToolDefinition, ...]:
    """Return the functions. Tools of other types are for endpoints (`other_tools`)."""
    if len(tools) > _MOST_TOOLS:
        raise bad_request(f"There are more than {_MOST_TOOLS:,} tools.", param="tools")
    found: dict[str, ToolDefinition] = {}
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        if not isinstance(tool, dict) or not isinstance(kind := tool.get("type"), str):
            raise bad_request("A tool is an object with a type.", param=where)
        if kind != "function":
            continue
        # Chat completions have the definition one level deeper.
        nested = tool.get("function")
        definition = _definition(nested if isinstance(nested, dict) else tool, where)
        if definition.name in found:
            raise bad_request(f"Two tools have the name {definition.name!r}.", param=f"{where}.name")
        found[definition.name] = definition
    return tuple(found.values())


def _definition(function: JsonObject, where: str) -> ToolDefinition:
    name, description, schema = (function.get(key) for key in ("name", "description", "parameters"))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise bad_request("A function has a name of 1 to 64 letters, digits, _ and -.", param=f"{where}.name")
    if schema is not None and not isinstance(schema, dict):
        raise bad_request("The parameters of a function are a JSON Schema.", param=f"{where}.parameters")
    if schema is not None:
        _check(schema, f"{where}.parameters")
    return ToolDefinition(name, description if isinstance(description, str) else "", schema)


def _check(schema: JsonObject, where: str) -> None:
    """Find the usual mistakes. The whole schema is checked when the function is called."""
    kind, required = schema.get("type", "object"), schema.get("required", [])
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise bad_request(
            f'The parameters of a function must be a JSON Schema with the type "object", not {str(kind)[:64]!r}.',
            param=f"{where}.type",
            code="invalid_function_parameters",
        )
    if not isinstance(schema.get("properties", {}), dict):
        raise bad_request(
            "`properties` must be an object.", param=f"{where}.properties", code="invalid_function_parameters"
        )
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise bad_request(
            "`required` must be an array of names.",
            param=f"{where}.required",
            code="invalid_function_parameters",
        )


def chosen(
    choice: object, tools: tuple[ToolDefinition, ...], others: tuple[tuple[str, JsonObject], ...] = ()
) -> OfferedTools:
    if isinstance(choice, dict) and others and _names_other(choice):
        return OfferedTools(tools, others=others, other_choice=choice)
    offer = _chosen(choice, tools)
    return offer if choice == "none" else replace(offer, others=others)


def _names_other(choice: JsonObject) -> bool:
    """Whether a choice is about a tool that is no function."""
    if choice.get("type") != "allowed_tools":
        return choice.get("type") != "function"
    listed = choice.get("tools")
    return isinstance(listed, list) and any(
        isinstance(tool, dict) and tool.get("type") != "function" for tool in listed
    )


def _chosen(choice: object, tools: tuple[ToolDefinition, ...]) -> OfferedTools:
    match choice:
        case None | "auto":
            return OfferedTools(tools)
        case "none":
            return OfferedTools()
        case "required":
            return OfferedTools(tools, "required")
        case {"type": "function", "name": str(name)} | {"type": "function", "function": {"name": str(name)}}:
            return OfferedTools(_named([name], tools), "required")
        case dict() if choice.get("type") == "allowed_tools":
            nested = choice.get("allowed_tools")
            return _allowed(nested if isinstance(nested, dict) else choice, tools)
        case _:
            raise bad_request(
                "The choice is auto, none, required, a function by its name, or allowed tools.",
                param="tool_choice",
            )


def _allowed(choice: JsonObject, tools: tuple[ToolDefinition, ...]) -> OfferedTools:
    listed, mode = choice.get("tools"), choice.get("mode", "auto")
    if not isinstance(listed, list) or mode not in ("auto", "none", "required"):
        raise bad_request("Allowed tools have a list and a mode.", param="tool_choice")
    names: list[str] = []
    for tool in listed:
        match tool:
            case {"type": "function", "name": str(name)} | {
                "type": "function",
                "function": {"name": str(name)},
            }:
                names.append(name)
            case _:
                raise bad_request("An allowed tool is a function by its name.", param="tool_choice.tools")
    if mode == "none":
        return OfferedTools()
    return OfferedTools(_named(names, tools), "required" if mode == "required" else "auto")


def _named(names: Sequence[str], tools: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
    by_name = {tool.name: tool for tool in tools}
    for name in names:
        if name not in by_name:
            raise bad_request(f"The tool {name[:64]!r} was not offered.", param="tool_choice")
    return tuple(by_name[name] for name in dict.fromkeys(names))
