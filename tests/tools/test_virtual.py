"""T19: more tools than a model takes are grouped, and never more than the limit offered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from dragoman.lm import LanguageModelError
from dragoman.tools.names import is_tool_name
from dragoman.tools.registry import ToolInfo
from dragoman.tools.virtual import GroupedTools, ToolGroup, ToolLimitError, offer
from searching import examples


def info(name: str, *tags: str) -> ToolInfo:
    return ToolInfo(name, name, f"The {name}.", {"type": "object"}, tags)


def many(prefix: str, count: int, *tags: str) -> list[ToolInfo]:
    return [info(f"{prefix}_{number}", *tags) for number in range(count)]


def names(made: GroupedTools) -> list[str]:
    return [definition.name for definition in made.definitions]


def groups(tools: list[ToolInfo], limit: int = 8) -> dict[str, tuple[str, ...]]:
    return {group.name: group.members for group in offer(tools, limit=limit, threshold=0).groups}


def test_t19_up_to_the_threshold_every_tool_is_offered_itself() -> None:
    tools = many("git", 128)
    made = offer(tools)
    assert names(made) == [tool.name for tool in tools]
    assert made.groups == ()
    assert made.definitions[0].description == "The git_0."
    assert made.definitions[0].input_schema == {"type": "object"}


def test_t19_above_128_tools_are_grouped_under_activate_tools() -> None:
    made = offer([*many("git", 60), *many("db", 69)])
    assert names(made) == ["activate_git", "activate_db_1", "activate_db_2"]
    assert "git_0, git_1, " in made.definitions[0].description
    assert made.definitions[0].input_schema == {"type": "object", "properties": {}}


def test_t19_a_lower_threshold_groups_earlier() -> None:
    assert names(offer(many("git", 5), threshold=4)) == ["activate_git"]
    assert len(names(offer(many("git", 5), threshold=5))) == 5


def test_t19_calling_an_activate_tool_expands_its_group() -> None:
    tools = [*many("git", 3), *many("db", 3)]
    made = offer(tools, limit=8, threshold=4, expanded=("activate_db",))
    assert names(made) == ["db_0", "db_1", "db_2", "activate_git"]
    assert made.expanded == ("activate_db",)


def test_t19_the_least_recently_used_groups_collapse_when_there_is_no_room() -> None:
    tools = [*many("a", 3), *many("b", 3), *many("c", 3)]
    made = offer(tools, limit=7, threshold=4, expanded=("activate_c", "activate_a", "activate_b"))
    assert names(made) == ["a_0", "a_1", "a_2", "c_0", "c_1", "c_2", "activate_b"]
    assert made.expanded == ("activate_c", "activate_a")


def test_t19_a_pinned_tool_is_offered_itself_beside_its_group() -> None:
    tools = many("git", 4)
    assert names(offer(tools, limit=8, threshold=2, pinned=frozenset({"git_2"}))) == ["git_2", "activate_git"]


def test_t19_a_group_of_which_one_tool_is_left_is_no_group() -> None:
    tools = many("git", 3)
    pinned = frozenset({"git_0", "git_1"})
    assert names(offer(tools, limit=8, threshold=2, pinned=pinned)) == ["git_0", "git_1", "git_2"]


def test_t19_when_even_the_groups_do_not_fit_the_error_names_count_limit_and_remedy() -> None:
    tools = [tool for number in range(80) for tool in many(f"g{number}", 2, f"tag{number}")]
    with pytest.raises(ToolLimitError) as caught:
        offer(tools, limit=64)
    assert isinstance(caught.value, LanguageModelError)
    assert caught.value.kind == "bad_request"
    assert caught.value.sentence == (
        "160 tools are too many: in groups they still need 81 places, and the limit is 64. "
        "Deselect some of them, or give those that belong together a common tag."
    )


def test_tools_are_grouped_by_first_tag_else_by_prefix_else_other() -> None:
    tools = [
        info("git_log", "history", "x"),
        info("notes", "history"),
        info("db_read"),
        info("db-write"),
        info("plain"),
        info("simple"),
    ]
    assert groups(tools) == {
        "activate_history": ("git_log", "notes"),
        "activate_db": ("db_read", "db-write"),
        "activate_other": ("plain", "simple"),
    }


def test_groups_of_one_go_to_other() -> None:
    tools = [info("a_x"), info("b_x"), info("plain"), *many("c", 2)]
    assert groups(tools) == {"activate_other": ("plain", "a_x", "b_x"), "activate_c": ("c_0", "c_1")}


def test_a_single_tool_is_not_hidden_behind_one() -> None:
    assert names(offer([info("a_x"), *many("c", 3)], limit=8, threshold=2)) == ["a_x", "activate_c"]
    assert names(offer([info("plain"), *many("c", 3)], limit=8, threshold=2)) == ["plain", "activate_c"]


def test_large_groups_are_divided_so_that_one_can_always_expand() -> None:
    assert groups(many("git", 7), limit=8) == {
        "activate_git_1": ("git_0", "git_1", "git_2", "git_3"),
        "activate_git_2": ("git_4", "git_5", "git_6"),
    }


def test_names_of_groups_are_legal_and_clash_with_no_tool() -> None:
    tools = [
        info("activate_git"),
        info("activate_git_2"),
        *many("git", 2),
        *many("x", 2, "größe & gewicht"),
        *many("y", 2, "vscode_editing"),
        *many("z", 2, "!" * 200),
        *many("v", 2, ""),
        *many("w", 2, "copilot_"),
    ]
    found = groups(tools, limit=20)
    assert list(found) == [
        "activate_activate",
        "activate_git_3",
        "activate_gr__e___gewicht",
        "activate_editing",
        f"activate_{'_' * 48}",
        "activate_other",
    ]
    assert all(is_tool_name(name) and len(name) <= 64 for name in found)


def test_a_description_that_would_be_too_long_counts_the_rest() -> None:
    tools = [info(f"git_{'x' * 100}_{number}") for number in range(60)]
    (definition,) = offer(tools, limit=128, threshold=2).definitions
    assert len(definition.description) < 2_200
    assert " and 42 more. Call it" in definition.description


def test_unknown_expanded_groups_are_ignored() -> None:
    assert offer(many("git", 4), limit=8, threshold=2, expanded=("activate_gone",)).expanded == ()


def test_a_group_is_a_value() -> None:
    assert ToolGroup("activate_a", ("a", "b")) == ToolGroup("activate_a", ("a", "b"))


_names = st.lists(
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["git", "db", "activate", "x", "activate_git"]),
            st.sampled_from(["_", "-", ""]),
            st.sampled_from(["git", "a", "b", "c", "d", "1", "2"]),
            st.sampled_from(["", "0", "1", "2", "3"]),
        ),
    ),
    unique=True,
    max_size=60,
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[ToolInfo], int, int, list[str], frozenset[str]]:
    tools = [
        info(name, *draw(st.lists(st.sampled_from(["git", "t", "other", "ü"]), max_size=1)))
        for name in draw(_names)
    ]
    limit, threshold = draw(st.integers(1, 40)), draw(st.integers(0, 40))
    try:
        known = [group.name for group in offer(tools, limit=limit, threshold=threshold).groups]
    except ToolLimitError:
        known = []
    expanded = draw(st.lists(st.sampled_from(known), max_size=5)) if known else []
    pinned = (
        frozenset(draw(st.lists(st.sampled_from([t.name for t in tools]), max_size=4)))
        if tools
        else frozenset()
    )
    return tools, limit, threshold, expanded, pinned


@given(situations())
@settings(max_examples=examples(150), deadline=None)
def test_t19_no_offer_exceeds_the_limit_and_every_tool_is_one_activation_away(
    situation: tuple[list[ToolInfo], int, int, list[str], frozenset[str]],
) -> None:
    tools, limit, threshold, expanded, pinned = situation

    def make(opened: list[str]) -> GroupedTools:
        return offer(tools, limit=limit, threshold=threshold, expanded=opened, pinned=pinned)

    try:
        made = make(expanded)
    except ToolLimitError:
        assert len(tools) > limit or len(tools) > threshold
        return
    assert made == make(expanded)
    offered = names(made)
    assert len(offered) <= limit
    assert len(set(offered)) == len(offered)
    assert all(map(is_tool_name, offered))
    assert pinned <= set(offered)
    reachable = set(offered)
    for group in made.groups:
        after = names(make([group.name, *expanded]))
        assert set(group.members) <= set(after)
        assert len(after) <= limit
        if group.name in offered:
            reachable |= set(group.members)
    assert {tool.name for tool in tools} <= reachable
    members = [name for group in made.groups for name in group.members]
    assert len(set(members)) == len(members)
