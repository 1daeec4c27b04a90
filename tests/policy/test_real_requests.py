"""The permission requests of real agents, as they were recorded: rules understand each that says what it would run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dragoman.acp.messages import PermissionRequest
from dragoman.backends.agent.session.actions import action_of
from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from policy.judging import allow, deny, policy

_TRACES = Path(__file__).parents[1] / "traces" / "data"
# The folder that stands for the workspace in the traces.
_PLACES = Places(("/WS",), "/home/user")
_AGENTS = ("claude", "claude20", "codex", "codexzed", "copilot", "fast", "opencode")

RULES = policy(
    allow(command=("echo",), args="any", redirects=("*.txt",)),
    allow(command=("cat",), args="any", paths=("*.txt",)),
    allow(kind="edit", paths=("*.txt",)),
)
COMMAND = "echo fake-ran > out_bash.txt && cat out_bash.txt"


def requests(agent: str) -> Iterator[Action]:
    for trace in sorted(_TRACES.glob(f"{agent}-*.jsonl")):
        for line in trace.read_text("utf-8").splitlines():
            yield from _in(json.loads(line))


def _in(value: object) -> Iterator[Action]:
    match value:
        case {"method": "session/request_permission", "params": dict(params)}:
            request = msgspec.convert(params, PermissionRequest)
            yield action_of(request.tool_call, "agent", "Agent", _PLACES, request)
        case dict():
            for inner in value.values():
                yield from _in(inner)
        case _:
            pass


@pytest.mark.parametrize("agent", _AGENTS)
def test_a_rule_decides_about_the_requests_of_a_real_agent(agent: str) -> None:
    commands = [action for action in requests(agent) if action.command is not None]
    assert any(COMMAND in (action.command or "") for action in commands)
    for action in commands:
        found = RULES.judgement(action, _PLACES)
        assert found.unsure == ()
        if COMMAND in (action.command or ""):
            assert found.verdict.decision == "allow"
            assert policy(deny(command=("cat",), args="any")).judge(action, _PLACES).decision == "deny"
    edits = [action for action in requests(agent) if action.risk == "edit"]
    assert all(RULES.judge(action, _PLACES).decision == "allow" for action in edits)
