"""Tools written in Python: the schema is the signature."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from dragoman.lm import CancellationSource, CancellationToken, DataPart, JsonObject, TextPart
from dragoman.lm.parts import ToolResult
from dragoman.tools import (
    Confirmation,
    DeclarationError,
    DefinedTool,
    Invocation,
    PreparedInvocation,
    PreparingTool,
    Tool,
    tool,
)
from dragoman.tools.schema import check_schema, complete

TOKEN = CancellationSource().token


class Order(Enum):
    UP = "up"
    DOWN = "down"


class Range(msgspec.Struct):
    start: int
    end: int = -1


@tool(reference_name="searchFiles", tags=("search",), when="workspaceFolderCount > 0", icon="$(search)")
async def search_files(
    pattern: Annotated[str, msgspec.Meta(description="Glob pattern to match", min_length=1)],
    max_results: int = 10,
    order: Order = Order.UP,
    *,
    within: Range | None = None,
    token: CancellationToken,
    invocation: Invocation,
) -> str:
    """Searches workspace files matching a pattern."""
    assert isinstance(token, CancellationToken)
    return f"{pattern} {max_results} {order.name} {within} {invocation.call_id}"


@tool(description="Says hello.", read_only=True)
def hello(name: str = "world") -> str:
    return f"hello {name}"


async def call(defined: DefinedTool, given: JsonObject) -> ToolResult:
    completed = complete(defined.declaration.input_schema, given)
    return await defined.invoke(Invocation(completed, call_id="dg_1"), TOKEN)


def test_a_defined_tool_is_a_tool_with_a_declaration() -> None:
    assert isinstance(search_files, Tool)
    assert isinstance(search_files, PreparingTool)
    declared = search_files.declaration
    assert declared.name == "search_files"
    assert declared.display_name == "Search files"
    assert declared.model_description == "Searches workspace files matching a pattern."
    assert declared.tool_reference_name == "searchFiles"
    assert declared.can_be_referenced_in_prompt
    assert declared.tags == ("search",)
    assert declared.when == "workspaceFolderCount > 0"
    assert declared.icon == "$(search)"
    assert not declared.read_only
    assert hello.declaration.read_only
    assert not hello.declaration.can_be_referenced_in_prompt


def test_every_name_can_be_given() -> None:
    @tool(
        name="my-tool",
        display_name="Mine",
        description="Does it.",
        user_description="For you.",
        parallel=True,
    )
    def anything() -> str:
        return ""

    declared = anything.declaration
    assert (declared.name, declared.display_name, declared.model_description, declared.user_description) == (
        "my-tool",
        "Mine",
        "Does it.",
        "For you.",
    )
    assert declared.runs_in_parallel


def test_the_schema_is_the_signature_without_what_is_handed_in() -> None:
    schema = search_files.declaration.input_schema
    assert schema is not None
    check_schema(schema)
    assert schema["type"] == "object"
    assert schema["required"] == ["pattern"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == ["pattern", "max_results", "order", "within"]
    assert properties["pattern"] == {"type": "string", "description": "Glob pattern to match", "minLength": 1}
    assert properties["max_results"] == {"type": "integer", "default": 10}
    assert "title" not in schema
    assert hello.declaration.input_schema == {
        "type": "object",
        "properties": {"name": {"type": "string", "default": "world"}},
        "required": [],
        "additionalProperties": False,
    }


async def test_arguments_arrive_as_the_types_they_are_annotated_with() -> None:
    result = await call(search_files, {"pattern": "*", "order": "down", "within": {"start": 1}})
    assert result == ToolResult.text("* 10 DOWN Range(start=1, end=-1) dg_1")


async def test_a_plain_function_is_a_tool_too() -> None:
    assert await call(hello, {}) == ToolResult.text("hello world")


async def test_an_input_that_does_not_fit_is_refused_also_without_the_runtime() -> None:
    with pytest.raises(msgspec.ValidationError):
        await hello.invoke(Invocation({"name": 3}), TOKEN)


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("text", (TextPart("text"),)),
        (TextPart("text", audience=("user",)), (TextPart("text", audience=("user",)),)),
        (
            [TextPart("a"), DataPart("image/png", b"x"), "b"],
            (TextPart("a"), DataPart("image/png", b"x"), TextPart("b")),
        ),
        ((), ()),
    ],
)
async def test_text_and_parts_may_be_returned(returned: object, content: tuple[object, ...]) -> None:
    @tool(description="Returns it.")
    async def returning() -> object:
        return returned

    assert await call(returning, {}) == ToolResult(content)  # type: ignore[arg-type]  # parts, as above


async def test_a_whole_result_may_be_returned() -> None:
    @tool(description="Fails.")
    def failing() -> ToolResult:
        return ToolResult.error("no")

    assert await call(failing, {}) == ToolResult.error("no")


@pytest.mark.parametrize("returned", [None, 3, [3], {"a": 1}])
async def test_anything_else_that_is_returned_is_an_error(returned: object) -> None:
    @tool(description="Returns it.")
    def returning() -> object:
        return returned

    with pytest.raises(TypeError, match=r"not (NoneType|int|dict)"):
        await call(returning, {})


async def test_preparing_gets_the_parameters_it_names() -> None:
    @tool(description="Writes a file.")
    def write(path: str, content: str = "") -> str:
        return path + content

    @write.prepare
    def ask(path: str, invocation: Invocation) -> PreparedInvocation:
        return PreparedInvocation(
            f"Writing {path}", Confirmation(f"Write {path} in {invocation.workspace[0]}?")
        )

    invocation = Invocation({"path": "a.txt"}, workspace=(Path("/w"),))
    assert await write.prepare_invocation(invocation, TOKEN) == PreparedInvocation(
        "Writing a.txt", Confirmation("Write a.txt in /w?")
    )
    assert ask("b", invocation).invocation_message == "Writing b"


async def test_preparing_may_wait_and_takes_invocation_and_token_alone() -> None:
    @tool(description="Writes a file.")
    def write(path: str) -> str:
        return path

    @write.prepare
    async def ask(invocation: Invocation, token: CancellationToken) -> PreparedInvocation:
        token.raise_if_cancelled()
        return PreparedInvocation(str(invocation.input["path"]))

    assert (await write.prepare_invocation(Invocation({"path": "a"}), TOKEN)).invocation_message == "a"


async def test_a_tool_without_preparation_prepares_nothing() -> None:
    assert await hello.prepare_invocation(Invocation({}), TOKEN) == PreparedInvocation()


async def test_preparing_must_return_a_prepared_invocation() -> None:
    @tool(description="Writes a file.")
    def write() -> str:
        return ""

    @write.prepare
    def ask() -> str:
        return "no"

    assert ask() == "no"
    with pytest.raises(TypeError, match="returns a PreparedInvocation, not str"):
        await write.prepare_invocation(Invocation({}), TOKEN)


def test_preparing_with_a_parameter_the_tool_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="ask prepares a tool that has no parameter 'nome'"):

        @hello.prepare
        def ask(nome: str) -> PreparedInvocation:
            return PreparedInvocation(nome)


def test_a_tool_without_a_description_is_refused() -> None:
    with pytest.raises(DeclarationError, match="modelDescription: is empty"):

        @tool()
        def silent() -> str:
            return ""


def test_a_parameter_without_an_annotation_is_refused() -> None:
    with pytest.raises(TypeError, match="untyped: the parameter 'a' has no annotation"):

        @tool(description="x")
        def untyped(a) -> str:  # type: ignore[no-untyped-def]  # that is the point
            return str(a)


def test_a_type_that_its_module_does_not_know_is_refused() -> None:
    class Local(msgspec.Struct):
        x: int

    with pytest.raises(
        TypeError, match=r"local: name 'Local' is not defined; the types of parameters must be known"
    ):

        @tool(description="x")
        def local(a: Local) -> str:
            return str(a)


def test_parameters_without_names_are_refused() -> None:
    with pytest.raises(TypeError, match=r"\*rest: .* cannot be a property of an input"):

        @tool(description="x")
        def many(*rest: str) -> str:
            return "".join(rest)


def test_a_type_that_has_no_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="odd: no schema can be made of its parameters"):

        @tool(description="x")
        def odd(a: Literal["x"], b: Path) -> str:
            return f"{a}{b}"


def test_an_illegal_when_clause_is_refused_where_it_is_written() -> None:
    with pytest.raises(DeclarationError, match="when: "):

        @tool(description="x", when="a =")
        def conditional() -> str:
            return ""
