"""Declarations: the form of a `languageModelTools` contribution, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.nearest import nearest
from dragoman.tools import (
    Declaration,
    DeclarationError,
    ThemedIcon,
    declarations_from,
    load_declarations,
)
from dragoman.tools.declaration import MAX_FILE_BYTES, _in_our_words
from dragoman.tools.names import is_tool_name, legal_name

# The example of the reference, field by field.
SEARCH: dict[str, object] = {
    "name": "myext_searchFiles",
    "displayName": "Search Files",
    "toolReferenceName": "searchFiles",
    "canBeReferencedInPrompt": True,
    "modelDescription": "Searches workspace files matching a pattern",
    "userDescription": "Search for files in the workspace",
    "icon": "$(search)",
    "inputSchema": {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Glob pattern to match"},
            "maxResults": {"type": "number", "default": 10},
        },
        "required": ["pattern"],
    },
    "when": "workspaceFolderCount > 0",
}
MINIMAL: dict[str, object] = {"name": "hello", "displayName": "Hello", "modelDescription": "Says hello."}


def only(value: object) -> Declaration:
    (declaration,) = declarations_from(value, where="tools.json")
    return declaration


def refusal(entry: object) -> str:
    with pytest.raises(DeclarationError) as caught:
        declarations_from([MINIMAL, entry], where="tools.json")
    return str(caught.value)


def changed(**fields: object) -> dict[str, object]:
    return {**SEARCH, **fields}


def test_every_field_of_a_contribution_is_read() -> None:
    declaration = only([SEARCH])
    assert declaration == Declaration(
        name="myext_searchFiles",
        display_name="Search Files",
        model_description="Searches workspace files matching a pattern",
        user_description="Search for files in the workspace",
        tool_reference_name="searchFiles",
        can_be_referenced_in_prompt=True,
        icon="$(search)",
        input_schema=SEARCH["inputSchema"],  # type: ignore[arg-type]  # an object, as the literal above shows
        when="workspaceFolderCount > 0",
    )
    assert msgspec.to_builtins(declaration) == SEARCH


@pytest.mark.parametrize(
    "value",
    [
        [SEARCH],
        {"languageModelTools": [SEARCH]},
        {"name": "my-extension", "contributes": {"commands": [], "languageModelTools": [SEARCH]}},
    ],
    ids=["list", "contribution", "package.json"],
)
def test_a_list_a_contribution_and_a_whole_package_json_are_accepted(value: object) -> None:
    assert only(value).name == "myext_searchFiles"


def test_name_display_name_and_model_description_are_enough() -> None:
    declaration = only([MINIMAL])
    assert declaration.input_schema is None
    assert declaration.tags == ()
    assert not declaration.can_be_referenced_in_prompt


def test_an_icon_is_a_codicon_or_a_path_for_each_theme() -> None:
    assert only([changed(icon={"light": "l.svg", "dark": "d.svg"})]).icon == ThemedIcon("l.svg", "d.svg")
    assert "languageModelTools[1] (myext_searchFiles): icon.dark: is missing" in refusal(
        changed(icon={"light": "l.svg"})
    )
    assert "icon: must be a string or an object, not a number" in refusal(changed(icon=3))


def test_tags_are_read() -> None:
    assert only([changed(tags=["vscode_editing", "search"])]).tags == ("vscode_editing", "search")


def test_fields_that_only_vscode_knows_are_left_alone() -> None:
    entry = changed(legacyToolReferenceFullNames=["old/name"], models=[{"id": "x"}], toolSet="x")
    assert only([entry]) == only([SEARCH])


def test_read_only_and_parallel_are_our_additions() -> None:
    declaration = only([changed(readOnly=True)])
    assert declaration.read_only
    assert declaration.runs_in_parallel
    assert not only([changed(readOnly=True, parallel=False)]).runs_in_parallel
    assert only([changed(parallel=True)]).runs_in_parallel
    assert not only([SEARCH]).runs_in_parallel


@pytest.mark.parametrize(
    ("field", "meant"),
    [
        ("displayname", "displayName"),
        ("display_name", "displayName"),
        ("modelDescripton", "modelDescription"),
        ("inputshema", "inputSchema"),
        ("toolRefrenceName", "toolReferenceName"),
        ("read_only", "readOnly"),
        ("tag", "tags"),
        ("parameters", "inputSchema"),
        ("description", "modelDescription"),
    ],
)
def test_a_misspelt_field_gets_a_suggestion(field: str, meant: str) -> None:
    entry = {name: value for name, value in SEARCH.items() if name != meant}
    assert (
        refusal({**entry, field: "x"})
        == f"tools.json: languageModelTools[1] (myext_searchFiles): {field}: is not a field of a tool; "
        f"did you mean {meant!r}?"
    )


def test_a_field_like_one_that_is_there_is_left_alone() -> None:
    assert only([changed(description="something of somebody's")]).name == "myext_searchFiles"


@pytest.mark.parametrize("name", ["copilot_search", "vscode_search", "", "my tool", "a.b", "größe", "tool\n"])
def test_an_illegal_or_reserved_name_is_refused(name: str) -> None:
    message = refusal({**MINIMAL, "name": name})
    assert message.startswith("tools.json: languageModelTools[1]")
    assert f"name: {name!r} is not a legal name" in message


@pytest.mark.parametrize(
    ("name", "advice"), [("my tool", "'my_tool' would do"), ("copilot_search", "'search' would do")]
)
def test_an_illegal_name_gets_the_nearest_legal_one(name: str, advice: str) -> None:
    assert advice in refusal({**MINIMAL, "name": name})


@given(st.text(max_size=20))
def test_what_is_suggested_for_a_name_is_legal(text: str) -> None:
    suggestion = legal_name(text)
    assert not suggestion or is_tool_name(suggestion)


def test_nearest_ignores_case_and_separators_and_knows_when_nothing_is_near() -> None:
    assert nearest("SEARCH-FILES", ["read_file", "searchFiles"]) == "searchFiles"
    assert nearest("zzz", ["read_file", "searchFiles"]) is None
    assert nearest("x" * 10_000, ["x" * 5_000]) is None


@pytest.mark.parametrize("field", ["name", "displayName", "modelDescription"])
def test_a_missing_required_field_is_named(field: str) -> None:
    entry = {name: value for name, value in MINIMAL.items() if name != field}
    assert f"{field}: is missing, and every tool needs it" in refusal(entry)


@pytest.mark.parametrize("field", ["displayName", "modelDescription"])
def test_an_empty_description_is_refused(field: str) -> None:
    assert f"{field}: is empty" in refusal({**MINIMAL, field: " "})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("displayName", 3, "displayName: must be a string, not a number"),
        ("tags", "search", "tags: must be a list, not a string"),
        ("tags", ["a", 1], "tags[1]: must be a string, not a number"),
        ("canBeReferencedInPrompt", "yes", "canBeReferencedInPrompt: must be true or false, not a string"),
        ("inputSchema", [], "inputSchema: must be an object, not a list"),
        ("when", False, "when: must be a string, not true or false"),
    ],
)
def test_a_field_of_the_wrong_type_is_told_in_words(field: str, value: object, words: str) -> None:
    assert refusal(changed(**{field: value})).endswith(words)


def test_a_tool_that_can_be_referenced_needs_a_reference_name() -> None:
    entry = {name: value for name, value in SEARCH.items() if name != "toolReferenceName"}
    assert "toolReferenceName: is missing, but canBeReferencedInPrompt is true" in refusal(entry)


def test_a_reference_name_can_follow_a_hash() -> None:
    assert "toolReferenceName: 'search files' cannot follow a #" in refusal(
        changed(toolReferenceName="search files")
    )


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"type": ["object"]}, {"anyOf": []}])
def test_an_input_schema_must_be_an_object_schema(schema: object) -> None:
    message = refusal(changed(inputSchema=schema))
    assert "(myext_searchFiles): inputSchema: must be an object schema" in message
    assert '"type": "object"' in message


def test_an_input_schema_that_is_none_is_refused_where_it_goes_wrong() -> None:
    message = refusal(changed(inputSchema={"type": "object", "properties": {"n": {"type": "numbr"}}}))
    assert "inputSchema.properties.n.type: expected one of 'array', " in message
    assert "got 'numbr'" in message


def test_an_input_schema_that_needs_the_network_is_refused() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "https://schemas.example/a.json"}}}
    assert "inputSchema: refers to 'https://schemas.example/a.json'" in refusal(changed(inputSchema=schema))


def test_a_when_clause_is_parsed_at_load_and_the_error_shows_the_position() -> None:
    message = refusal(changed(when="debugState = 'running'"))
    assert "(myext_searchFiles): when: one `=` is no operator" in message
    line, caret = message.splitlines()[-2:]
    assert line[caret.index("^")] == "="


def test_a_name_declared_twice_is_refused_and_both_places_named() -> None:
    message = refusal({**MINIMAL, "displayName": "Another"})
    assert message == (
        "tools.json: languageModelTools[1] (hello): name: 'hello' is declared already, by languageModelTools[0]; "
        "rename one of them"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"languageModelTool": []}, "rename 'languageModelTool' to 'languageModelTools'"),
        ({}, 'write {"languageModelTools": […]}'),
        ({"contributes": {"commands": []}}, "has no 'languageModelTools'"),
        ({"languageModelTools": {}}, "languageModelTools: must be a list of tools, got object"),
        (None, "must be a list of tools, got null"),
        ([3], "languageModelTools[0]: must be an object, got number"),
    ],
)
def test_a_value_of_another_form_is_refused_with_advice(value: object, words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        declarations_from(value, where="tools.json")
    assert str(caught.value).startswith("tools.json: ")
    assert words in str(caught.value)


def test_the_parts_of_an_error_can_be_had_one_by_one() -> None:
    with pytest.raises(DeclarationError) as caught:
        declarations_from([{**MINIMAL, "name": "a b"}], where="tools.json")
    error = caught.value
    assert (error.where, error.entry, error.field) == ("tools.json", "languageModelTools[0] (a b)", "name")


def test_an_illegal_declaration_cannot_be_built() -> None:
    with pytest.raises(DeclarationError, match=r"^name: 'a b' is not a legal name"):
        Declaration(name="a b", display_name="A", model_description="A")


def test_words_of_the_decoder_that_we_have_none_for_are_passed_on() -> None:
    assert str(_in_our_words("Something new")) == "Something new"


class TestFiles:
    def test_a_file_is_loaded(self, tmp_path: Path) -> None:
        path = tmp_path / "tools.json"
        path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"languageModelTools": [SEARCH, MINIMAL]}).encode())
        assert [declaration.name for declaration in load_declarations(path)] == ["myext_searchFiles", "hello"]

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "none.json"
        with pytest.raises(DeclarationError) as caught:
            load_declarations(path)
        assert str(caught.value) == f"{path}: cannot be read (No such file or directory); check the path"

    def test_broken_json_is_shown_with_line_and_column(self, tmp_path: Path) -> None:
        path = tmp_path / "tools.json"
        path.write_text('[\n  {"name": "a",}\n]')
        with pytest.raises(DeclarationError, match=r"tools.json: is not valid JSON: line 2, column \d+: "):
            load_declarations(path)

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b'["\xff"]', r"is not UTF-8 \(byte 2\); save it as UTF-8"),
            (b"[" * 100_000, "is nested more than"),
            (b"1" * 10_000, "a number of thousands of digits"),
            (b" " * (MAX_FILE_BYTES + 1), "it has more than 8,388,608 bytes"),
        ],
        ids=["bytes", "nesting", "digits", "size"],
    )
    def test_what_is_no_file_of_declarations_is_refused(
        self, tmp_path: Path, data: bytes, words: str
    ) -> None:
        path = tmp_path / "tools.json"
        path.write_bytes(data)
        with pytest.raises(DeclarationError, match=words):
            load_declarations(path)
