"""The registry: declared, registered, private, visible, selected, referenced."""

from __future__ import annotations

import logging

import pytest

from dragoman.lm import CancellationToken
from dragoman.lm.parts import ToolResult
from dragoman.tools import (
    ContextKeys,
    Declaration,
    DefinedTool,
    Invocation,
    RegistryError,
    ToolInfo,
    ToolRegistry,
    tool,
)


class Nothing:
    async def invoke(self, invocation: Invocation, token: CancellationToken) -> ToolResult:
        return ToolResult.text("")


def declared(name: str, **fields: object) -> Declaration:
    return Declaration(name=name, display_name=name.title(), model_description=f"The {name}.", **fields)  # type: ignore[arg-type]  # fields as the caller names them


def registry_of(*declarations: Declaration) -> ToolRegistry:
    registry = ToolRegistry()
    for declaration in declarations:
        registry.declare(declaration)
        registry.register(declaration.name, Nothing())
    return registry


def names(tools: tuple[ToolInfo, ...]) -> list[str]:
    return [info.name for info in tools]


class Changes:
    """Counts what a registry tells."""

    def __init__(self, registry: ToolRegistry) -> None:
        self.lists: list[list[str]] = []
        self.unsubscribe = registry.on_change(lambda: self.lists.append(names(registry.tools())))


@tool(read_only=True, reference_name="hi")
def hello() -> str:
    """Says hello."""
    return "hello"


class TestBothHalves:
    def test_a_tool_that_is_declared_and_registered_is_listed(self) -> None:
        registry = registry_of(
            declared(
                "search",
                input_schema={"type": "object"},
                tags=("a",),
                tool_reference_name="searchFiles",
                icon="$(search)",
                read_only=True,
            )
        )
        assert registry.tools() == (
            ToolInfo(
                name="search",
                display_name="Search",
                description="The search.",
                input_schema={"type": "object"},
                tags=("a",),
                reference_name="searchFiles",
                icon="$(search)",
                read_only=True,
            ),
        )
        found = registry.find("search")
        assert found.read_only
        assert found.parallel
        assert not found.is_private

    def test_a_tool_that_is_declared_and_never_registered_is_private(self) -> None:
        registry = ToolRegistry()
        registry.declare(declared("secret"))
        assert registry.tools() == ()
        with pytest.raises(
            RegistryError, match="'secret' is private: it is declared, but nobody registered it"
        ):
            registry.find("secret")

    def test_a_tool_that_is_registered_and_not_declared_is_an_error(self) -> None:
        registry = ToolRegistry()
        registry.declare(declared("search_files"))
        with pytest.raises(RegistryError) as caught:
            registry.register("searchfiles", Nothing())
        assert str(caught.value) == (
            "The tool 'searchfiles' is not declared. Did you mean 'search_files'? "
            "Declare it first, or register it as private."
        )

    def test_a_tool_registered_as_private_is_found_by_name_and_never_listed(self) -> None:
        registry = ToolRegistry()
        registry.register("inner", Nothing(), private=True)
        assert registry.available() == ()
        assert registry.selection == frozenset()
        assert registry.find("inner").is_private
        assert registry.find("inner").declaration.name == "inner"

    def test_a_declared_tool_can_be_registered_as_private_too(self) -> None:
        registry = ToolRegistry()
        registry.add(hello, private=True)
        assert registry.tools() == ()
        assert registry.referenced("#hi") == ()
        assert registry.find("hello").declaration is hello.declaration

    def test_duplicates_are_refused(self) -> None:
        registry = registry_of(declared("search"))
        with pytest.raises(RegistryError, match="'search' is declared already"):
            registry.declare(declared("search"))
        with pytest.raises(RegistryError, match="'search' is registered already"):
            registry.register("search", Nothing())

    def test_a_refused_addition_leaves_nothing_behind(self) -> None:
        registry = ToolRegistry()
        registry.register("hello", Nothing(), private=True)
        with pytest.raises(RegistryError):
            registry.add(hello)
        with pytest.raises(RegistryError, match="There is no tool 'hello'"):
            registry.deselect("hello")

    def test_unregistering_takes_back_and_can_be_repeated(self) -> None:
        registry = ToolRegistry()
        registry.declare(declared("search"))
        unregister = registry.register("search", Nothing())
        unregister()
        assert registry.tools() == ()
        registry.register("search", Nothing())
        unregister()
        assert names(registry.tools()) == ["search"]

    def test_removing_an_added_tool_takes_back_both_halves(self) -> None:
        registry = ToolRegistry()
        remove = registry.add(hello)
        assert names(registry.tools()) == ["hello"]
        remove()
        remove()
        with pytest.raises(RegistryError, match="There is no tool 'hello'"):
            registry.find("hello")
        registry.add(hello)
        assert names(registry.tools()) == ["hello"]

    def test_removing_leaves_another_tool_of_the_name_alone(self) -> None:
        registry = ToolRegistry()
        remove = registry.add(hello)
        remove()
        registry.add(DefinedTool(declared("hello"), hello.function, hello._parameters))
        remove()
        assert names(registry.tools()) == ["hello"]

    def test_an_unknown_tool_gets_a_suggestion(self) -> None:
        with pytest.raises(RegistryError, match=r"There is no tool 'serch'\. Did you mean 'search'\?"):
            registry_of(declared("search")).find("serch")

    def test_tools_are_listed_in_the_order_of_registration(self) -> None:
        assert names(registry_of(declared("b"), declared("a"), declared("c")).tools()) == ["b", "a", "c"]


class TestWhen:
    def test_a_tool_whose_when_is_false_is_hidden_and_refused(self) -> None:
        registry = registry_of(declared("stack", when="debugState == 'running'"))
        assert registry.tools() == ()
        with pytest.raises(
            RegistryError, match=r"not available in this context \(when: debugState == 'running'\)"
        ):
            registry.find("stack")
        registry.context.set("debugState", "running")
        assert names(registry.tools()) == ["stack"]
        assert registry.find("stack").declaration.name == "stack"

    def test_the_context_may_be_shared(self) -> None:
        context = ContextKeys()
        registry = ToolRegistry(context)
        registry.declare(declared("a", when="on"))
        registry.register("a", Nothing())
        context.set("on", value=True)
        assert names(registry.tools()) == ["a"]


class TestSelection:
    def test_a_deselected_tool_is_available_but_not_offered(self) -> None:
        registry = registry_of(declared("a"), declared("b"))
        registry.deselect("a")
        assert names(registry.tools()) == ["b"]
        assert names(registry.available()) == ["a", "b"]
        assert registry.selection == {"b"}
        assert registry.find("a").declaration.name == "a"
        registry.select("a")
        assert registry.selection == {"a", "b"}

    def test_a_deselection_holds_while_a_tool_is_away(self) -> None:
        registry = ToolRegistry()
        registry.declare(declared("a"))
        unregister = registry.register("a", Nothing())
        registry.deselect("a")
        unregister()
        registry.register("a", Nothing())
        assert registry.tools() == ()

    def test_selecting_what_there_is_not_is_an_error_with_a_suggestion(self) -> None:
        registry = registry_of(declared("search"))
        for choose in (registry.select, registry.deselect):
            with pytest.raises(RegistryError, match="Did you mean 'search'"):
                choose("saerch")


class TestFilter:
    def test_tools_are_filtered_by_tag_by_name_and_by_both(self) -> None:
        registry = registry_of(
            declared("a", tags=("vscode_editing", "x")), declared("b", tags=("x",)), declared("c")
        )
        assert names(registry.filter(tags=["vscode_editing"])) == ["a"]
        assert names(registry.filter(tags=["x", "y"])) == ["a", "b"]
        assert names(registry.filter(names=["b", "c", "nobody"])) == ["b", "c"]
        assert names(registry.filter(tags=["x"], names=["b", "c"])) == ["b"]
        assert names(registry.filter()) == ["a", "b", "c"]
        assert registry.filter(tags=[]) == ()

    def test_a_filter_sees_only_what_is_offered(self) -> None:
        registry = registry_of(declared("a", tags=("x",)), declared("b", tags=("x",), when="never"))
        registry.deselect("a")
        assert registry.filter(tags=["x"]) == ()


class TestReferences:
    def registry(self) -> ToolRegistry:
        return registry_of(
            declared("search", tool_reference_name="searchFiles", can_be_referenced_in_prompt=True),
            declared("read", tool_reference_name="read-file", can_be_referenced_in_prompt=True),
            declared("quiet", tool_reference_name="quiet"),
            declared("away", tool_reference_name="away", can_be_referenced_in_prompt=True, when="never"),
        )

    @pytest.mark.parametrize(
        ("prompt", "named"),
        [
            ("#searchFiles for tests", ["search"]),
            ("Please use #read-file, then (#searchFiles).", ["read", "search"]),
            ("#searchFiles #searchFiles\n#searchFiles", ["search"]),
            ("#nobody #search", []),
            ("#quiet #away", []),
            ("#searchFilesX #searchfiles ##searchFiles C#searchFiles", []),
            ("https://x.example/#searchFiles and page.html#searchFiles", []),
            ("", []),
        ],
    )
    def test_a_prompt_names_tools_by_reference_and_the_rest_is_left_alone(
        self, prompt: str, named: list[str]
    ) -> None:
        assert list(self.registry().referenced(prompt)) == named

    def test_a_deselected_tool_can_be_referenced(self) -> None:
        registry = self.registry()
        registry.deselect("search")
        assert registry.referenced("#searchFiles") == ("search",)

    def test_a_reference_that_two_tools_share_names_both(self) -> None:
        registry = self.registry()
        registry.declare(
            declared("grep", tool_reference_name="searchFiles", can_be_referenced_in_prompt=True)
        )
        registry.register("grep", Nothing())
        assert registry.referenced("#searchFiles") == ("search", "grep")


class TestChanges:
    def test_registration_selection_and_context_are_told(self) -> None:
        registry = ToolRegistry()
        changes = Changes(registry)
        registry.declare(declared("a", when="on"))
        unregister = registry.register("a", Nothing())
        assert changes.lists == []
        registry.context.set("on", value=True)
        registry.deselect("a")
        registry.select("a")
        unregister()
        assert changes.lists == [["a"], [], ["a"], []]

    def test_a_context_change_that_changes_no_list_is_not_told(self) -> None:
        registry = registry_of(declared("a", when="folders > 0"), declared("b"))
        registry.context.set("folders", 1)
        changes = Changes(registry)
        registry.context.set("folders", 2)
        registry.context.set("unrelated", value=True)
        registry.deselect("b")
        registry.deselect("b")
        assert changes.lists == [["a"]]

    def test_whoever_unsubscribed_is_not_told(self) -> None:
        registry = registry_of(declared("a"))
        changes = Changes(registry)
        changes.unsubscribe()
        changes.unsubscribe()
        registry.deselect("a")
        assert changes.lists == []

    def test_a_subscriber_that_fails_does_not_keep_the_change_from_others(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        registry = registry_of(declared("a"))

        def fail() -> None:
            raise ValueError("no")

        registry.on_change(fail)
        changes = Changes(registry)
        with caplog.at_level(logging.ERROR):
            registry.deselect("a")
        assert changes.lists == [[]]
        assert "a subscriber to the list of tools failed" in caplog.text
