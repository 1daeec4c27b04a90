"""The class of risk of a request, what a person sees of it, and the response to the agent."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agent.recorded import PERMISSIONS, UPDATES, Recorded
from dragoman.acp.messages import (
    Location,
    Option,
    PermissionRequest,
    ToolActivity,
    decode_permission,
    decode_update,
)
from dragoman.backends.agent.reply.narrator import Narrator
from dragoman.backends.agent.session.actions import OptionChoice, action_of, choose, permission_call
from dragoman.permissions.action import PERMISSION_TOOLS, Action, RiskClass, is_permission_tool
from dragoman.permissions.keys import approval_key
from dragoman.permissions.sensitive import Places

WORKSPACE = ("/project", "/more/project")
INSIDE = {"file_path": "/project/a.py"}


def classify(activity: ToolActivity, workspace: tuple[str, ...]) -> Action:
    return action_of(activity, "fake", "Fake Agent", Places(workspace))


def risk(kind: str | None, raw: object = None, *locations: str, diff: str | None = None) -> RiskClass:
    content = ({"type": "diff", "path": diff, "newText": "x"},) if diff else None
    activity = ToolActivity(
        "t", "Do it", kind=kind, content=content, locations=tuple(map(Location, locations)), raw_input=raw
    )
    return classify(activity, WORKSPACE).risk


# What it would do.


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("execute", "execute"),
        ("edit", "edit"),
        ("delete", "delete"),
        ("move", "delete"),
        ("fetch", "fetch"),
        ("think", "other"),
        ("switch_mode", "other"),
        ("other", "other"),
        ("invented", "other"),
        (None, "other"),
    ],
)
def test_p26_kinds_are_classes_as_far_as_they_are_believed(kind: str | None, wanted: str) -> None:
    assert risk(kind, None, "/project/a.py") == wanted


@pytest.mark.parametrize("kind", ["read", "search"])
@pytest.mark.parametrize(
    ("raw", "locations"),
    [
        (None, ["/project/a.py"]),
        (None, ["/project", "/more/project/deep/down"]),
        ({"file_path": "/project/a.py", "offset": 1, "limit": 20}, []),
        ({"filePath": "/project/a.py"}, ["/project/a.py"]),
        ({"absolute_path": "/project/./b/../a.py"}, []),
        (
            {
                "pattern": "TODO|FIXME",
                "path": "/project",
                "glob": "*.py",
                "output_mode": "content",
                "-n": True,
            },
            [],
        ),
        ({"paths": ["/project/a", "/project/b"]}, []),
        ({"path": "/project/a", "view_range": [1, 10]}, []),
    ],
)
def test_p26_reading_inside_the_workspace_is_reading(kind: str, raw: object, locations: list[str]) -> None:
    assert risk(kind, raw, *locations) == "read"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/project/../etc/passwd",
        "/project/a/../../etc/passwd",
        "/projector/a",
        "/more/a",
        "a.py",
        "./a.py",
        "../a.py",
        "~/.ssh/id_rsa",
        "",
        "/",
        "//project/a",
        "C:\\work\\a",
        "file:///project/a",
    ],
)
def test_p26_a_path_outside_the_workspace_is_not_reading(path: str) -> None:
    assert risk("read", None, path) == "other"
    assert risk("read", None, "/project/a.py", path) == "other"
    if path:
        assert risk("read", {"path": path}, "/project/a.py") == "other"
        assert risk("read", {"paths": ["/project/a.py", path]}) == "other"
        assert risk("read", {"deep": {"file": [[path]]}}, "/project/a.py") == "other"
    assert classify(ToolActivity("t", kind="read", locations=(Location("/project"),)), ()).risk == "other"


def test_p26_everything_is_inside_a_workspace_that_is_everything() -> None:
    activity = ToolActivity("t", kind="read", locations=(Location("/etc/passwd"),))
    assert classify(activity, ("/",)).risk == "read"
    assert classify(activity, ("/etc/",)).risk == "read"


def test_p26_paths_are_judged_by_their_words(tmp_path: Path) -> None:
    """A link inside that leads outside counts as inside: nothing here looks at the disk."""
    (tmp_path / "link").symlink_to("/etc")
    activity = ToolActivity("t", kind="read", locations=(Location(str(tmp_path / "link/passwd")),))
    assert classify(activity, (str(tmp_path),)).risk == "read"


@pytest.mark.parametrize(
    "raw",
    [
        {"command": "rm -rf /"},
        {"cmd": "rm -rf /"},
        {"command": ["rm", "-rf", "/"]},
        {"command": ["rm", {"flag": "-rf"}]},
        {"command": {"program": "rm"}},
        {"Command": "rm"},
        {"shellCommand": "rm"},
        {"shell_command": "rm"},
        {"command-line": "rm"},
        {"argv": ["rm"]},
        {"script": "rm"},
        {"bash": "rm"},
        {"commands": ["rm"]},
        {"input": {"command": "rm"}},
        {"arguments": [{"deep": [{"cmd": "rm"}]}]},
        {"path": {"command": "rm"}},
        {"command": 7},
    ],
)
@pytest.mark.parametrize("kind", ["read", "search", "edit", "delete", "fetch", "think", None])
def test_p26_a_command_is_execution_whatever_it_is_called(kind: str | None, raw: dict[str, object]) -> None:
    assert risk(kind, {**INSIDE, **raw}, "/project/a.py", diff="/project/a.py") == "execute"


@pytest.mark.parametrize(
    "raw",
    [
        {"code": "import os"},
        {"what": "rm -rf /"},
        {"c\u043emmand": "rm"},
        {"command": " "},
        {"args": ["rm"]},
        {"steps": [["rm"]]},
        {"stdin": "rm"},
        {"pattern": "/etc/**"},
        {"pattern": "../**"},
        {"glob": "{a,../../b}"},
        {"glob": "{a,/etc/*}"},
        {"pattern": "~/*"},
        {"query": "x", "include": ".."},
    ],
)
def test_p26_reading_with_anything_else_in_it_is_not_reading(raw: dict[str, object]) -> None:
    assert risk("read", {**INSIDE, **raw}, "/project/a.py") == "other"


@pytest.mark.parametrize("raw", ["rm -rf /", ["rm", "-rf"], 7, True])
def test_p26_an_input_that_is_no_object_is_not_reading(raw: object) -> None:
    assert risk("read", raw, "/project/a.py") == "other"


def test_p26_reading_without_a_path_is_not_reading() -> None:
    assert risk("read") == "other"
    assert risk("search", {"query": "everything"}) == "other"


@pytest.mark.parametrize("kind", ["read", "search", "fetch", "think", "edit", None])
def test_a_diff_is_an_edit(kind: str | None) -> None:
    assert risk(kind, None, diff="/project/a.py") == "edit"
    assert risk("delete", None, diff="/project/a.py") == "delete"


def test_an_address_is_fetched_if_it_is_of_the_web() -> None:
    assert risk("fetch", {"url": "https://e.test"}) == "fetch"
    assert risk("read", {"url": "HTTP://e.test", "prompt": "what is new?"}) == "fetch"
    # With anything beside the address that may be sent or written, it is more than fetching.
    for more in (INSIDE, {"method": "POST"}, {"body": "x"}, {"headers": {"a": "b"}}):
        assert risk("fetch", {"url": "https://e.test", **more}) == "other"
    assert risk("read", {"urls": ["https://e.test", "file:///etc/passwd"]}) == "other"
    assert risk("fetch", {"uri": "file:///etc/passwd"}) == "other"
    assert risk("think", {"url": "https://e.test"}) == "other"


@pytest.mark.parametrize("recorded", PERMISSIONS, ids=lambda recorded: recorded.source)
def test_p26_what_real_agents_ask_for(recorded: Recorded) -> None:
    """Whatever was said of the tool call before counts too."""
    narrator = Narrator(lambda _: False)
    for before in UPDATES:
        if before.source == recorded.source:
            list(narrator.parts(decode_update(before.data).update))
    activity = narrator.known(decode_permission(recorded.data).tool_call)
    action = classify(activity, ("/WS",))
    scenario = recorded.source.partition("-")[2]
    if "bash" in scenario or scenario in ("cancelperm", "parhold"):
        if activity.kind == "execute":
            assert action.risk == "execute"
    elif "write" in scenario:
        assert action.risk == "edit"
    assert action.risk != "read"


def test_an_action_without_a_name_is_called_by_its_kind() -> None:
    assert classify(ToolActivity("t", name="Bash", kind="execute"), ()).title == "Bash"
    assert classify(ToolActivity("t", kind="execute"), ()).title == "execute"
    assert classify(ToolActivity("t"), ()).title == "other"


def test_a_terminal_with_the_name_of_its_call_is_the_same_each_time() -> None:
    """As Codex asks: nothing else of the request is different when it asks again."""

    def key(call_id: str, terminal: str) -> str:
        content = ({"type": "terminal", "terminalId": terminal},)
        return approval_key(
            classify(ToolActivity(call_id, "Run", content=content, raw_input={"command": "ls"}), WORKSPACE)
        )

    assert key("call_1", "call_1") == key("call_2", "call_2")
    assert key("call_1", "elsewhere") != key("call_2", "call_2")


def test_the_call_has_what_the_interface_says() -> None:
    action = classify(ToolActivity("t", "Run", kind="execute", raw_input={"command": "ls"}), WORKSPACE)
    call = permission_call(action, "dg_1", "nonce")
    assert (call.call_id, call.name) == ("dg_1", "dragoman-agent-action-execute")
    assert call.input == {"nonce": "nonce"}


def test_t23_there_is_a_tool_for_each_class_and_all_are_known_by_name() -> None:
    assert set(PERMISSION_TOOLS) == {"read", "edit", "delete", "execute", "fetch", "other", "sensitive"}
    assert len(set(PERMISSION_TOOLS.values())) == 7
    assert all(map(is_permission_tool, PERMISSION_TOOLS.values()))
    assert not is_permission_tool("look")


# The response to the agent.


def asked(*kinds: str) -> PermissionRequest:
    options = tuple(Option(f"id-{number}", kind) for number, kind in enumerate(kinds))
    return PermissionRequest("s", ToolActivity("t"), options)


@pytest.mark.parametrize("recorded", PERMISSIONS, ids=lambda recorded: recorded.source)
def test_p1_p2_exactly_the_option_that_was_offered(recorded: Recorded) -> None:
    request = decode_permission(recorded.data)
    kinds = {option.option_id: option.kind for option in request.options}
    granted, refused = choose(request, granted=True), choose(request, granted=False)
    assert kinds[granted.option or ""] == "allow_once"
    assert kinds[refused.option or ""] == "reject_once"
    assert (granted.notice, refused.notice) == (None, None)


def test_p1_the_narrowest_is_chosen() -> None:
    everything = asked("allow_always", "allow_once", "reject_always", "reject_once")
    assert choose(everything, granted=True) == OptionChoice("id-1")
    assert choose(everything, granted=False) == OptionChoice("id-3")


@pytest.mark.parametrize(
    "kinds", [("allow_once", "reject_once"), ("reject_once", "allow_once"), ("reject_once", "allow_always")]
)
def test_p5_an_id_that_stands_for_two_kinds_is_sent_for_neither(kinds: tuple[str, str]) -> None:
    options = tuple(Option("same", kind) for kind in kinds)
    request = PermissionRequest("s", ToolActivity("t"), options)
    assert choose(request, granted=False).option is None
    granted = choose(request, granted=True)
    assert granted.option is None
    assert "So it was refused." in (granted.notice or "")
    assert ("one id" in (granted.notice or "")) == ("allow_once" in kinds)
    clear = PermissionRequest("s", ToolActivity("t"), (*options, Option("no", "reject_once")))
    assert choose(clear, granted=False) == OptionChoice("no")


@pytest.mark.parametrize(
    ("kinds", "option"),
    [
        (("allow_always", "reject_once"), "id-1"),
        (("allow_always",), None),
        (("allow_always", "reject_always"), None),
    ],
)
def test_p5_only_always_is_refused_with_a_notice(kinds: tuple[str, ...], option: str | None) -> None:
    choice = choose(asked(*kinds), granted=True)
    assert choice.option == option
    assert choice.notice
    assert "only to be allowed always" in choice.notice
    assert choose(asked(*kinds), granted=False) == OptionChoice(option)


@given(
    st.lists(st.sampled_from(["allow_once", "allow_always", "reject_once", "reject_always", "new"])),
    st.booleans(),
)
def test_p5_nothing_wider_than_what_was_decided_is_ever_chosen(kinds: list[str], granted: bool) -> None:  # noqa: FBT001
    choice = choose(asked(*kinds), granted=granted)
    chosen = kinds[int(choice.option[3:])] if choice.option else None
    assert chosen in (("allow_once", "reject_once", None) if granted else ("reject_once", None))
    assert (chosen == "allow_once") == (granted and "allow_once" in kinds)
