"""An agent's request as a person at a terminal is asked about it."""

import pytest

from dragoman.backends.agent.session.actions import permission_call
from dragoman.frontends.terminal.permission_tools import PermissionTool, permission_tools, request_in_words
from dragoman.lm import CancellationToken, ToolCallPart
from dragoman.permissions.action import PERMISSION_TOOLS, Action
from dragoman.permissions.grants import GRANT_PREFIX, Grants, PendingPermission
from dragoman.permissions.keys import approval_key
from dragoman.tools.tool import Invocation
from permissions.actions import WORKSPACE, action, diff

_RUN = action(title="make test", input={"command": "make test"})
_GIT = action(kind="edit", content=[diff(f"{WORKSPACE}/.git/config", "a", "b")])
_BARE = action(title="Bash", kind="execute")


def _asked(grants: Grants, wanted: Action) -> tuple[PermissionTool, Invocation]:
    nonce = grants.open(PendingPermission("dg_1", wanted, "c"))
    call = permission_call(wanted, "dg_1", nonce)
    [tool] = [each for each in permission_tools(grants) if each.declaration.name == call.name]
    return tool, Invocation(call.input)


async def test_the_question_and_the_key_are_made_from_the_action() -> None:
    tool, invocation = _asked(Grants(), _RUN)
    prepared = await tool.prepare_invocation(invocation, CancellationToken())
    assert prepared.confirmation is not None
    assert prepared.confirmation.title == "Claude Code wants to run a command"
    assert prepared.confirmation.message.startswith("Command:\n```sh\nmake test\n```")
    assert prepared.confirmation.summary == "Claude Code wants to run: make test"
    assert prepared.invocation_message == "Claude Code may run: make test"
    assert prepared.approval_key == approval_key(_RUN)
    assert prepared.covers == f"exactly this request of Claude Code: run make test, in {WORKSPACE}"
    assert not prepared.always_ask


@pytest.mark.parametrize("wanted", [_GIT, _BARE])
async def test_what_is_sensitive_or_unknown_is_permission_requested_every_time(wanted: Action) -> None:
    tool, invocation = _asked(Grants(), wanted)
    prepared = await tool.prepare_invocation(invocation, CancellationToken())
    assert prepared.always_ask
    assert prepared.covers is None


async def test_a_tool_of_another_class_neither_asks_nor_grants() -> None:
    grants = Grants()
    tool, invocation = _asked(grants, _GIT)
    other = PermissionTool("edit", grants)
    prepared = await other.prepare_invocation(invocation, CancellationToken())
    assert prepared.confirmation is not None
    assert prepared.confirmation.title == "No longer open"
    assert (await other.invoke(invocation, CancellationToken())).is_error
    granted = await tool.invoke(invocation, CancellationToken())
    assert GRANT_PREFIX in str(granted.content)


@pytest.mark.parametrize("tool_class", PERMISSION_TOOLS)
def test_a_request_that_was_not_prepared_has_words_too(tool_class: str) -> None:
    assert request_in_words(ToolCallPart("dg_1", f"dragoman-agent-action-{tool_class}", {})).startswith(
        "Agent wants to "
    )
