"""Which tool plays which role, and what it is called with."""

import pytest

from dragoman.demo.agent.casting import arguments_for, cast, consumers, named
from dragoman.lm import JsonObject, ToolDefinition


def _tool(name: str, **properties: JsonObject) -> ToolDefinition:
    schema: JsonObject = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolDefinition(name, "", schema)


_OFFERED = (
    _tool("write_file"),
    _tool("run_command"),
    _tool("read-things__delete_all"),
    _tool("srv__fetch_page"),
    _tool("srv__open_file"),
)


def test_the_agents_own_tools_are_not_the_consumers_and_harmless_ones_come_first() -> None:
    assert [tool.name for tool in consumers(_OFFERED)] == [
        "srv__fetch_page",
        "srv__open_file",
        "read-things__delete_all",
    ]


@pytest.mark.parametrize(
    ("role", "tool"),
    [
        ("@read", "srv__open_file"),
        ("@search", "srv__fetch_page"),
        ("@any", "srv__fetch_page"),
        ("@any.2", "srv__open_file"),
        ("@any.4", "srv__fetch_page"),
    ],
)
def test_roles(role: str, tool: str) -> None:
    chosen = cast(role, _OFFERED)
    assert chosen is not None
    assert chosen.name == tool


def test_a_role_that_nothing_sounds_like_is_played_by_the_first() -> None:
    only = (_tool("srv__dance"),)
    assert cast("@read", only) == only[0]
    assert cast("@read", ()) is None


def test_a_tool_is_known_by_either_name() -> None:
    assert named("srv__open_file", _OFFERED) == named("open_file", _OFFERED) == _OFFERED[4]
    assert named("run_command", _OFFERED) == _OFFERED[1]
    assert named("dance", _OFFERED) is None


@pytest.mark.parametrize(
    ("name", "schema", "words", "value"),
    [
        ("path", {"type": "string"}, "read src/main.py now", "src/main.py"),
        ("filePath", {"type": "string"}, "read it", "README.md"),
        ("url", {"type": "string"}, "fetch it", "http://localhost/"),
        ("command", {"type": "string"}, "run it", "echo hello"),
        ("query", {"type": "string"}, 'look up "good morning" please', "good morning"),
        ("query", {"type": "string"}, "Please look up a word?", "a word"),
        ("query", {"type": "string"}, "Find ?!", "hello"),
        ("query", {}, "find Ankara", "Ankara"),
        ("n", {"type": "integer"}, "", 1),
        ("n", {"type": "number", "minimum": 5}, "", 5),
        ("b", {"type": "boolean"}, "", False),
        ("x", {"type": ["null", "string"]}, "", None),
        ("x", {"const": "c"}, "", "c"),
        ("x", {"default": None, "type": "string"}, "", None),
        ("x", {"enum": ["a", "b"]}, "", "a"),
        ("x", {"examples": ["e"]}, "", "e"),
        ("x", {"anyOf": [{"type": "boolean"}, {"type": "string"}]}, "", False),
        ("x", {"type": "array", "items": {"type": "integer"}}, "", []),
        ("x", {"type": "array", "items": {"type": "integer"}, "minItems": 1}, "", [1]),
        (
            "x",
            {"type": "object", "properties": {"y": {"type": "integer"}}, "required": ["y"]},
            "",
            {"y": 1},
        ),
        ("x", {"type": "object"}, "", {}),
    ],
)
def test_arguments(name: str, schema: JsonObject, words: str, value: object) -> None:
    assert arguments_for(_tool("srv__tool", **{name: schema}), words, {}) == {name: value}


def test_a_schema_without_end_has_an_end() -> None:
    schema: JsonObject = {"type": "object", "required": ["x"]}
    schema["properties"] = {"x": schema}
    assert arguments_for(_tool("srv__tool", x=schema), "", {}) == {"x": {"x": {"x": {"x": {}}}}}


def test_what_is_given_is_used_where_the_tool_knows_it() -> None:
    tool = _tool("srv__tool", path={"type": "string"})
    assert arguments_for(tool, "", {"path": "a.txt", "other": 1}) == {"path": "a.txt"}
    assert arguments_for(ToolDefinition("srv__bare"), "", {"path": "a.txt"}) == {}
