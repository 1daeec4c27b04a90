"""A request's tools as functions of an endpoint, and calls of them back.

Endpoints take names of sixty-four characters and objects as input; how consumers' tools are made to fit is the same as
for agents. `strict` is set to false, because its default is true, and a strict endpoint refuses every schema with an
optional property.
"""

from __future__ import annotations

import msgspec

from dragoman.backends.tool_names import legal_names
from dragoman.backends.tool_shapes import legal_schema, unwrapped
from dragoman.lm import JsonObject, LanguageModelError, Request, ToolCallPart
from dragoman.lm.json import decode, encode_text
from dragoman.lm.nesting import INPUT_LEVELS, NestedTooDeeply

__all__ = ["FunctionTools"]

# What an endpoint takes, by the specification.
_NAME_LENGTH = 64
# Enough of broken arguments to see what is wrong with them.
_SHOWN = 200


class FunctionTools:
    """The functions of one request, and of the calls in its history."""

    def __init__(self, request: Request) -> None:
        tools = request.options.tools
        called = (call.name for message in request.messages for call in message.calls)
        answered = (result.name for message in request.messages for result in message.results if result.name)
        # Those that are offered first: a name depends on itself alone unless two are spelled alike.
        names = dict.fromkeys((*(tool.name for tool in tools), *called, *answered))
        self._wire_names = legal_names(names, _NAME_LENGTH)
        self._names = {wire: name for name, wire in self._wire_names.items()}
        self._schemas = {tool.name: legal_schema(tool.input_schema) for tool in tools}
        self._features = request.consumer.features
        self.functions: tuple[JsonObject, ...] = tuple(
            {
                "type": "function",
                "name": self._wire_names[tool.name],
                "description": tool.description,
                "parameters": self._schemas[tool.name][0],
                "strict": False,
            }
            for tool in tools
        )

    def wire_name(self, name: str) -> str:
        return self._wire_names[name]

    def arguments(self, call: ToolCallPart) -> str:
        """The arguments to send: valid JSON, because servers put them into a template unchanged."""
        if call.unparsed is not None:
            return encode_text({"unparsed": call.unparsed})
        _, is_wrapped = self._schemas.get(call.name, ({}, False))
        return encode_text({"input": call.input} if is_wrapped else call.input)

    def call(self, call_id: str, wire_name: str, arguments: str) -> ToolCallPart:
        """The part for a complete call of the model. An error that names the call if it is invalid."""
        name = self._names.get(wire_name, wire_name)
        if name not in self._schemas and not self._features.unknown_calls:
            offered = ", ".join(self._schemas) or "none"
            raise LanguageModelError(
                "agent_failed",
                f"The model called the tool {name!r}, which was not offered.",
                hint=f"Ask again. Offered: {offered}.",
            )
        schema, is_wrapped = self._schemas.get(name, ({}, False))
        if not arguments.strip() and not schema.get("required"):
            # Several servers send nothing at all where a function needs nothing.
            return ToolCallPart(call_id, name, {})
        try:
            value = decode(arguments, INPUT_LEVELS)
            problem = "are no JSON object"
        except NestedTooDeeply as error:
            # Not passed on as text either: no consumer could give it back in a history.
            raise LanguageModelError(
                "agent_failed",
                f"The arguments of the model's call of {name!r} ({call_id}) cannot be read: {error}.",
                hint="The tool was not called. Ask again.",
            ) from error
        except msgspec.DecodeError as error:
            value, problem = None, f"are not valid JSON ({error})"
        if isinstance(value, dict):
            return ToolCallPart(call_id, name, unwrapped(value) if is_wrapped else value)
        if self._features.unparsed_calls:
            return ToolCallPart(call_id, name, {}, arguments)
        shown = arguments if len(arguments) <= _SHOWN else f"{arguments[:_SHOWN]}…"
        raise LanguageModelError(
            "agent_failed",
            f"The arguments of the model's call of {name!r} ({call_id}) {problem}: {shown!r}.",
            hint="The tool was not called. Ask again.",
        )
