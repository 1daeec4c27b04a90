"""What a lasting yes covers (scenarios D1, D2): the complete action, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from dragoman.lm.json import canonical
from dragoman.permissions.keys import agent_in, approval_key, covered, is_agent_key
from permissions.actions import action, diff, text

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"input": {"command": "git", "args": ["status"]}}, {"input": {"command": "git", "args": ["push"]}}),
        ({"input": {"command": ["sh", "-c", "a", "b"]}}, {"input": {"command": ["sh", "-c", "a b"]}}),
        ({"input": {"command": "make"}}, {"input": {"command": "make", "cwd": "sub"}}),
        ({"input": {"command": "make"}}, {"input": {"command": "make", "stdin": "x"}}),
        ({"input": {"command": "make"}}, {"input": {"command": "make", "env": {"A": "1"}}}),
        ({"input": {"url": "https://e.example"}}, {"input": {"url": "https://e.example", "method": "POST"}}),
        ({"title": "one"}, {"title": "two"}),
        ({"kind": "read"}, {"kind": "edit"}),
        ({"tool": "read_file"}, {"tool": "write_file"}),
        ({"meta": {"toolName": "a"}}, {"meta": {"toolName": "b"}}),
        ({"content": [text("a")]}, {"content": [text("b")]}),
        ({"content": [diff("/a", "1", "2")]}, {"content": [diff("/a", "1", "3")]}),
        ({"content": [diff("/a", None, "2")]}, {"content": [diff("/a", "", "2")]}),
        (
            {"content": [{"type": "terminal", "terminalId": "1"}]},
            {"content": [{"type": "terminal", "terminalId": "2"}]},
        ),
        ({"locations": [("/a", 1)]}, {"locations": [("/a", 2)]}),
        ({"extra": {"x": 1}}, {"extra": {"x": 2}}),
        ({"agent": "claude"}, {"agent": "codex"}),
        ({"input": {"n": 1}}, {"input": {"n": True}}),
        ({"input": {"n": "1"}}, {"input": {"n": 1}}),
    ],
)
def test_d1_d2_another_action_has_another_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert approval_key(action(**one)) != approval_key(action(**other))


def test_the_order_of_keys_in_an_object_means_nothing() -> None:
    one = action(input={"command": "make", "env": {"A": "1", "B": "2"}})
    other = action(input={"env": {"B": "2", "A": "1"}, "command": "make"})
    assert approval_key(one) == approval_key(other)


@given(JSON, JSON)
def test_d1_two_inputs_have_one_key_only_if_they_are_one(one: object, other: object) -> None:
    same = approval_key(action(input=one)) == approval_key(action(input=other))
    assert same == (canonical(one) == canonical(other))


def test_the_line_that_says_what_it_covers_is_in_the_key() -> None:
    key = approval_key(action(input={"command": "make test", "cwd": "sub"}))
    assert covered(key) == "exactly this request of Claude Code: run make test, in /srv/project/sub"
    key = approval_key(action(kind="read", tool="Read", locations=[("/srv/project/a", None)]))
    assert (
        covered(key) == "exactly this request of Claude Code: read /srv/project/a with Read, in /srv/project"
    )
    assert is_agent_key(key)


def test_a_key_of_another_form_is_no_key_of_an_agents_action() -> None:
    for key in (
        "make test",
        '["/a"]',
        '{"input":null,"places":[],"title":"Bash"}',
        "action-1 : x",
        "action-1 ab: x",
    ):
        assert not is_agent_key(key)
        assert covered(key) == key


def test_a_key_names_its_agent_and_its_folder() -> None:
    wanted = action(kind="execute", input={"command": "make"})
    named = agent_in(approval_key(wanted))
    assert named is not None
    assert named[0] == wanted.agent_name
    assert agent_in("run_command make") is None
