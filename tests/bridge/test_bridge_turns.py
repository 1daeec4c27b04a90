"""H, T, C and P in one process: what a consumer may do to a turn, and what becomes of it."""

import json

import pytest

from bridge.consumer import TOOLS, Bridge, Heard, result, soon
from dragoman.backends.agent.profile.settings import Timing
from dragoman.lm import (
    CancellationToken,
    Consumer,
    DataPart,
    LanguageModelError,
    Request,
    RequestOptions,
    assistant,
    system,
    user,
)
from fake_agent.steps import prompt

pytestmark = pytest.mark.long


async def test_t2_text_before_a_call_goes_before_it_and_later_text_leads_the_next_response(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(timing=Timing(gather=0.05))
    asked = await chat.do(["say", "before "], ["call", "look", {}], ["say", " after"])
    shown = [
        type(part).__name__ for part in asked.parts if not (isinstance(part, DataPart) and part.is_internal)
    ]
    assert shown == ["TextPart", "ToolCallPart"]
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert answer.text == "<look returned: seen> after"


async def test_t7_the_first_of_two_results_for_one_call_wins(bridge: Bridge) -> None:
    chat = bridge.chat()
    [call] = (await chat.do(["call", "look", {}])).calls
    answer = await chat.give(result(call, "first"), result(call, "second"))
    assert answer.text == "<look returned: first>"


async def test_t8_our_ids_are_unique_whatever_the_agent_calls_its_calls(bridge: Bridge) -> None:
    chat = bridge.chat()
    steps = (["announce", "same", "look"], ["call", "look", {}])
    [first] = (await chat.do(*steps, *steps)).calls
    [second] = (await chat.give(result(first, "one"))).calls
    assert first.call_id != second.call_id
    answer = await chat.give(result(second, "two"))
    assert answer.text == "<look returned: two>"


async def test_c6_cancel_in_the_gather_window_hands_no_call_over(bridge: Bridge) -> None:
    chat = bridge.chat(timing=Timing(gather=60, gather_limit=60))
    going = chat.begin(
        user(prompt(["announce", "1", "look"], ["announce", "2", "count"], ["call", "look", {}]))
    )
    await bridge.until_pending(1)
    answer = await going.cancel()
    assert answer.calls == ()
    await chat.echo()
    assert len(bridge.noted("session/cancel")) == 1


async def test_p25_the_stop_text_cancels_the_turn_and_then_the_new_words_are_prompted(bridge: Bridge) -> None:
    chat = bridge.chat()
    [call] = (await chat.do(["call", "look", {}], ["say", "never said"])).calls
    answer = await chat.give(result(call, "The user cancelled the tool call."), also="something else")
    assert answer.text == 'echo: ["something else"]'
    assert len(bridge.noted("session/cancel")) == 1


async def test_h14_the_identical_request_while_the_first_streams_gets_the_same_answer(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    going = chat.begin(user(prompt(["say", "one "], ["gate", "on"], ["say", "two"])))
    await going.until(lambda heard: heard.text)
    again = chat.begin()
    await again.until(lambda heard: heard.text == "one ")
    bridge.open_gate("on")
    await soon(again.task)
    await going.end()
    assert going.heard.text == again.heard.text == "one two"
    assert len(bridge.noted("session/prompt")) == 2


async def test_h14_of_two_who_listen_one_may_leave(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    going = chat.begin(user(prompt(["say", "one "], ["gate", "on"], ["say", "two"])))
    await going.until(lambda heard: heard.text)
    again = chat.begin()
    await again.until(lambda heard: heard.text)
    again.source.cancel()
    await soon(again.task)
    bridge.open_gate("on")
    assert (await going.end()).text == "one two"
    assert bridge.noted("session/cancel") == []


async def test_h7_a_changed_system_message_is_given_once_as_context(bridge: Bridge) -> None:
    chat = bridge.chat()
    chat.history.append(system("Be brief."))
    first = await chat.say("hello")
    assert "Be brief." in first.text
    assert await chat.echo() == ["still there?"]
    chat.history[0] = system("Be long.")
    context, *words = await chat.echo()
    assert "Be long." in context
    assert "not from the user" in context
    assert words == ["still there?"]


async def test_h22_a_picture_reaches_an_agent_that_takes_it_else_it_is_told(bridge: Bridge) -> None:
    chat = bridge.chat(images=True)
    picture = DataPart.image(b"\x89PNG", "image/png")
    answer = await chat.begin(user("look: ", picture)).end()
    assert answer.text == 'echo: ["look: ", "[image]"]'


async def test_h22_an_agent_without_pictures_has_a_notice(bridge: Bridge) -> None:
    chat = bridge.chat()
    answer = await chat.begin(user("look: ", DataPart.image(b"\x89PNG", "image/png"))).end()
    assert "cannot take image/png" in answer.text


async def test_h16_an_edited_message_gets_a_fresh_session_with_all_that_is_told(bridge: Bridge) -> None:
    chat = bridge.chat()
    [call] = (await chat.do(["call", "look", {"at": "the moon"}])).calls
    await chat.give(result(call, "round and pale"))
    await chat.say("second")
    # The second message is edited: what follows is gone, what goes before is kept.
    chat.history = [*chat.history[:4], user("second, better")]
    answer = await chat.begin().end()
    told, words = json.loads(answer.text.removeprefix("echo: "))
    assert words == "second, better"
    for piece in ("the moon", "round and pale", "called look"):
        assert piece in told
    assert "second\n" not in told
    assert len(bridge.noted("session/new")) == 2


async def test_h19_what_another_model_said_meanwhile_is_told_to_the_agent(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    chat.history += [user("to another model"), assistant("I am that other model")]
    heard = " ".join(await chat.echo())
    assert "to another model" in heard
    assert "I am that other model" in heard
    assert "hello" not in heard
    assert len(bridge.noted("session/new")) == 1


async def test_i1_a_consumer_that_cannot_take_a_part_fails_alone(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.say("hello")

    class Breaking(Heard):
        def report(self, part: object) -> None:
            raise RuntimeError("the consumer broke")

    consumer = Consumer("vscode", "test", (str(chat.folder),))
    request = Request((*chat.history, user("again")), RequestOptions(tools=TOOLS), consumer)
    with pytest.raises(LanguageModelError, match="the consumer broke"):
        await soon(chat.model.respond(request, Breaking(), CancellationToken()))
    await chat.echo()
