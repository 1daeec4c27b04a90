"""The mode that accepts edits (scenario D3): what it covers, and what it never covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from dragoman.permissions.action import Action
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.decide import EDITS_ACCEPTED, Allowed, Ask, StepDecision
from dragoman.permissions.edit_mode import EditMode, change_of, is_plain_edit
from dragoman.permissions.fields import plain_name
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.sensitive import Places
from permissions.actions import WORKSPACE, action, diff, text

_A = f"{WORKSPACE}/a.txt"
_B = f"{WORKSPACE}/b.txt"
_ACCEPTED = Allowed(EDITS_ACCEPTED, "mode")


def _decided(wanted: Action, session: str = "s", **services: Any) -> StepDecision:
    permissions = PermissionServices(**services)
    permissions.edit_mode.switch("s", on=True)
    return permissions.decide(wanted, session, (WORKSPACE,))


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "edit", "content": [diff(_A, "a", "b")]},
        {"kind": "edit", "content": [diff(_A, None, "new")], "input": {"path": _A, "content": "new"}},
        {"kind": "edit", "content": [diff(_A, None, "")]},
        {"kind": "edit", "content": [diff(_A, "a", "x")], "input": {"file_path": "a.txt", "new_string": "x"}},
        {"kind": "edit", "content": [diff(_A, "a", "b"), diff(_B, "a", "b"), text("Two files.")]},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "locations": [(_A, 3)]},
        {"kind": "edit", "tool": "Write", "content": [diff(_A, "a", "b")], "input": {"files": [_A]}},
        {
            "kind": "edit",
            "tool": "MultiEdit",
            "content": [diff(_A, "a", "b")],
            "input": {
                "file_path": _A,
                "replace_all": False,
                "edits": [{"oldText": "a", "newText": "b", "expected_replacements": 1}],
                "old_text": None,
            },
        },
    ],
)
def test_an_edit_with_its_diff_inside_the_workspace_is_accepted(fields: dict[str, Any]) -> None:
    assert _decided(action(**fields)) == _ACCEPTED


@pytest.mark.parametrize(
    "fields",
    [
        # Sensitive: outside the workspace, hooks, settings, secrets, by a link of words.
        {"kind": "edit", "content": [diff("/etc/hosts", "a", "b")]},
        {"kind": "edit", "content": [diff(f"{WORKSPACE}/../x", "a", "b")]},
        {"kind": "edit", "content": [diff(f"{WORKSPACE}/.git/hooks/pre-commit", "a", "b")]},
        {"kind": "edit", "content": [diff(f"{WORKSPACE}/.vscode/tasks.json", "a", "b")]},
        {"kind": "edit", "content": [diff(f"{WORKSPACE}/.claude/settings.json", "a", "b")]},
        {"kind": "edit", "content": [diff(f"{WORKSPACE}/AGENTS.md", "a", "b")]},
        {"kind": "edit", "content": [diff(f"{WORKSPACE}/.github/copilot-instructions.md", "a", "b")]},
        {"kind": "edit", "content": [diff(f"{WORKSPACE}/.env", "a", "b")]},
        {"kind": "edit", "content": [diff(f"{WORKSPACE}/dragoman.toml", "a", "b")]},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "input": {"also": "/etc/passwd"}},
        {"kind": "edit", "content": [diff(_A, "a", "b"), diff("/etc/hosts", "a", "b")]},
        # Paths as the names of fields.
        {"kind": "edit", "content": [diff(_A, "a", "b")], "input": {"changes": {"~/.bashrc": {"add": "x"}}}},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "input": {"files": {".git/hooks/pre-commit": "x"}}},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "input": {"edits": [{"/etc/hosts": 1}]}},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "extra": {"also": {"../up": None}}},
    ],
)
def test_d3_a_sensitive_edit_is_asked_about_although_edits_are_accepted(fields: dict[str, Any]) -> None:
    assert _decided(action(**fields)) == Ask(needs_person=True, once=True)


@pytest.mark.parametrize(
    "fields",
    [
        # Not an edit.
        {"kind": "execute", "input": {"command": "sed -i s/a/b/ a.txt"}},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "input": {"command": "make"}},
        {"kind": "delete", "content": [diff(_A, "a", "")]},
        {"kind": "move", "locations": [(_A, None), (_B, None)], "input": {"to": _B}},
        {"kind": "fetch", "input": {"url": "https://e.example/"}},
        {"kind": "read", "locations": [(_A, None)]},
        {"kind": "other", "input": {"x": 1}},
        # An edit that shows no change, or not all of it.
        {"kind": "edit", "locations": [(_A, None)], "input": {"file_path": _A, "new_string": "b"}},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "locations": [(_B, None)]},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "input": {"path": _B}},
        {"kind": "edit", "input": {"patch": "*** Begin Patch"}},
        {"kind": "edit", "content": [diff(_A, "a", "a")], "input": {"file_path": _A, "new_string": "x"}},
        # An edit that does more: it empties a file, shows a terminal, or names an address.
        {"kind": "edit", "content": [diff(_A, "all of it", "")]},
        {"kind": "edit", "content": [diff(_A, "a", "b"), {"type": "terminal", "terminalId": "t"}]},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "input": {"url": "https://e.example/"}},
        # The agent does not call it an edit, or a foreign tool makes it.
        *(
            {"kind": kind, "content": [diff(_A, "a", "b")]}
            for kind in ("fetch", "think", "switch_mode", "other", "tool")
        ),
        *(
            {"kind": "edit", "tool": tool, "content": [diff(_A, "a", "b")]}
            for tool in ("mcp__prod__deploy", "mcp__files__write", "deploy")
        ),
        # Fields that say more than an edit.
        *(
            {"kind": "edit", "content": [diff(_A, "a", "b")], "input": given}
            for given in (
                {"patch": "*** Begin Patch\n*** Delete File: b.txt\n*** End Patch"},
                {"operations": [{"op": "remove", "name": "src"}]},
                {"afterwards": "make clean"},
                {"delete": True},
                {"environment_name": None},
                {"source": _A},
                {"content": 1},
                {"content": 1.5},
                {"content": ["a"]},
                {"edits": "all"},
                {"edits": ["all"]},
                {"edits": [{"op": "remove"}]},
                {"file": {"content": "x"}},
                {"changes": {_A: {"content": "x"}}},
                {"changes": {"b.txt": {"content": "x"}}},
                [_A],
                "make clean",
            )
        ),
        {"kind": "edit", "content": [diff(_A, "a", "b")], "extra": {"then": 1}},
        {"kind": "edit", "content": [diff(_A, "a", "b")], "meta": {"then": "run it"}},
    ],
)
def test_everything_but_a_plain_edit_is_asked_about(fields: dict[str, Any]) -> None:
    decided = _decided(action(**fields))
    assert isinstance(decided, Ask)
    assert not is_plain_edit(action(**fields))


def test_only_the_chat_that_switched_it_on_accepts_edits_and_only_while_it_is_on() -> None:
    permissions, edit = PermissionServices(), action(kind="edit", content=[diff(_A, "a", "b")])
    mode = permissions.edit_mode

    def decided(session: str) -> StepDecision:
        return permissions.decide(edit, session, (WORKSPACE,))

    assert decided("s") == Ask()
    mode.switch("s", on=True)
    assert (decided("s"), decided("another")) == (_ACCEPTED, Ask())
    mode.switch("s", on=True)
    mode.switch("s", on=False)
    mode.switch("s", on=False)
    assert (decided("s"), mode.is_on("s")) == (Ask(), False)
    assert not PermissionServices().edit_mode.is_on("s")


def test_a_tool_that_must_be_asked_about_is_asked_about() -> None:
    edit = action(kind="edit", content=[diff(_A, "a", "b")])
    settings = AutoApproval(eligible={edit.permission_tool: False})
    assert _decided(edit, settings=settings) == Ask(needs_person=True, once=True)


def test_d3_a_link_that_leads_out_of_the_workspace_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/link").symlink_to(tmp_path)
    places = Places.around([tmp_path / "ws"])
    out = action(places=places, kind="edit", content=[diff(f"{tmp_path}/ws/link/x", "a", "b")])
    inside = action(places=places, kind="edit", content=[diff(f"{tmp_path}/ws/x", "a", "b")])
    assert (is_plain_edit(out), is_plain_edit(inside)) == (False, True)


_PATHS = st.sampled_from(
    [_A, "a.txt", f"{WORKSPACE}/sub/c.py", "/etc/hosts", f"{WORKSPACE}/.git/config", "../up", "~/.bashrc"]
)
_DIFFS = st.builds(
    diff, _PATHS, st.none() | st.sampled_from(["", "old"]), st.sampled_from(["", "new", "rm -rf /"])
)
_KNOWN = ["path", "content", "new_string", "edits", "replace_all"]
_NAMES = st.sampled_from([*_KNOWN, "command", "url", "cwd", "changes", "afterwards", "patch"]) | st.text(
    max_size=5
)
_FIELDS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["edit", "execute", "delete", "move", "fetch", "read", "other", "think"])},
    optional={
        "content": st.lists(_DIFFS | st.just(text("words")) | st.just({"type": "terminal"}), max_size=3),
        "locations": st.lists(st.tuples(_PATHS, st.none()), max_size=2),
        "input": st.dictionaries(
            _NAMES | _PATHS,
            _PATHS | st.booleans() | st.dictionaries(_NAMES | _PATHS, _PATHS, max_size=2),
            max_size=2,
        ),
        "tool": st.sampled_from([None, "Write", "mcp__prod__deploy"]),
        "extra": st.dictionaries(_NAMES | _PATHS, _PATHS, max_size=1),
    },
)


@given(_FIELDS, st.booleans())
def test_d3_what_is_accepted_changes_files_inside_the_workspace_and_shows_how(
    fields: dict[str, Any],
    is_on: bool,  # noqa: FBT001 - drawn
) -> None:
    wanted = action(**fields)
    permissions = PermissionServices()
    permissions.edit_mode.switch("s", on=is_on)
    decided = permissions.decide(wanted, "s", (WORKSPACE,))
    assert isinstance(decided, Ask | Allowed)
    if isinstance(decided, Allowed):
        assert (is_on, decided) == (True, _ACCEPTED)
        assert (wanted.risk, wanted.sensitive, wanted.is_inside) == ("edit", None, True)
        assert wanted.command is None
        assert not wanted.urls
        assert (wanted.kind, wanted.extra, wanted.tool in (None, "Write")) == ("edit", {}, True)
        assert isinstance(wanted.input, dict | None)
        assert {plain_name(name) for name in wanted.input or {}} <= set(map(plain_name, _KNOWN))
        assert wanted.diffs
        change = change_of(wanted)
        assert all(each.path in change for each in wanted.diffs)
        assert not any(each.old and not each.new for each in wanted.diffs)
    # The mode changes nothing else.
    elif is_on:
        permissions.edit_mode.switch("s", on=False)
        assert permissions.decide(wanted, "s", (WORKSPACE,)) == decided


def test_a_tool_of_the_terminal_is_covered_if_it_has_made_a_diff() -> None:
    mode = EditMode()
    mode.switch("s", on=True)
    described = action(kind="tool", tool="write_file", input={"path": "a.txt", "content": "x"})
    own = replace(described, risk="edit")
    assert (mode.accepts("s", own, "+x"), mode.accepts("s", own), mode.accepts("t", own, "+x")) == (
        True,
        False,
        False,
    )


def test_the_change_of_a_request_is_the_diff_of_each_file() -> None:
    shown = change_of(action(kind="edit", content=[diff(_A, "old", "new"), diff(_B, None, "more")]))
    assert [line for line in shown.split("\n") if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-old",
        "+new",
        "+more",
    ]
