"""Tools written in Python: a function, and a decorator that makes a tool of it.

    @tool(read_only=True, reference_name="searchFiles")
    async def search_files(
        pattern: Annotated[str, Meta(description="Glob pattern to match")],
        max_results: int = 10,
        *,
        invocation: Invocation,
    ) -> str:
        \"\"\"Searches workspace files matching a pattern.\"\"\"

The parameters are the input: their annotations make its schema, through msgspec, and unknown properties are refused.
A parameter annotated `Invocation` or `CancellationToken` is no part of the input but is handed in. The docstring is
what the model reads. A plain function is called on the event loop and must not wait for anything; one that does is
an `async def`.

What a person is asked beforehand is attached with `prepare`, by a function of the same parameters or some of them:

    @search_files.prepare
    def ask(pattern: str) -> PreparedInvocation: ...
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import msgspec

from dragoman.lm import CancellationToken, JsonObject
from dragoman.lm.parts import ToolResult
from dragoman.tools.declaration import Declaration, Icon
from dragoman.tools.result import result_of
from dragoman.tools.tool import Invocation, PreparedInvocation

__all__ = ["DefinedTool", "tool"]

_Function: TypeAlias = Callable[..., object]
_F = TypeVar("_F", bound=_Function)


def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    display_name: str | None = None,
    user_description: str | None = None,
    reference_name: str | None = None,
    icon: Icon | None = None,
    tags: tuple[str, ...] = (),
    when: str | None = None,
    read_only: bool = False,
    parallel: bool | None = None,
) -> Callable[[_Function], DefinedTool]:
    """A decorator that makes a `DefinedTool` of a function. With a reference name, `#name` in a prompt offers it."""

    def define(function: _Function) -> DefinedTool:
        known_as = name or function.__name__
        parameters = _Parameters(function)
        return DefinedTool(
            Declaration(
                name=known_as,
                display_name=display_name or known_as.replace("_", " ").replace("-", " ").capitalize(),
                model_description=description or inspect.getdoc(function) or "",
                user_description=user_description,
                tool_reference_name=reference_name,
                can_be_referenced_in_prompt=reference_name is not None,
                icon=icon,
                input_schema=parameters.schema(known_as),
                when=when,
                tags=tags,
                read_only=read_only,
                parallel=parallel,
            ),
            function,
            parameters,
        )

    return define


class DefinedTool:
    """A tool that brings its own declaration."""

    def __init__(self, declaration: Declaration, function: _Function, parameters: _Parameters) -> None:
        self.declaration = declaration
        self.function = function
        self._parameters = parameters
        self._arguments = parameters.struct(declaration.name)
        self._prepare: tuple[_Function, _Parameters] | None = None

    def prepare(self, function: _F) -> _F:
        """Attach what says beforehand what an invocation is about to do: it returns a `PreparedInvocation`."""
        parameters = _Parameters(function)
        unknown = parameters.fields.keys() - self._parameters.fields.keys()
        if unknown:
            raise TypeError(f"{function.__name__} prepares a tool that has no parameter {min(unknown)!r}")
        self._prepare = function, parameters
        return function

    async def invoke(self, invocation: Invocation, token: CancellationToken) -> ToolResult:
        return result_of(await self._call(self.function, self._parameters, invocation, token))

    async def prepare_invocation(
        self, invocation: Invocation, token: CancellationToken
    ) -> PreparedInvocation:
        if self._prepare is None:
            return PreparedInvocation()
        prepared = await self._call(*self._prepare, invocation, token)
        if not isinstance(prepared, PreparedInvocation):
            raise TypeError(f"prepare returns a PreparedInvocation, not {type(prepared).__name__}")
        return prepared

    async def _call(
        self, function: _Function, parameters: _Parameters, invocation: Invocation, token: CancellationToken
    ) -> object:
        given = msgspec.convert(invocation.input, self._arguments)
        arguments: dict[str, object] = {field: getattr(given, field) for field in parameters.fields}
        for parameter, kind in parameters.handed_in.items():
            arguments[parameter] = invocation if kind is Invocation else token
        value = function(**arguments)
        return await value if inspect.isawaitable(value) else value


class _Parameters:
    """What a function takes: fields of the input, and what is handed in beside them."""

    def __init__(self, function: _Function) -> None:
        try:
            hints: Mapping[str, object] = typing.get_type_hints(function, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"{function.__name__}: {error}; the types of parameters must be known in its module"
            ) from None
        self.fields: dict[str, tuple[object, object]] = {}
        self.handed_in: dict[str, object] = {}
        for parameter in inspect.signature(function).parameters.values():
            name = parameter.name
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"{function.__name__}: {parameter} cannot be a property of an input; name it")
            if name not in hints:
                raise TypeError(
                    f"{function.__name__}: the parameter {name!r} has no annotation to make a schema of"
                )
            if hints[name] in (Invocation, CancellationToken):
                self.handed_in[name] = hints[name]
            else:
                self.fields[name] = hints[name], parameter.default

    def struct(self, name: str) -> type[msgspec.Struct]:
        fields = [
            (field, kind) if default is inspect.Parameter.empty else (field, kind, default)
            for field, (kind, default) in self.fields.items()
        ]
        return msgspec.defstruct(name.replace("-", "_"), fields, kw_only=True, forbid_unknown_fields=True)

    def schema(self, name: str) -> JsonObject:
        struct = self.struct(name)
        try:
            (whole,), components = msgspec.json.schema_components((struct,), ref_template="#/$defs/{name}")
        except TypeError as error:
            raise TypeError(f"{name}: no schema can be made of its parameters: {error}") from None
        # Not a reference at the top: models and editors want to see the object at once.
        top = components.pop(whole["$ref"].rpartition("/")[2])
        schema: JsonObject = {key: value for key, value in top.items() if key != "title"}
        return {**schema, "$defs": components} if components else schema
