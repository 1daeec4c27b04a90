"""The tools of a request as an agent sees them, and the way back from a call to what the consumer asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dragoman.backends.agent.toolserver.naming import offered_names
from dragoman.backends.tool_shapes import legal_schema, unwrapped
from dragoman.lm import JsonObject, ToolDefinition

__all__ = ["OfferedTool", "ToolOffer", "offer"]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str
    definition: ToolDefinition
    input_schema: JsonObject
    wrapped: bool = False

    @property
    def description(self) -> str:
        # Providers refuse a tool without a description.
        return self.definition.description or self.definition.name

    def arguments_for(self, arguments: JsonObject) -> JsonObject:
        """The arguments of a call, in the form that the consumer's schema asks for."""
        return unwrapped(arguments) if self.wrapped else arguments


@dataclass(frozen=True)
class ToolOffer:
    tools: tuple[OfferedTool, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, OfferedTool]:
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def definitions(self) -> Mapping[str, ToolDefinition]:
        return {tool.definition.name: tool.definition for tool in self.tools}


def offer(definitions: Iterable[ToolDefinition]) -> ToolOffer:
    """Offer tools in the given order. Of two tools with one name the first is offered: a call would be ambiguous."""
    by_name: dict[str, ToolDefinition] = {}
    for definition in definitions:
        by_name.setdefault(definition.name, definition)
    names = offered_names(by_name)
    return ToolOffer(tuple(_offered(names[name], definition) for name, definition in by_name.items()))


def _offered(name: str, definition: ToolDefinition) -> OfferedTool:
    schema, wrapped = legal_schema(definition.input_schema)
    return OfferedTool(name, definition, schema, wrapped)
