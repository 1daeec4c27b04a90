"""An agent's request as a person at a terminal is asked about it: its words, and what an approval would cover."""

import pytest

from dragoman.backends.agent.grants import Grants, PendingPermission
from dragoman.backends.agent.permission import PERMISSION_TOOLS, Action, permission_call
from dragoman.backends.agent.permission_tools import PermissionTool, approval_key, wish
from dragoman.lm import CancellationToken
from dragoman.tools.tool import Invocation, PreparedInvocation

_RUN = Action(
    "execute", "execute", "make test", "make test", ("/w",), raw={"command": "make test", "cwd": "/w"}
)
_WRITE = Action("edit", "edit", "Write a.txt", paths=("/w/a.txt",))
_HIDDEN = Action("execute", "execute", "Tidy up", None, ("/w",), raw={"what": "rm -rf .", "cwd": "/w"})


async def _prepared(action: Action) -> PreparedInvocation:
    grants = Grants()
    nonce = grants.open(PendingPermission("dg_1", action, "c"))
    call = permission_call(action, "dg_1", nonce)
    tool = PermissionTool(action.risk, grants)
    return await tool.prepare_invocation(Invocation(call.input), CancellationToken())


@pytest.mark.parametrize(
    ("action", "title", "covers"),
    [
        (_RUN, "Agent wants to run a command", "this very command"),
        (_WRITE, "Agent wants to change files: Write a.txt", "any change to /w/a.txt"),
        (_HIDDEN, "Agent wants to run: Tidy up", "exactly this"),
        (Action("read", "read", "Read", paths=("/w/a",)), "Agent wants to read: Read", "reading /w/a"),
        (
            Action("delete", "delete", "Clean", paths=("/w/c", "/w/b", "/w/a")),
            "Agent wants to delete or move files: Clean",
            "deleting or moving /w/a, /w/b and 1 more",
        ),
        (
            Action("fetch", "fetch", "Look", urls=("https://a.example/",)),
            "Agent wants to fetch from the network: Look",
            "fetching https://a.example/",
        ),
        (Action("other", "other", "Dance", paths=("/w",)), "Agent wants to do this: Dance", "exactly this"),
    ],
)
async def test_a_question_says_what_it_is_about_and_what_a_yes_would_cover(
    action: Action, title: str, covers: str
) -> None:
    prepared = await _prepared(action)
    assert prepared.confirmation is not None
    assert prepared.confirmation.title == title
    assert prepared.covers == covers


async def test_the_command_is_shown_whatever_the_agent_calls_it() -> None:
    honest = await _prepared(_RUN)
    assert honest.confirmation is not None
    assert honest.confirmation.message.startswith("```sh\nmake test\n```")
    deceptive = await _prepared(Action("execute", "read", "Read a file", "rm -rf .", ("/w",)))
    assert deceptive.confirmation is not None
    assert deceptive.confirmation.title == "Agent wants to run a command"
    assert deceptive.confirmation.message.startswith("Read a file\n\n```sh\nrm -rf .\n```")


def test_an_approval_of_what_is_not_known_covers_nothing_else() -> None:
    other = Action("execute", "execute", "Tidy up", None, ("/w",), raw={"what": "rm -rf ..", "cwd": "/w"})
    assert approval_key(_HIDDEN) != approval_key(other)
    assert approval_key(_WRITE) == approval_key(Action("edit", "edit", "Another title", paths=("/w/a.txt",)))


@pytest.mark.parametrize("risk", PERMISSION_TOOLS)
def test_a_request_that_nobody_is_asked_about_has_words_too(risk: str) -> None:
    [action] = [each for each in (_RUN, _WRITE) if each.risk == risk] or [Action("other", "other", "Dance")]
    said = wish(permission_call(action, "dg_1", "nonce"))
    assert said.startswith("Agent wants to ")
    assert said.endswith(f": {action.title}")
