"""B and H: what is said between requests, agents that are parked, and sessions taken up again."""

import os
import signal

import pytest

from bridge.consumer import Bridge, result
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.reply.backlog import HELD_BYTES
from dragoman.lm import LanguageModelError, user
from fake_agent.steps import prompt
from process.living import all_gone

pytestmark = pytest.mark.long


async def test_b1_words_between_requests_lead_the_next_response_of_that_conversation(bridge: Bridge) -> None:
    chat, other = bridge.chat(), bridge.chat()
    late = ["row", [["gate", "later"], ["say", "by the way. "]]]
    asked = await chat.do(["all", [["call", "look", {}], late]], ["say", "done"])
    bridge.open_gate("later")
    await bridge.until_kept("by the way. ")
    # I3: somebody else's request does not get it.
    assert "by the way" not in (await other.say("hello")).text
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert answer.text.startswith("by the way. ")
    assert answer.text.endswith("done")
    assert answer.text.count("by the way") == 1


async def test_b2_a_turn_that_ends_between_requests_is_not_the_answer_to_the_next(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(["until", "enough", ["call", "look", {}]], ["say", "the end"])
    bridge.open_gate("enough")
    await bridge.until_idle()
    assert [call.name for call in asked.calls] == ["look"]
    # The person says something else instead of a result.
    answer = await chat.say("a new question")
    assert answer.text == 'the endecho: ["a new question"]'


async def test_b2_updates_after_the_turn_lead_the_next_response(bridge: Bridge) -> None:
    chat = bridge.chat()
    first = await chat.do(["say", "one. "], ["after", [["say", "and another thing. "]]])
    assert first.text == "one. "
    await bridge.until_kept("and another thing. ")
    answer = await chat.say("two")
    assert answer.text == 'and another thing. echo: ["two"]'


@pytest.mark.parametrize("how", ["resume", "load", "replay"])
async def test_b4_h28_an_idle_agent_is_parked_and_taken_up_again(bridge: Bridge, how: str) -> None:
    chat = bridge.chat(timing=Timing(idle=0.1), load=how == "load", resume=how == "resume")
    await chat.do(["think", "hm"], ["say", "remember the milk"])
    await bridge.until_parked()
    await all_gone(bridge.pids)
    answer = await chat.say("what was it?")
    # H28: what the agent tells of the past is not said again.
    heard = answer.text.removeprefix("echo: ")
    if how == "replay":
        assert "remember the milk" in heard
        assert len(bridge.noted("session/new")) == 2
    else:
        assert answer.text == 'echo: ["what was it?"]'
        assert len(bridge.noted(f"session/{how}")) == 1
        assert len(bridge.noted("session/new")) == 1


async def test_h21_an_agent_that_cannot_take_its_session_up_although_it_says_so_gets_the_transcript(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(
        timing=Timing(idle=0.1),
        load=True,
        refuse={"session/load": [-32603, "no such thing was ever written"]},
    )
    await chat.do(["say", "remember the milk"])
    await bridge.until_parked()
    heard = await chat.echo()
    assert "remember the milk" in " ".join(heard)
    assert len(bridge.noted("session/new")) == 2


async def test_b3_beyond_the_limit_progress_is_left_out_with_a_marker_and_text_never(bridge: Bridge) -> None:
    chat = bridge.chat()
    thoughts = [["think", f"{number:06} {'z' * 10_000}"] for number in range(60)]
    words = [["say", f"[{number}]"] for number in range(20)]
    late = ["row", [["gate", "later"], *thoughts, *words, ["think", "lost"]]]
    asked = await chat.do(["all", [["call", "look", {}], late]], ["say", "done"])
    bridge.open_gate("later")
    await bridge.until_kept("[19]")
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert "000000" in answer.thinking
    assert "000059" not in answer.thinking
    assert "left out" in answer.thinking
    assert len(answer.thinking) < 400_000
    assert answer.text.startswith("".join(f"[{number}]" for number in range(20)))


async def test_b3_beyond_its_own_limit_text_holds_the_agent_and_none_is_lost(bridge: Bridge) -> None:
    chat = bridge.chat()
    size = HELD_BYTES // 8
    late = ["row", [["gate", "later"], ["repeat", 24, size], ["note", "said"]]]
    asked = await chat.do(["all", [["call", "look", {}], late]], ["say", "done"])
    bridge.open_gate("later")
    await bridge.until_held()
    assert bridge.noted("said") == []
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert answer.text.count("y") == 24 * size
    assert answer.text.endswith("done")


async def test_b6_h11_a_side_request_borrows_a_running_agent_and_leaves_nothing(bridge: Bridge) -> None:
    chat = bridge.chat(close=True)
    await chat.do(["say", "hello"])
    title = bridge.aside()
    ask = ["ask", {"toolCallId": "p", "title": "Run it", "kind": "execute"}, ["allow_once", "reject_once"]]
    answer = await title.do(["say", "A fine title"], ask)
    assert answer.text == "A fine title<p: the-reject_once>"
    assert len(bridge.pids) == 1
    assert [params["mcpServers"] for params in bridge.noted("session/new")][1:] == [[]]
    assert len(bridge.noted("session/close")) == 1
    # The conversation is as it was.
    assert await chat.echo() == ["still there?"]


async def test_h11_a_side_request_during_a_tool_turn_is_answered_apart_and_the_turn_goes_on(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    asked = await chat.do(["call", "look", {}], ["tools"])
    title = bridge.aside()
    assert (await title.say("a title, please")).text == 'echo: ["a title, please"]'
    # An agent that waits may answer nobody: this one had a process of its own, which is gone.
    assert len(bridge.pids) == 2
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert answer.text == '<look returned: seen>tools: ["look", "count", "touch"]'


async def test_b6_a_side_request_can_be_cancelled_and_its_agents_crash_is_told(bridge: Bridge) -> None:
    title = bridge.aside()
    going = title.begin(user(prompt(["say", "A "], ["hang"])))
    await going.until(lambda heard: heard.text)
    assert (await going.cancel()).text == "A "
    crashed = await bridge.aside().do(["say", "B "], ["exit", 4])
    assert "exited with code 4" in crashed.text


async def test_b6_a_side_request_waits_for_the_agent_that_starts_and_borrows_it(bridge: Bridge) -> None:
    chat = bridge.chat(close=True, slow="opened")
    going = chat.begin(user("hello"))
    await bridge.until_noted("session/new")
    title = bridge.aside().begin(user("a title, please"))
    bridge.open_gate("opened")
    assert (await title.end()).text == 'echo: ["a title, please"]'
    assert (await going.end()).text == 'echo: ["hello"]'
    assert len(bridge.pids) == 1


async def test_b6_a_side_request_whose_agent_does_not_come_up_has_one_of_its_own(bridge: Bridge) -> None:
    chat = bridge.chat(slow="opened")
    going = chat.begin(user("hello"))
    await bridge.until_noted("session/new")
    title = bridge.aside().begin(user("a title, please"))
    [pid] = bridge.pids
    os.kill(pid, signal.SIGKILL)
    bridge.open_gate("opened")
    assert (await title.end()).text == 'echo: ["a title, please"]'
    with pytest.raises(LanguageModelError):
        await going.end()


async def test_i7_b3_an_agent_that_is_held_is_seen_to_end_and_nothing_it_said_is_lost(bridge: Bridge) -> None:
    chat = bridge.chat()
    size = HELD_BYTES // 8
    flood = ["row", [["gate", "later"], ["say", "first "], ["repeat", 24, size]]]
    asked = await chat.do(["all", [["call", "look", {}], flood, ["row", [["gate", "end"], ["exit", 3]]]]])
    bridge.open_gate("later")
    await bridge.until_held()
    bridge.open_gate("end")
    await bridge.until_gone()
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert answer.text.startswith("first yyy")
    assert answer.text.count("y" * size) >= HELD_BYTES // size
    await chat.echo()


async def test_t16_a_call_that_the_agent_gave_up_is_not_taken_for_open_any_more(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(
        ["until", "enough", ["call", "look", {}]], ["note", "gave up"], ["gate", "go on"], ["say", "done"]
    )
    [call] = asked.calls
    bridge.open_gate("enough")
    await bridge.until_noted("gave up")
    await bridge.until_settled(call)
    # So this is no refusal of it: the turn goes on, and the words are for when it ends.
    going = chat.begin(user("and then?"))
    bridge.open_gate("go on")
    answer = await going.end()
    assert answer.text == 'doneecho: ["and then?"]'
    assert bridge.noted("session/cancel") == []
