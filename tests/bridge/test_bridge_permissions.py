"""P: the agent asks, a person decides, and nothing else allows anything."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.consumer import TOOLS, Bridge, result
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.profile.traits import Traits, traits_of
from dragoman.lm import user
from dragoman.permissions.decide import PermissionSetting
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_BOTH = ["allow_once", "reject_once"]
_ANNOUNCED = (("announced.rawInput.server", "{server}"), ("announced.rawInput.tool", "{tool}"))
_LIKE_COPILOT = Traits(recognised_by=((*_ANNOUNCED, ("title", "{tool}"), ("kind", "other")),))


def _ask(name: str = "p", kinds: list[str] = _BOTH, **call: object) -> list[object]:
    return ["ask", {"toolCallId": name, "title": "Run it", "kind": "execute", **call}, kinds]


async def test_p5_an_agent_that_offers_only_always_is_refused_with_a_notice(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(_ask(kinds=["allow_always", "reject_once"]), ["say", "well"])
    answer = await chat.give(bridge.approve(asked.calls[0]))
    assert "<p: the-reject_once>" in answer.text
    assert "only to be allowed always" in answer.text


async def test_p5_with_nothing_to_refuse_by_either_the_request_is_cancelled(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(_ask(kinds=["allow_always"]))
    answer = await chat.give(bridge.approve(asked.calls[0]))
    assert "<p: cancelled>" in answer.text


async def test_p7_a_tool_of_the_consumers_is_permission_requested_by_the_consumer_only(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    own = _ask("c1", rawInput={"server": "{server}", "tool": "look"})
    asked = await chat.do(["announce", "c1", "look"], own, ["call", "look", {"n": 1}])
    # What the consumer is handed is the call itself, with the agent allowed to make it.
    assert [call.name for call in asked.calls] == ["look"]
    assert asked.text == "<c1: the-allow_once>"
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert answer.text == "<look returned: seen>"


async def test_p7_what_was_announced_as_the_consumers_need_not_be_said_again(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(
        ["announce", "c1", "look"], ["ask", {"toolCallId": "c1"}, _BOTH], ["call", "look", {"n": 1}]
    )
    assert [call.name for call in asked.calls] == ["look"]
    assert "allow_once" in asked.text


async def test_p7_a_request_that_names_the_tool_only_is_taken_with_what_announced_it(bridge: Bridge) -> None:
    """Copilot's way."""
    chat = bridge.chat(traits=_LIKE_COPILOT)
    own: dict[str, Any] = {"title": "look", "kind": "other", "rawInput": {"n": 1}}
    asked = await chat.do(["announce", "c1", "look"], _ask("c1", **own), ["call", "look", {"n": 1}])
    assert [call.name for call in asked.calls] == ["look"]
    # Without the announcement it is anybody's.
    await chat.give(result(asked.calls[0], "seen"))
    again = await chat.do(_ask("c2", **own))
    assert [call.name for call in again.calls] == ["dragoman-agent-action-other"]


@pytest.mark.parametrize("traits", ["demo", "copilot"])
@pytest.mark.parametrize(
    "said", [{"title": "look", "rawInput": {"command": "rm -rf ~"}}, {"rawInput": {"command": "ls"}}, {}]
)
async def test_p23_a_command_that_was_announced_as_a_tool_of_the_consumers_is_permission_requested(
    bridge: Bridge, traits: str, said: dict[str, Any]
) -> None:
    chat = bridge.chat(traits=_LIKE_COPILOT if traits == "copilot" else None)
    asked = await chat.do(["announce", "c1", "look"], _ask("c1", **said), ["say", "on"])
    [call] = asked.calls
    assert call.name == "dragoman-agent-action-execute"
    answer = await chat.give(result(call, "no"))
    assert "<c1: the-reject_once>" in answer.text
    assert answer.text.endswith("on")


async def test_p23_an_action_under_the_name_of_an_offered_tool_is_found_out(bridge: Bridge) -> None:
    chat = bridge.chat()
    own = _ask("c1", rawInput={"server": "{server}", "tool": "look"})
    answer = await chat.do(own, ["say", " ran it"])
    assert "did not call it here" in answer.text
    # Recognition is over for this conversation, whatever the agent says, and whichever process it is.
    again = await chat.do(own, ["exit", 1])
    assert [call.name for call in again.calls] == ["dragoman-agent-action-execute"]
    await chat.give(result(again.calls[0], "no"))
    once_more = await chat.do(own)
    assert [call.name for call in once_more.calls] == ["dragoman-agent-action-execute"]


async def test_p7_an_agent_that_comes_back_to_wait_is_not_permission_requested_and_not_accused(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(traits=replace(traits_of("demo"), tool_limit_seconds=0.4))
    wait = _ask("c2", rawInput={"server": "{server}", "tool": "wait_for_result"})
    asked = await chat.do(
        ["call", "look", {}],
        ["announce", "c2", "wait_for_result"],
        wait,
        ["call", "wait_for_result", {"ticket": 1}],
    )
    await bridge.until_noted("outcome")
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert not answer.calls
    assert "<c2: the-allow_once>" in answer.text
    assert "<wait_for_result returned: seen>" in answer.text
    assert "did not call it here" not in answer.text
    # One that only says so is found out like any other.
    assert "did not call it here" in (await chat.do(wait)).text


async def test_p23_a_turn_that_the_user_stops_in_between_accuses_nobody(bridge: Bridge) -> None:
    chat = bridge.chat()
    own = _ask("c1", rawInput={"server": "{server}", "tool": "look"})
    going = chat.begin(user(prompt(own, ["hang"])))
    await going.until(lambda heard: "allow_once" in heard.text)
    await going.cancel()
    answer = await chat.do(own, ["call", "look", {}])
    assert [call.name for call in answer.calls] == ["look"]
    assert "did not call" not in answer.text


async def test_p6_without_a_permission_tool_the_policy_decides_and_is_told(bridge: Bridge) -> None:
    chat = bridge.chat(tools=TOOLS)
    answer = await chat.do(_ask(), ["say", "on"])
    assert "<p: the-reject_once>" in answer.text
    assert 'permission = "deny"' in answer.text
    assert answer.text.endswith("on")


async def test_p2_an_agent_that_ends_its_turn_after_a_refusal_without_a_word_is_explained(
    bridge: Bridge,
) -> None:
    """As opencode does."""
    chat = bridge.chat()
    ended = {"sessionUpdate": "tool_call_update", "toolCallId": "p", "title": "Run it", "status": "failed"}
    asked = await chat.do([*_ask(), "quiet"], ["update", ended])
    answer = await chat.give(result(asked.calls[0], "no"))
    assert answer.text.strip() == "*The agent ended its turn after the refusal.*"
    # Neither one that says something, nor one that was allowed to, nor the next turn.
    asked = await chat.do([*_ask(), "quiet"], ["say", "as you like"])
    assert (await chat.give(result(asked.calls[0], "no"))).text == "as you like"
    asked = await chat.do([*_ask(), "quiet"])
    assert "refusal" not in (await chat.give(bridge.approve(asked.calls[0]))).text
    asked = await chat.do([*_ask(), "quiet"])
    await chat.echo()
    assert "refusal" not in (await chat.do(["think", "hm"])).text


async def test_p22_silence_until_the_deadline_ends_the_turn_as_timed_out(bridge: Bridge) -> None:
    chat = bridge.chat(timing=Timing(human=0.2, gather=0.05))
    asked = await chat.do(["all", [["call", "look", {}], _ask()]])
    assert len(asked.calls) == 2
    await bridge.until_idle()
    assert len(bridge.noted("session/cancel")) == 1
    # ACP's order: the cancel, then `cancelled` for what was open. Nobody was refused.
    assert bridge.noted("outcome") in ([], [{"outcome": "cancelled"}])
    permission = next(call for call in asked.calls if call.name.startswith("dragoman-"))
    assert "no longer open" in bridge.approve(permission).text
    await chat.echo()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_p24_a_request_that_the_agent_withdraws_cannot_be_granted(bridge: Bridge, when: str) -> None:
    chat = bridge.chat()
    asked = await chat.do(["until", "enough", _ask()], ["say", "never mind"])
    [call] = asked.calls
    early = bridge.approve(call) if when == "before" else None
    bridge.open_gate("enough")
    await bridge.until_idle()
    late = bridge.approve(call)
    assert "no longer open" in late.text
    answer = await chat.give(early or late)
    assert "never mind" in answer.text
    assert "allow_once" not in answer.text
    await chat.echo()


_SKIP = "The user chose to skip the tool call, they want to proceed without running it"
_DISABLED = (
    "ERROR while calling tool: Tool {} is currently disabled by the user, and cannot be called.\n"
    "Please check your input and try again."
)


async def test_p2_p3_i2_what_says_that_nothing_ran_is_an_error_and_nobody_refused_what_nobody_was_asked(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    everything: list[object] = ["all", [["call", "look", {}], ["call", "count", {}], _ask("p"), _ask("q")]]
    calls = (await chat.do(everything)).calls
    by_name = {call.name: call for call in calls}
    first, second = (call for call in calls if call.name == "dragoman-agent-action-execute")
    answer = await chat.give(
        result(by_name["look"], _SKIP),
        result(by_name["count"], f"grep: {_SKIP}"),
        result(first, _DISABLED.format(first.name)),
        result(second, _SKIP),
    )
    told = {str(note["tool"]): (note["text"], note["isError"]) for note in bridge.noted("result")}
    assert told == {"look": (_SKIP, True), "count": (f"grep: {_SKIP}", False)}
    why = "Tool dragoman-agent-action-execute is currently disabled by the user, and cannot be called."
    # To the agent it is a refusal either way; why is said, to the user too.
    assert answer.text.count("You were not asked, so it was refused.") == 1
    assert why in answer.text.replace("\\", "")
    refused = {"outcome": "selected", "optionId": "the-reject_once"}
    assert bridge.noted("outcome") == [refused, refused]
    assert bridge.noted("remark") == [
        {"dragoman": {"reason": f"The user was not asked. ERROR while calling tool: {why}", "unasked": True}}
    ]
    assert await chat.echo() == ["still there?"]


# Approvals and settings: decided before the consumer gets a call.


@pytest.mark.parametrize("permission", ["deny", "allow-reads", "allow"])
async def test_d5_a_sensitive_action_that_nobody_can_be_permission_requested_is_refused(
    bridge: Bridge, permission: PermissionSetting
) -> None:
    chat = bridge.chat(tools=TOOLS, permission=permission)
    answer = await chat.do(_ask(kind="execute", rawInput={"command": "cat .env"}), ["say", "on"])
    assert "<p: the-reject_once>" in answer.text
    assert "You were not asked, so it was refused" in answer.text
    assert (
        "dragoman\\-agent\\-action\\-sensitive" in answer.text
        or "dragoman-agent-action-sensitive" in answer.text
    )
    # The agent hears why, and not that a person refused it.
    [remark] = bridge.noted("remark")
    assert "The user was not asked" in str(remark)
    assert (await chat.do(_ask(kind="execute", rawInput={"command": "ls"}))).text.count("allow_once") == (
        permission == "allow"
    )


async def test_d4_a_standing_approval_counts_in_every_front_end_and_is_told(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(_ask(rawInput={"command": "make"}))
    assert len(asked.calls) == 1
    await chat.give(result(asked.calls[0], "no"))
    [recorded] = bridge.permissions.record.newest_first()
    assert (recorded.allowed, recorded.by) == (False, "person")
    bridge.permissions.record.allow(recorded.id, "session", bridge.permissions.approvals)
    answer = await chat.do(_ask(rawInput={"command": "make"}))
    assert answer.calls == ()
    assert "<p: the-allow_once>" in answer.text
    newest = bridge.permissions.record.newest_first()[0]
    assert (newest.allowed, newest.by) == (True, "approval")
    # Another conversation is another session.
    other = await bridge.chat().do(_ask(rawInput={"command": "make"}))
    assert len(other.calls) == 1


async def test_what_the_end_of_a_turn_decided_is_recorded_as_that(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.do(_ask(rawInput={"command": "make"}))
    await chat.echo()
    assert [(each.allowed, each.by) for each in bridge.permissions.record.newest_first()] == [(False, "end")]
