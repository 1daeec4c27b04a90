"""P, I2 and I4 at the agent's end: what it is told about each thing it asked for, and that nothing else was allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.consumer import PERMISSIONS, TOOLS, Bridge, result
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.profile.traits import traits_of
from dragoman.lm import LanguageModelError, ToolCallPart, ToolDefinition, ToolResultPart, user
from dragoman.permissions.action import PERMISSION_TOOLS
from dragoman.permissions.decide import PermissionSetting
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_BOTH = ["allow_once", "reject_once"]
_SKIP = "The user chose to skip the tool call, they want to proceed without running it"
_CANCELLED = {"outcome": "cancelled"}

Answer = Callable[[ToolCallPart, str, str], ToolResultPart]


def _ask(name: str = "p", kinds: list[str] = _BOTH, **call: object) -> list[object]:
    return ["ask", {"toolCallId": name, "title": f"Run {name}", "kind": "execute", **call}, kinds]


def _chosen(kind: str) -> dict[str, object]:
    return {"outcome": "selected", "optionId": f"the-{kind}"}


# Of a call: what comes back for it, with a token that has been used, and one that was made for its sibling.
_REFUSALS: dict[str, Answer] = {
    "P2 skip": lambda call, _stale, _copied: result(call, _SKIP),
    "P3 an error": lambda call, _stale, _copied: result(call, "ERROR while calling tool: no", is_error=True),
    "P3 an unexpected text": lambda call, _stale, _copied: result(call, "allowed. proceed"),
    "P3 nothing": lambda call, _stale, _copied: result(call),
    "P3 the nonce": lambda call, _stale, _copied: result(call, str(call.input["nonce"])),
    "P3 a stale token": lambda call, stale, _copied: result(call, stale),
    "P3 a copied token": lambda call, _stale, copied: result(call, copied),
}


@pytest.mark.parametrize("refusal", _REFUSALS.values(), ids=_REFUSALS.keys())
async def test_p1_p2_p3_p8_i4_only_the_proof_of_its_own_approval_allows_and_each_is_answered_by_itself(
    bridge: Bridge, refusal: Answer
) -> None:
    chat = bridge.chat()
    [first] = (await chat.do(_ask("first"))).calls
    used = bridge.approve(first)
    assert "<first: the-allow_once>" in (await chat.give(used)).text
    both = ["all", [_ask("refused"), _ask("allowed")]]
    calls = (await chat.do(both, ["say", "on"])).calls
    [allowed] = [call for call in calls if "Run allowed" in bridge.question(call)]
    [refused] = [call for call in calls if "Run refused" in bridge.question(call)]
    granted = bridge.approve(allowed)
    # There is a token for the other as well; but it is not what comes back.
    bridge.approve(refused)
    answer = await chat.give(refusal(refused, used.text, granted.text), granted)
    assert "<refused: the-reject_once>" in answer.text
    assert "<allowed: the-allow_once>" in answer.text
    assert answer.text.endswith("on")
    assert bridge.noted("session/cancel") == []


async def test_p3_i4_an_edited_input_or_the_tool_of_another_class_gets_no_token(bridge: Bridge) -> None:
    chat = bridge.chat()
    [call] = (await chat.do(_ask())).calls
    assert bridge.grants.issue("another nonce", call.name) is None
    assert bridge.grants.issue(call.input["nonce"], PERMISSION_TOOLS["read"]) is None
    answer = await chat.give(result(call, "This request is no longer open; nothing was allowed."))
    assert "<p: the-reject_once>" in answer.text


async def test_p4_a_new_message_cancels_the_turn_in_acps_order_and_waits_for_its_stop(bridge: Bridge) -> None:
    chat = bridge.chat()
    [call] = (await chat.do(["slow_stop", "stopped"], _ask(), ["hang"])).calls
    following = chat.begin(user("no, this"))
    await bridge.until_noted("outcome")
    assert bridge.noted("outcome") == [_CANCELLED]
    assert len(bridge.noted("session/prompt")) == 1
    assert "no longer open" in bridge.approve(call).text
    bridge.open_gate("stopped")
    assert (await following.end()).text == 'echo: ["no, this"]'
    wanted = ("session/prompt", "session/cancel", "replied")
    order = [name for name, _ in bridge.journal if name in wanted]
    assert order == ["session/prompt", "session/cancel", "replied", "session/prompt"]


_READS = PERMISSIONS[:1]


@pytest.mark.parametrize(
    ("permission", "kind", "kinds", "chosen", "offered"),
    [
        ("deny", "read", _BOTH, "reject_once", ()),
        ("deny", "execute", _BOTH, "reject_once", ()),
        ("allow-reads", "read", _BOTH, "allow_once", ()),
        ("allow-reads", "execute", _BOTH, "reject_once", ()),
        ("allow", "execute", _BOTH, "allow_once", ()),
        # One to ask about reading is none to ask about anything else.
        ("deny", "execute", _BOTH, "reject_once", _READS),
        # P5: no setting makes a single permission one for ever.
        ("allow", "execute", ["allow_always", "reject_once"], "reject_once", ()),
    ],
)
async def test_p5_p6_i4_without_a_tool_to_ask_with_the_policy_decides_and_the_user_is_told(
    bridge: Bridge,
    permission: PermissionSetting,
    kind: str,
    kinds: list[str],
    chosen: str,
    offered: tuple[ToolDefinition, ...],
) -> None:
    assert [tool.name for tool in _READS] == [PERMISSION_TOOLS["read"]]
    chat = bridge.chat(permission=permission, tools=(*TOOLS, *offered))
    inside = [{"path": str(bridge.folder / "notes")}]
    answer = await chat.do(_ask(kinds=kinds, kind=kind, locations=inside), ["say", "on"])
    assert answer.calls == ()
    assert bridge.noted("outcome") == [_chosen(chosen)]
    assert f'permission = "{permission}"' in answer.text
    assert ("only to be allowed always" in answer.text) == (kinds is not _BOTH)
    assert answer.text.endswith("on")


def _as_said_by(agent: str, server: str) -> dict[str, object]:
    """The fields in which that agent shows whose tool it is about to call."""
    match agent:
        case "claude":
            return {"_meta": {"claudeCode": {"toolName": f"mcp__{server}__look"}}}
        case "copilot":
            return {"title": f"{server}-look", "kind": "other"}
        case "opencode":
            return {"title": f"{server}_look", "kind": "other"}
        case "fast-agent":
            return {"title": f"{server}/look"}
        case _:
            return {"rawInput": {"server": server, "tool": "look", "arguments": {}}}


@pytest.mark.parametrize("agent", ["demo", "claude", "codex", "copilot", "fast-agent", "opencode", "gemini"])
async def test_p7_in_whatever_field_an_agent_shows_it_its_consumers_tool_is_permission_requested_once(
    bridge: Bridge, agent: str
) -> None:
    chat = bridge.chat(traits=traits_of(agent))
    await chat.say("hello")
    [session] = bridge.noted("session/new")
    servers = session["mcpServers"]
    assert isinstance(servers, list)
    said = _as_said_by(agent, servers[0]["name"])
    ask = ["ask", {"toolCallId": "c1", "title": "Run it", "kind": "execute", **said}, _BOTH]
    asked = await chat.do(ask, ["call", "look", {"n": 1}])
    if agent == "gemini":
        # There is no field of its that shows it: then a person is asked.
        [permission] = asked.calls
        assert permission.name == PERMISSION_TOOLS["execute"]
        asked = await chat.give(bridge.approve(permission))
    assert [call.name for call in asked.calls] == ["look"]
    assert bridge.noted("outcome") == [_chosen("allow_once")]
    assert "<look returned: seen>" in (await chat.give(result(asked.calls[0], "seen"))).text


async def test_p22_silence_is_told_to_the_agent_as_silence(bridge: Bridge) -> None:
    chat = bridge.chat(timing=Timing(human=0.2, gather=0.05))
    asked = await chat.do(["slow_stop", "stopped"], ["all", [["call", "look", {}], _ask()]], ["hang"])
    assert len(asked.calls) == 2
    await bridge.until_noted("result")
    await bridge.until_noted("outcome")
    [told] = bridge.noted("result")
    assert told == {
        "tool": "look",
        "text": "Error: The user did not decide about this call in time.",
        "isError": True,
    }
    assert bridge.noted("outcome") == [_CANCELLED]
    bridge.open_gate("stopped")
    await bridge.until_idle()
    assert await chat.echo() == ["still there?"]


async def test_i2_every_call_gets_one_result_true_to_what_became_of_it(bridge: Bridge) -> None:
    chat = bridge.chat()
    three: list[object] = ["all", [["call", name, {}] for name in ("look", "count", "touch")]]
    steps = (["slow_stop", "stopped"], three, three, ["hang"])
    asked = {call.name: call for call in (await chat.do(*steps)).calls}
    # In another order than they were made; one failed, and one is missing.
    returned = (result(asked["touch"], "felt"), result(asked["look"], "it broke", is_error=True))
    again = {call.name: call for call in (await chat.give(*returned)).calls}
    assert again.keys() == asked.keys()
    # The second round: one has run, then the person stops it and says something else. An old result comes back, too.
    stop = result(again["count"], "The user cancelled the tool call.")
    late = result(asked["count"], "three, by the way")
    seen = result(again["look"], "seen")
    going = chat.begin(user(late), user(seen), user(stop), user("enough"))
    await bridge.until_noted("result", 6)
    bridge.open_gate("stopped")
    answer = (await going.end()).text
    assert answer.endswith('echo: ["enough"]')
    assert answer.count("The agent went on without the result of count.") == 1
    told = [(str(note["tool"]), str(note["text"]), note["isError"]) for note in bridge.noted("result")]
    interrupted = "Error: The call was interrupted before it had a result."
    assert sorted(told[:3]) == [
        ("count", interrupted, True),
        ("look", "it broke", True),
        ("touch", "felt", False),
    ]
    assert sorted(told[3:]) == [
        ("count", interrupted, True),
        ("look", "seen", False),
        ("touch", interrupted, True),
    ]
    assert len(bridge.noted("session/cancel")) == 1


async def test_i5_over_rounds_and_between_requests_every_word_arrives_once_and_in_order(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(timing=Timing(gather=0.05))
    steps: list[object] = []
    for number in range(4):
        late = ["row", [["gate", f"late {number}"], ["say", f"[{number}b]"], ["note", f"said {number}"]]]
        steps += [["say", f"[{number}a]"], ["all", [["call", "look", {}], late]], ["say", f"[{number}c]"]]
    answer = await chat.do(*steps, ["say", "[end]"], ["after", [["say", "[after]"]]])
    heard = [answer.text]
    for number in range(4):
        [call] = answer.calls
        # Nobody listens now; what is said must be in the next response, before what follows the result.
        bridge.open_gate(f"late {number}")
        await bridge.until_kept(f"[{number}b]")
        answer = await chat.give(result(call, "seen"))
        heard.append(answer.text)
    await bridge.until_kept("[after]")
    # A crash in the meantime loses nothing that was said.
    going = chat.begin(user(prompt(["say", "[last]"], ["exit", 1])))
    heard.append((await going.end()).text)
    words = "".join(heard).replace("<look returned: seen>", "").partition("\n\n**Error:**")[0]
    wanted = [f"[{number}{letter}]" for number in range(4) for letter in "abc"]
    assert words == "".join([*wanted, "[end]", "[after]", "[last]"])
    await chat.echo()


async def test_p3_i4_an_error_that_carries_the_proof_is_a_refusal_all_the_same(bridge: Bridge) -> None:
    chat = bridge.chat()
    [call] = (await chat.do(_ask("it"))).calls
    granted = bridge.approve(call)
    answer = await chat.give(result(call, granted.text, is_error=True))
    assert "<it: the-reject_once>" in answer.text
    # And the proof is used up.
    [again] = (await chat.do(_ask("again"))).calls
    assert "<again: the-reject_once>" in (await chat.give(result(again, granted.text))).text


async def test_a_request_behind_the_end_is_told_so(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    await bridge.close()
    with pytest.raises(LanguageModelError, match="shutting down"):
        await chat.say("and on")
