"""An agent that tries to get leave for more than it was given."""

from __future__ import annotations

import pytest

from bridge.consumer import TOOLS, Bridge, result
from dragoman.lm import user
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_KINDS = ["allow_once", "reject_once"]
_COMMAND = {"command": "rm -rf /"}
# As the consumer's own tool would be asked for, by an agent that has something else in mind.
_OWN = {"server": "{server}", "tool": "look"}


def _ask(**raw_input: object) -> list[object]:
    call = {"toolCallId": "c1", "title": "Run it", "kind": "execute", "rawInput": raw_input}
    return ["ask", call, _KINDS]


@pytest.mark.parametrize("offers_permission_tools", [False, True], ids=["by policy", "as our own tool"])
async def test_i4_c10_nothing_is_allowed_or_written_once_the_person_has_stopped_the_turn(
    bridge: Bridge, *, offers_permission_tools: bool
) -> None:
    chat = bridge.chat(permission="allow", fs=True, tools=None if offers_permission_tools else TOOLS)
    asked = _ask(**(_OWN if offers_permission_tools else _COMMAND))
    file = bridge.folder / "written"
    going = chat.begin(
        user(
            prompt(
                ["slow_stop", "stop"],
                ["say", "working"],
                ["gate", "cancelled"],
                asked,
                ["write", str(file), "anything"],
                ["note", "tried"],
            )
        )
    )
    await going.until(lambda heard: "working" in heard.text)
    await going.cancel()
    await bridge.until_noted("session/cancel")
    bridge.open_gate("cancelled")
    await bridge.until_noted("tried")
    assert [outcome["outcome"] for outcome in bridge.noted("outcome")] == ["cancelled"]
    assert not file.exists()
    bridge.open_gate("stop")
    assert await chat.echo()


async def test_p23_one_call_of_our_tool_does_not_cover_a_second_request_in_its_name(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(["all", [_ask(**_OWN), ["row", [_ask(**_OWN), ["call", "look", {}]]]]])
    named = [call.name for call in asked.calls]
    assert "dragoman-agent-action-execute" in named, "the second is asked about"


async def test_p23_an_agent_that_ends_instead_of_calling_is_found_out(bridge: Bridge) -> None:
    chat = bridge.chat()
    ended = await chat.do(_ask(**_OWN), ["exit", 1])
    assert "did not call it here" in ended.text
    await bridge.until_gone()
    again = await chat.do(_ask(**_OWN), ["say", "on"])
    assert [call.name for call in again.calls] == ["dragoman-agent-action-execute"]


async def test_p27_an_approved_diff_covers_no_other_file(bridge: Bridge) -> None:
    shown, other = bridge.folder / "a.txt", bridge.folder / "Makefile"
    shown.write_text("one\n")
    other.write_text("all:\n")
    diff = {"type": "diff", "path": str(shown), "oldText": "one\n", "newText": "two\n"}
    edit = {
        "toolCallId": "e1",
        "title": "Fix a typo",
        "kind": "edit",
        "locations": [{"path": str(other)}],
        "content": [diff],
    }
    chat = bridge.chat(fs=True)
    asked = await chat.do(["ask", edit, _KINDS], ["write", str(other), "all:\n\tanything\n"])
    again = await chat.give(bridge.approve(asked.calls[0]))
    assert [call.name for call in again.calls] == ["dragoman-agent-action-edit"]
    assert other.read_text() == "all:\n"


async def test_i4_what_an_agent_may_ask_for_at_once_is_limited(bridge: Bridge) -> None:
    many = [
        ["ask", {"toolCallId": f"c{number}", "title": f"Run {number}", "kind": "execute"}, _KINDS]
        for number in range(70)
    ]
    chat = bridge.chat()
    asked = await chat.do(["all", many], ["say", "on"])
    assert len(asked.calls) == 64
    assert asked.text.count("too many of its requests wait already") == 6
    outcomes = [str(outcome) for outcome in bridge.noted("outcome")]
    assert len(outcomes) == 6
    assert all("reject_once" in outcome for outcome in outcomes)
    answer = await chat.give(*(result(call, "skipped") for call in asked.calls))
    assert answer.text.endswith("on")
