"""T: what an agent may call, what the consumer sees of it, and what becomes of its results."""

import logging
import re

import pytest

from bridge.consumer import TOOLS, Bridge, result
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.profile.traits import Traits
from dragoman.lm import (
    JsonObject,
    ToolDefinition,
    user,
)
from dragoman.lm.messages import messages_from

pytestmark = pytest.mark.long

# However busy the machine is, calls made at once come within it.
_PATIENT = Timing(gather=1.0, gather_limit=10.0)
_LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


async def test_t6_t7_results_that_come_late_or_twice_are_logged(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    chat = bridge.chat(timing=_PATIENT)
    both = ["all", [["call", "look", {}], ["call", "count", {}]]]
    calls = {call.name: call for call in (await chat.do(both)).calls}
    look, count = calls["look"], calls["count"]
    with caplog.at_level(logging.INFO, logger="dragoman.backends.agent.model"):
        answer = await chat.give(result(look, "first"), result(look, "second"))
        assert "<look returned: first>" in answer.text
        assert "second" not in answer.text
        assert [look.call_id in record.message for record in caplog.records] == [True]
        caplog.clear()
        # Nobody waits for it any more.
        late = await chat.give(result(count, "late"), also="and now?")
        assert late.text.endswith('echo: ["and now?"]')
        assert "The agent went on without the result of count. It was not passed on." in late.text
        assert [count.call_id in record.message for record in caplog.records] == [True]
        caplog.clear()
        # Both stand in the history from now on, and are no news.
        await chat.echo()
        assert caplog.records == []


async def test_t9_words_with_a_result_are_prompted_once_in_whichever_request_is_open_when_the_turn_ends(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    [look] = (await chat.do(["call", "look", {}], ["call", "count", {}], ["say", "the end. "])).calls
    second = await chat.give(result(look, "seen"), also="and hurry")
    [count] = second.calls
    assert second.text == "<look returned: seen>"
    assert len(bridge.noted("session/prompt")) == 1
    third = await chat.give(result(count, "7"))
    assert third.text == '<count returned: 7>the end. echo: ["and hurry"]'
    assert await chat.echo() == ["still there?"]
    assert len(bridge.noted("session/prompt")) == 3
    assert bridge.noted("session/cancel") == []


@pytest.mark.parametrize("http", [True, False], ids=["http", "stdio"])
async def test_t10_t11_tools_of_every_shape_are_offered_under_legal_names_and_called_under_their_own(
    bridge: Bridge, *, http: bool
) -> None:
    either: JsonObject = {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object"}]}
    tools = (
        ToolDefinition("bare"),
        ToolDefinition("either", "One or the other.", either),
        ToolDefinition("server.dotted.name", "Dots.", {"type": "object"}),
        ToolDefinition("long_" * 18, "Ninety characters.", {"type": "object"}),
        *TOOLS,
    )
    chat = bridge.chat(tools=tools, http=http, timing=_PATIENT)
    await chat.say("hello")
    await bridge.until_noted("listed")
    offered = bridge.noted("listed")[0]["tools"]
    assert isinstance(offered, list)
    assert [name for name in offered if not _LEGAL.fullmatch(str(name))] == []
    assert len(set(offered)) == len(tools)
    assert offered[-3:] == [tool.name for tool in TOOLS]
    arguments = [{}, {"input": {"a": 1}}, {"b": 2}, {"c": 3}]
    steps = [["call", name, given] for name, given in zip(offered, arguments, strict=False)]
    asked = await chat.do(["all", steps])
    assert {call.name: call.input for call in asked.calls} == {
        "bare": {},
        "either": {"a": 1},
        "server.dotted.name": {"b": 2},
        "long_" * 18: {"c": 3},
    }
    answer = await chat.give(*(result(call, f"of {call.name}") for call in asked.calls))
    for name, tool in zip(offered, tools[:4], strict=False):
        assert f"<{name} returned: of {tool.name}>" in answer.text


@pytest.mark.parametrize("http", [True, False], ids=["http", "stdio"])
async def test_t12_a_change_that_comes_with_a_result_is_announced_and_the_agent_can_use_it_in_the_same_turn(
    bridge: Bridge, *, http: bool
) -> None:
    look, _, touch = TOOLS
    chat = bridge.chat(tools=(look,), http=http)
    steps = (["call", "look", {}], ["gate", "one"], ["call", "touch", {}], ["gate", "two"], ["say", "done"])
    [call] = (await chat.do(*steps)).calls
    # Another tool.
    chat.tools = (look, touch)
    going = chat.begin(user(result(call, "seen")))
    await bridge.until_noted("listed", 2)
    assert bridge.noted("listed")[-1] == {"tools": ["look", "touch"]}
    bridge.open_gate("one")
    [call] = (await going.end()).calls
    assert call.name == "touch"
    # Only another schema.
    schema: JsonObject = {"type": "object", "properties": {"with": {"type": "string"}}}
    chat.tools = (look, ToolDefinition(touch.name, touch.description, schema))
    going = chat.begin(user(result(call, "soft")))
    await bridge.until_noted("listed", 3)
    bridge.open_gate("two")
    assert (await going.end()).text == "<touch returned: soft>done"


@pytest.mark.parametrize("http", [True, False], ids=["http", "stdio"])
async def test_t22_a_result_of_five_megabytes_is_cut_with_a_notice_and_nothing_breaks(
    bridge: Bridge, *, http: bool
) -> None:
    chat = bridge.chat(http=http)
    [call] = (await chat.do(["call", "look", {}])).calls
    answer = await chat.give(result(call, "line \n" * 1_000_000))
    assert "This result was cut: it has 6,000,000 bytes" in answer.text
    assert answer.text.count("line") > 80_000
    [call] = (await chat.do(["call", "look", {}])).calls
    assert (await chat.give(result(call, "short"))).text == "<look returned: short>"


async def test_t25_a_person_who_takes_longer_than_the_agent_can_wait_sees_one_call(bridge: Bridge) -> None:
    chat = bridge.chat(traits=Traits(tool_limit_seconds=0.4))
    wait = ["call", "wait_for_result", {"ticket": 1}]
    steps = (["call", "look", {}], wait, ["note", "has waited twice"], ["gate", "decided"], wait)
    [call] = (await chat.do(*steps)).calls
    assert call.name == "look"
    await bridge.until_noted("has waited twice")
    # The result is there before the agent comes back for it.
    going = chat.begin(user(result(call, "yes, at last")))
    await going.until(lambda heard: heard.parts)
    bridge.open_gate("decided")
    answer = await going.end()
    assert answer.calls == ()
    assert answer.text.count("Still waiting for the user") == 2
    assert answer.text.count("yes, at last") == 1
    assert "<wait_for_result returned: yes, at last>" in answer.text
    await chat.echo()


async def test_result_content_of_an_unknown_kind_reaches_the_agent_as_json(bridge: Bridge) -> None:
    """As an editor sends it: VS Code's type of the content ends with `unknown`."""
    chat = bridge.chat()
    [look] = (await chat.do(["call", "look", {}], ["say", "done"])).calls
    content = [{"type": "hologram", "depth": 3}, {"type": "text", "value": "and words"}]
    sent = {"role": "user", "content": [{"type": "tool_result", "callId": look.call_id, "content": content}]}
    [message] = messages_from([sent])
    [returned] = message.results
    answer = await chat.give(returned)
    assert answer.text == '<look returned: [application/json: {"type":"hologram","depth":3}]and words>done'
