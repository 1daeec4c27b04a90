"""T: the consumer's tools in the hands of an agent."""

import json

import pytest

from bridge.consumer import PERMISSIONS, TOOLS, Bridge, result
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.profile.traits import Traits
from dragoman.lm import DataPart, user
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_THREE = ["all", [["call", "look", {"n": 1}], ["call", "count", {"n": 2}], ["call", "touch", {"n": 3}]]]


@pytest.mark.parametrize(("http", "transport"), [(True, "HttpServer"), (False, "StdioServer")])
async def test_t4_t18_t23_rounds_of_parallel_calls_among_50_tools(
    bridge: Bridge, transport: str, *, http: bool
) -> None:
    chat = bridge.chat(http=http)
    more = tuple(type(TOOLS[0])(f"tool_{number}", "One of many.", {"type": "object"}) for number in range(47))
    chat.tools = (*TOOLS, *more, *PERMISSIONS)
    one_round = ["all", [["call", f"tool_{number}", {"n": number}] for number in (1, 20, 46)]]
    answer = await chat.do(["tools"], ["call", "look", {}], one_round, _THREE, ["say", " done"])
    rounds = 0
    text = answer.text
    while answer.calls:
        rounds += 1
        results = [result(call, f"{call.name} {call.input.get('n', 0)}") for call in answer.calls]
        answer = await chat.give(*reversed(results))
        text += answer.text
    # T23: what is offered is exactly what the request has, but our own permission tools.
    assert json.loads(text.split("tools: ")[1].partition("]")[0] + "]") == [
        tool.name for tool in (*TOOLS, *more)
    ]
    assert rounds == 3
    for name, number in [("look", 0), ("tool_1", 1), ("tool_20", 20), ("tool_46", 46), ("touch", 3)]:
        assert f"<{name} returned: {name} {number}>" in text
    assert text.endswith(" done")
    assert bridge.noted("transport") == [{"kind": transport}]


async def test_t5_t6_results_that_are_missing_end_as_interrupted_and_the_turn_goes_on(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(_THREE, ["say", "on we go"])
    calls = {call.name: call for call in asked.calls}
    assert set(calls) == {"look", "count", "touch"}
    answer = await chat.give(result(calls["count"], "two"))
    assert "<count returned: two>" in answer.text
    for name in ("look", "touch"):
        assert f"<{name} returned as an error: Error: The call was interrupted" in answer.text
    assert answer.text.endswith("on we go")
    # T6: the one that was missing turns up later.
    late = await chat.give(result(calls["look"], "one"), also="and now?")
    before, _, heard = late.text.partition("echo: ")
    assert "The agent went on without the result of look." in before
    assert "one" not in json.loads(heard)[-1]


async def test_t13_errors_pictures_and_json_reach_the_agent_as_they_are(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(_THREE)
    calls = {call.name: call for call in asked.calls}
    answer = await chat.give(
        result(calls["look"], "it broke", is_error=True),
        result(calls["count"], "a picture: ", DataPart.image(b"\x89PNG", "image/png")),
        result(calls["touch"], DataPart.json({"size": 7})),
    )
    assert "<look returned as an error: it broke>" in answer.text
    assert "<count returned: a picture: [image]>" in answer.text
    assert '<touch returned: [application/json: {"size":7}]>' in answer.text


async def test_t16_a_call_that_the_agent_withdraws_is_closed_and_its_late_result_goes_nowhere(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    asked = await chat.do(["until", "enough", ["call", "look", {}]], ["say", "never mind"])
    [call] = asked.calls
    bridge.open_gate("enough")
    await bridge.until_idle()
    answer = await chat.give(result(call, "too late"))
    assert "too late" not in answer.text
    assert "never mind" in answer.text
    # The person who gave it knows now that it came to nothing.
    assert "The agent went on without the result of look. It was not passed on." in answer.text
    assert "The agent ended its turn before these results arrived" not in answer.text
    await chat.echo()


async def test_t24_what_comes_between_requests_leads_the_next_response_after_the_results(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(timing=Timing(gather=0.05))
    ask = ["ask", {"toolCallId": "p", "title": "Remove it", "kind": "delete"}, ["allow_once", "reject_once"]]
    later = ["row", [["gate", "later"], ["say", "meanwhile. "], ["all", [["call", "count", {}], ask]]]]
    asked = await chat.do(["all", [["call", "look", {}], later]], ["say", "all done"])
    [call] = asked.calls
    bridge.open_gate("later")
    await bridge.until_pending(3)
    second = await chat.give(result(call, "seen"))
    assert second.text.startswith("meanwhile. ")
    assert {each.name for each in second.calls} == {"count", "dragoman-agent-action-delete"}
    by_name = {each.name: each for each in second.calls}
    third = await chat.give(
        result(by_name["count"], "1"), bridge.approve(by_name["dragoman-agent-action-delete"])
    )
    assert "<p: the-allow_once>" in second.text + third.text
    assert "<look returned: seen>" in second.text + third.text
    assert third.text.endswith("all done")


async def test_t27_a_session_that_lists_no_tools_is_started_once_more_and_then_told(bridge: Bridge) -> None:
    chat = bridge.chat(lists="none", timing=Timing(list_tools=0.2))
    answer = await chat.say("hello")
    assert "did not look at the tools" in answer.text
    assert "echo: " in answer.text
    assert len(bridge.noted("session/new")) == 2


async def test_t27_the_second_session_that_lists_them_is_used_without_a_word(bridge: Bridge) -> None:
    chat = bridge.chat(lists="second", timing=Timing(list_tools=1.0))
    first = chat.begin(user(prompt(["call", "look", {}])))
    answer = await first.end()
    assert [call.name for call in answer.calls] == ["look"]
    assert answer.text == ""
    assert len(bridge.noted("session/new")) == 2


@pytest.mark.parametrize("how", ["resume", "load"])
async def test_t27_a_session_that_is_taken_up_and_lists_no_tools_is_taken_up_once_more(
    bridge: Bridge, how: str
) -> None:
    """As with a new one: opencode stalls in both."""
    timing = Timing(idle=0.1, list_tools=1.0)
    chat = bridge.chat(lists="second", timing=timing, resume=how == "resume", load=how == "load")
    await chat.do(["say", "remember the milk"])
    await bridge.until_parked()
    answer = await chat.do(["call", "look", {}])
    assert [call.name for call in answer.calls] == ["look"]
    assert answer.text == ""
    assert len(bridge.noted(f"session/{how}")) == 2
    # It is the same session: nothing is told again.
    assert "remember the milk" not in str(bridge.noted("session/prompt")[-1])


@pytest.mark.parametrize("resume", [True, False])
async def test_t26_an_agent_that_never_lists_again_has_new_tools_from_the_next_prompt_on(
    bridge: Bridge, *, resume: bool
) -> None:
    look, count, touch = TOOLS
    chat = bridge.chat(traits=Traits(lists_again=False), tools=(look, count), resume=resume)
    await chat.do(["say", "remember the milk"])
    # One less: no agent is restarted, the tool answers with an error.
    chat.tools = (look,)
    answer = await chat.do(["call", "count", {}])
    assert "<count returned as an error: The tool count is no longer available.>" in answer.text
    assert len(bridge.pids) == 1
    # One more: there from this prompt on, to an agent that knows what was said.
    chat.tools = (look, touch)
    answer = await chat.do(["tools"])
    assert 'tools: ["look", "touch"]' in answer.text
    assert len(bridge.pids) == 2
    assert len(bridge.noted("session/resume")) == (1 if resume else 0)
    if not resume:
        assert "remember the milk" in str(bridge.noted("session/prompt")[-1])


async def test_t26_an_agent_that_lists_again_in_vain_is_restarted_for_the_next_prompt(bridge: Bridge) -> None:
    """Gemini CLI lists changed tools at once, and then prompts its model with the old ones."""
    look, _, touch = TOOLS
    chat = bridge.chat(traits=Traits(lists_again=False), tools=(look,))
    [call] = (await chat.do(["call", "look", {}], ["gate", "listed"])).calls
    chat.tools = (look, touch)
    going = chat.begin(user(result(call, "seen")))
    await bridge.until_noted("listed", 2)
    bridge.open_gate("listed")
    await going.end()
    assert 'tools: ["look", "touch"]' in (await chat.do(["tools"])).text
    assert len(bridge.pids) == 2


async def test_t12_a_prompt_waits_until_the_agent_has_looked_at_changed_tools(bridge: Bridge) -> None:
    look, count, touch = TOOLS
    chat = bridge.chat(tools=(look, count))
    await chat.say("hello")
    chat.tools = (look, touch)
    await chat.say("again")
    order = [name for name, _ in bridge.journal if name in ("lists", "session/prompt")]
    assert order == ["lists", "session/prompt", "lists", "session/prompt"]
    await bridge.until_noted("listed", 2)
    assert bridge.noted("listed")[-1] == {"tools": ["look", "touch"]}


async def test_t12_a_prompt_that_is_held_for_the_tools_can_be_cancelled(bridge: Bridge) -> None:
    look, count, _ = TOOLS
    chat = bridge.chat(tools=(look,), relists=False, timing=Timing(list_again=1_000))
    await chat.say("hello")
    chat.tools = (look, count)
    going = chat.begin(user("not this"))
    await bridge.until_streaming()
    await going.cancel()
    chat.tools = (look,)
    assert (await chat.say("but this")).text.startswith("echo: ")
    # What was cancelled while it was held was heard, and cancelled once.
    assert len(bridge.noted("session/prompt")) == 3
    assert len(bridge.noted("session/cancel")) == 1
