"""Names of tools: legal, unique, and independent of the other tools."""

import re
from string import ascii_letters

import pytest
from hypothesis import given, settings, strategies as st

from dragoman.backends import tool_names
from dragoman.backends.agent.toolserver.naming import (
    SERVER_NAME_LENGTH,
    TOOL_NAME_LENGTH,
    WAIT_TOOL,
    is_server_name,
    offered_names,
)
from dragoman.backends.agent.toolserver.offer import offer
from dragoman.lm import ToolDefinition
from searching import examples

_LEGAL = re.compile(r"[a-zA-Z0-9_-]+")

_names = st.one_of(
    st.text(max_size=100),
    st.text(alphabet="ab._- /é", max_size=6),
    st.text(alphabet=ascii_letters, min_size=38, max_size=45),
    st.sampled_from([WAIT_TOOL, "a_0x00000000", "a.b_0x00000000", ""]),
)


@settings(deadline=None, max_examples=examples(60))
@given(st.sets(_names, max_size=12))
def test_t11_offered_names_are_legal_unique_and_lead_back(names: set[str]) -> None:
    offered = offer(ToolDefinition(name) for name in names)
    assert all(_LEGAL.fullmatch(name) and len(name) <= TOOL_NAME_LENGTH for name in offered.by_name)
    assert WAIT_TOOL not in offered.by_name
    assert {tool.definition.name for tool in offered.by_name.values()} == names


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(_names, max_size=12), _names, st.randoms(use_true_random=False))
def test_t11_adding_a_tool_renames_no_other_in_any_order(
    names: list[str], added: str, random: object
) -> None:
    before = offered_names(names)
    after = offered_names([added, *reversed(names)])
    assert {name: after[name] for name in names} == before


@pytest.mark.parametrize("name", ["readFile", "a", "mcp_github-create_issue", "x" * TOOL_NAME_LENGTH])
def test_a_name_that_fits_is_kept(name: str) -> None:
    assert offered_names([name]) == {name: name}


def test_t11_a_dotted_name_and_a_long_one_stay_readable() -> None:
    long = "create_" + "very_" * 16 + "long"
    offered = offered_names(["files.read", long, "读"])
    assert offered["files.read"].startswith("files_read_0x")
    assert offered[long].startswith("create_very_very_")
    assert len(offered[long]) == TOOL_NAME_LENGTH
    assert offered["读"].startswith("__0x")


def test_names_that_look_made_are_made_anew() -> None:
    made = offered_names(["files.read"])["files.read"]
    offered = offered_names([made, "files.read"])
    assert offered["files.read"] == made
    assert offered[made] != made


def test_names_whose_suffixes_are_the_same_get_longer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_names, "_DIGITS", 1)
    names = ["a" + "." * count for count in range(1, 13)]
    offered = offered_names(names)
    assert len(set(offered.values())) == len(names)
    assert {len(name) for name in offered.values()} == {len("a__0x0"), len("a__0x00")}
    assert offered == offered_names(reversed(names))


def test_of_two_tools_with_one_name_the_first_is_offered() -> None:
    (tool,) = offer([ToolDefinition("same", "first"), ToolDefinition("same", "second")]).tools
    assert tool.description == "first"


def test_a_tool_that_says_nothing_of_itself_has_its_name_for_a_description() -> None:
    (tool,) = offer([ToolDefinition("files.read")]).tools
    assert tool.description == "files.read"


def test_the_name_of_a_tool_fits_behind_the_longest_prefix() -> None:
    assert is_server_name("s" * SERVER_NAME_LENGTH)
    assert len(f"mcp__{'s' * SERVER_NAME_LENGTH}__{'t' * TOOL_NAME_LENGTH}") == 64


@pytest.mark.parametrize("name", ["", "1st", "two__parts", "s" * (SERVER_NAME_LENGTH + 1), "a.b", "ä", "a\n"])
def test_a_server_name_that_could_be_misread_is_none(name: str) -> None:
    assert not is_server_name(name)
