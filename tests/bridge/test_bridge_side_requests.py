"""Whose agents serve side requests, and for how long."""

import pytest

from bridge.consumer import Bridge
from dragoman.lm import Features
from dragoman.lm.messages import user
from fake_agent.steps import prompt

pytestmark = pytest.mark.long


async def test_a_side_request_of_another_key_never_runs_in_this_keys_agent(bridge: Bridge) -> None:
    chat = bridge.chat(close=True)
    going = chat.begin(user(prompt(["say", "one "], ["gate", "on"], ["say", "two"])))
    await going.until(lambda heard: heard.text)
    [own] = bridge.pids
    # It crashes the agent that it has.
    crashed = await bridge.aside(connection="another key").do(["say", "B "], ["exit", 4])
    assert "exited with code 4" in crashed.text
    assert len(bridge.pids - {own}) == 1
    bridge.open_gate("on")
    assert (await going.end()).text == "one two"


async def test_an_agent_that_is_lent_is_not_parked_to_make_room(bridge: Bridge) -> None:
    chat = bridge.chat(close=True, configured={"max_agents": 1})
    await chat.say("hello")
    title = bridge.aside().begin(user(prompt(["say", "A fine "], ["gate", "on"], ["say", "title"])))
    await title.until(lambda heard: heard.text)
    await bridge.chat().say("another chat")
    bridge.open_gate("on")
    assert (await title.end()).text == "A fine title"
    assert len(bridge.pids) == 2
    # Given back, it is idle, and makes room again.
    await bridge.chat().say("a third chat")
    await bridge.until_parked()


async def test_an_agent_is_told_why_a_side_request_may_do_nothing(bridge: Bridge) -> None:
    ask = ["ask", {"toolCallId": "p", "title": "Run it", "kind": "execute"}, ["allow_once", "reject_once"]]
    bridge.chat(permission="allow")
    assert (await bridge.aside().do(ask)).text == "<p: the-reject_once>"
    [remark] = bridge.noted("remark")
    assert "side request" in str(remark)
    assert "not asked" in str(remark)


async def test_a_consumer_without_tools_has_a_conversation_and_its_setting(bridge: Bridge) -> None:
    chat = bridge.chat(permission="allow", tools=())
    ask = ["ask", {"toolCallId": "p", "title": "Run it", "kind": "execute"}, ["allow_once", "reject_once"]]
    assert "<p: the-allow_once>" in (await chat.do(ask)).text
    assert await chat.echo() == ["still there?"]
    assert len(bridge.noted("session/new")) == 1


async def test_s10_s13_a_side_request_is_presented_like_any_other(bridge: Bridge) -> None:
    bridge.chat()
    title = bridge.aside()
    title.features = Features()
    heard = await title.do(["think", "A short one."], ["say", "See [this](command:x)."])
    assert heard.text == "A short one.\n\nSee [this](command-inert:x)."
    assert not heard.thinking
