"""Agents that are in no catalogue, and do things late, or never."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.consumer import TOOLS, Bridge, Chat, result
from dragoman.acp.messages import AgentInfo
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.observations import Observations, Observed, name_of
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.profile.traits import UNKNOWN, Traits, traits_of
from dragoman.backends.agent.toolserver.naming import WAIT_TOOL
from dragoman.lm import user
from dragoman.store import AgentStore, Database
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

LOOK, COUNT, TOUCH = TOOLS
# What waits for an agent that is known to do something, no test here may wait for.
_NEVER = 1_000.0


def _seen(bridge: Bridge) -> Observed:
    """What was learnt about the agent of this bridge."""
    assert bridge.model is not None
    model = bridge.model._model
    assert isinstance(model, AgentModel)
    return bridge.observations.of(name_of(AgentInfo("fake-agent", None, "1"), model.settings.command))


def _unknown(bridge: Bridge, timing: Timing | None = None, **options: object) -> Chat:
    chat = bridge.chat(traits=UNKNOWN, timing=timing or Timing(), name="fake-agent", **options)  # type: ignore[arg-type]
    chat.tools = (LOOK, COUNT)
    return chat


# A person who is slower than the agent.


async def test_t17_a_ticket_keeps_a_call_alive_for_longer_than_the_agent_waits(bridge: Bridge) -> None:
    chat = _unknown(bridge, configured={"tool_limit_seconds": 1})
    asked = await chat.do(
        ["call", "look", {}],
        ["note", "has a ticket"],
        ["gate", "back"],
        ["call", WAIT_TOOL, {"ticket": 1}],
    )
    [call] = asked.calls
    await bridge.until_noted("has a ticket")
    [noted] = bridge.noted("result")
    assert "Still waiting for the user" in str(noted["text"])
    bridge.open_gate("back")
    answer = await chat.give(result(call, "seen at last"))
    assert f"<{WAIT_TOOL} returned: seen at last>" in answer.text
    assert "not passed on" not in answer.text


async def test_t17_a_result_that_the_agent_never_fetches_is_told_to_the_person(bridge: Bridge) -> None:
    chat = _unknown(bridge, configured={"tool_limit_seconds": 1})
    asked = await chat.do(
        ["call", "look", {}], ["note", "has a ticket"], ["gate", "on"], ["say", "never mind"]
    )
    [call] = asked.calls
    await bridge.until_noted("has a ticket")
    going = chat.begin(user(result(call, "seen at last")))
    await bridge.until_streaming()
    bridge.open_gate("on")
    answer = await going.end()
    assert "never mind" in answer.text
    assert (
        "stopped waiting for the result of look, and has not come back for it with its ticket" in answer.text
    )
    # Said once.
    assert (await chat.say("and?")).text == 'echo: ["and?"]'


async def test_t16_a_result_that_comes_after_the_turn_is_told_to_the_person(bridge: Bridge) -> None:
    chat = _unknown(bridge, configured={"tool_limit_seconds": 1})
    [call] = (await chat.do(["call", "look", {}], ["say", "without it, then"])).calls
    await bridge.until_idle()
    answer = await chat.give(result(call, "seen at last"))
    assert "without it, then" in answer.text
    assert "The agent went on without the result of look. It was not passed on." in answer.text


async def test_t16_a_result_for_a_call_that_the_agent_gave_up_is_told_to_the_person(bridge: Bridge) -> None:
    chat = _unknown(bridge)
    [call] = (
        await chat.do(["until", "enough", ["call", "look", {}]], ["gate", "on"], ["say", "so be it"])
    ).calls
    bridge.open_gate("enough")
    await bridge.until_pending(0)
    going = chat.begin(user(result(call, "seen at last")))
    await bridge.until_streaming()
    bridge.open_gate("on")
    answer = await going.end()
    assert "The agent stopped waiting for the result of look after 0 s. It was not passed on." in answer.text
    assert "seen at last" not in answer.text


async def test_t17_the_time_after_which_an_agent_gives_a_call_up_is_learnt(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.backends.agent.conversation._SHORTEST_LIMIT_SECONDS", 0.0)
    chat = _unknown(bridge)
    await chat.do(["until", "enough", ["call", "look", {}]], ["gate", "on"])
    bridge.open_gate("enough")
    await bridge.until_pending(0)
    learnt = _seen(bridge).tool_limit_seconds
    assert learnt is not None
    assert 0 < learnt < 60
    bridge.open_gate("on")


async def test_p18_a_decision_about_a_withdrawn_request_is_told_to_the_person(bridge: Bridge) -> None:
    chat = bridge.chat(traits=UNKNOWN)
    ask = ["ask", {"toolCallId": "p", "title": "Remove it", "kind": "delete"}, ["allow_once", "reject_once"]]
    [call] = (await chat.do(["until", "enough", ask], ["say", "never mind"])).calls
    approved = bridge.approve(call)
    bridge.open_gate("enough")
    await bridge.until_idle()
    answer = await chat.give(approved)
    assert "The agent stopped waiting for your decision after 0 s. It was not passed on." in answer.text


async def test_c4_what_a_person_has_stopped_needs_no_such_line(bridge: Bridge) -> None:
    chat = bridge.chat()
    [call] = (await chat.do(["call", "look", {}])).calls
    stopped = result(call, "The user cancelled the tool call.")
    assert (await chat.begin(user(stopped), user("no, this")).end()).text == 'echo: ["no, this"]'
    # The tool has run all the same, and the editor has its result in the history now.
    chat.history[-3] = user(result(call, "seen"))
    assert "not passed on" not in (await chat.say("on")).text


# Tools.


@pytest.mark.parametrize("resume", [True, False])
async def test_t12_t26_an_agent_that_does_not_look_again_is_started_anew_with_a_line(
    bridge: Bridge, *, resume: bool
) -> None:
    timing = Timing(list_again_unsure=0.2, list_again=_NEVER)
    chat = _unknown(bridge, timing, relists=False, resume=resume)
    await chat.say("remember the milk")
    chat.tools = (LOOK, TOUCH)
    answer = await chat.do(["call", "touch", {}])
    assert "Fake does not look at changed tools while it runs, so it was restarted for them." in answer.text
    [call] = answer.calls
    assert call.name == "touch"
    await chat.give(result(call, "felt"))
    assert len(bridge.noted("started")) == 2
    # Neither prompt was sent twice, and the conversation was told to a session that does not know it.
    prompts = [json.dumps(entry["prompt"]) for entry in bridge.noted("session/prompt")]
    assert len(prompts) == 2
    assert ("remember the milk" in prompts[1]) is not resume
    # From now on it is known, and nothing is waited for.
    assert _seen(bridge).lists_again is False
    chat.tools = (LOOK, TOUCH, COUNT)
    assert [each.name for each in (await chat.do(["call", "count", {}])).calls] == ["count"]
    assert len(bridge.noted("started")) == 3


async def test_t12_a_tool_that_is_gone_holds_no_prompt(bridge: Bridge) -> None:
    chat = _unknown(bridge, Timing(list_again_unsure=_NEVER), relists=False)
    await chat.say("hello")
    chat.tools = (LOOK,)
    answer = await chat.do(["call", "count", {}])
    assert "<count returned as an error: The tool count is no longer available.>" in answer.text
    assert len(bridge.noted("started")) == 1


async def test_t27_an_agent_that_never_lists_is_waited_for_once_and_briefly(bridge: Bridge) -> None:
    timing = Timing(
        list_tools=_NEVER, list_tools_unsure=0.2, list_tools_unlikely=0.1, list_again_unsure=_NEVER
    )
    chat = _unknown(bridge, timing, lists="none")
    assert "did not look at the tools" in (await chat.say("hello")).text
    assert len(bridge.noted("session/new")) == 1
    assert _seen(bridge) == Observed(lists=False)
    # Other tools are nothing to it: no prompt waits for that.
    chat.tools = (TOUCH,)
    assert (await chat.say("on")).text == 'echo: ["on"]'


async def test_t27_a_listing_that_comes_late_corrects_what_was_learnt(bridge: Bridge) -> None:
    chat = _unknown(bridge)
    assert bridge.model is not None
    model = bridge.model._model
    assert isinstance(model, AgentModel)
    bridge.observations.note(name_of(AgentInfo("fake-agent", None, "1"), model.settings.command), lists=False)
    await chat.say("hello")
    assert _seen(bridge).lists is True


@pytest.mark.parametrize(
    "leftover",
    [
        ["say", "by the way. "],
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}],
        ["call", "look", {}],
    ],
    ids=["words", "the end of a step", "a call"],
)
async def test_t12_i2_what_is_left_of_the_last_turn_costs_no_prompt_that_is_held(
    bridge: Bridge, leftover: list[object]
) -> None:
    chat = _unknown(bridge, Timing(list_again_unsure=1.0, gather=0.05), relists=False)
    step = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Step", "status": "pending"}
    await chat.do(["update", step], ["after", [["gate", "late"], leftover]])
    chat.tools = (LOOK, COUNT, TOUCH)
    going = chat.begin(user("and now?"))
    await bridge.until_streaming()
    bridge.open_gate("late")
    answer = await going.end()
    text = answer.text
    if answer.calls:
        text += (await chat.give(result(answer.calls[0], "seen"))).text
    assert text.count('"and now?"') == 1, text
    assert len([each for each in bridge.noted("session/prompt") if "and now?" in str(each)]) == 1


@pytest.mark.parametrize("traits", [UNKNOWN, traits_of("codex")], ids=["learnt", "in the catalogue"])
async def test_t12_t26_tools_that_come_with_a_result_are_seen_in_the_next_turn(
    bridge: Bridge, traits: Traits
) -> None:
    chat = bridge.chat(traits=traits, tools=(LOOK,), relists=False, timing=Timing(list_again_unsure=0.2))
    [call] = (await chat.do(["call", "look", {}])).calls
    chat.tools = (LOOK, TOUCH)
    await chat.give(result(call, "seen"))
    answer = await chat.do(["call", "touch", {}])
    assert [each.name for each in answer.calls] == ["touch"]
    assert ("restarted" in answer.text) is not traits.is_known


async def test_t12_t26_tools_that_come_after_a_beginning_without_any_are_seen(bridge: Bridge) -> None:
    chat = bridge.chat(
        traits=UNKNOWN, tools=(), relists=False, lists="second", timing=Timing(list_again_unsure=0.2)
    )
    await chat.say("hello")
    chat.tools = (LOOK,)
    # The second process is another one that has made no session yet: it never lists, and that is said.
    assert "did not look at the tools" in (await chat.say("and now?")).text
    assert len(bridge.noted("started")) == 2


async def test_b6_an_agent_that_may_be_started_anew_is_lent_to_nobody(bridge: Bridge) -> None:
    chat = _unknown(bridge)
    await chat.say("hello")
    await bridge.aside().say("a title?")
    assert len(bridge.noted("started")) == 2


async def test_t27_an_agent_that_lists_twice_is_prompted_after_the_second_time(bridge: Bridge) -> None:
    chat = _unknown(bridge, Timing(list_settle=1.5), lists_late=0.1)
    await chat.say("hello")
    names = [name for name, _ in bridge.journal if name in ("listed", "session/prompt")]
    assert names == ["listed", "listed", "session/prompt"]


# The history of a session that is loaded.


def _echo(text: str) -> dict[str, object]:
    return {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}


async def _loaded(bridge: Bridge, chat: Chat) -> None:
    await chat.say("remember the milk")
    await chat.say("and the bread")
    await bridge.until_parked()


async def test_h21_nothing_of_a_history_that_is_told_for_seconds_after_the_load_is_in_the_answer(
    bridge: Bridge,
) -> None:
    timing = Timing(idle=0.05, history_end=0.5)
    chat = _unknown(bridge, timing, load=True, history="after", pause=0.3)
    for number in range(4):
        await chat.say(f"remember {number}")
    await bridge.until_parked()
    assert (await chat.say("what was it?")).text == 'echo: ["what was it?"]'
    names = [name for name, _ in bridge.journal if name in ("session/load", "told", "session/prompt")]
    assert names[-3:] == ["session/load", "told", "session/prompt"]
    assert _seen(bridge).history == "late"


async def test_h21_a_resumed_session_that_tells_its_history_is_waited_for_as_well(bridge: Bridge) -> None:
    timing = Timing(idle=0.05, history_end=0.5, history_pause=5)
    chat = _unknown(bridge, timing, resume=True, history="after", pause=0.2)
    await _loaded(bridge, chat)
    going = chat.begin(user(prompt(["gate", "told"], ["say", "the milk"])))
    await bridge.until_noted("told", 2)
    bridge.open_gate("told")
    assert (await going.end()).text == "the milk"


async def test_h21_an_agent_that_tells_its_history_in_time_is_waited_for_only_once(bridge: Bridge) -> None:
    chat = _unknown(bridge, Timing(idle=0.05, history_end=0.1, history_pause=_NEVER), load=True)
    await _loaded(bridge, chat)
    assert (await chat.say("well?")).text == 'echo: ["well?"]'
    assert _seen(bridge).history == "before"


async def test_h21_a_history_right_behind_the_answer_is_late_and_the_next_one_is_waited_for_as_well(
    bridge: Bridge,
) -> None:
    timing = Timing(idle=0.05, history_end=0.5)
    chat = _unknown(bridge, timing, load=True, history="after")
    await _loaded(bridge, chat)
    assert (await chat.say("well?")).text == 'echo: ["well?"]'
    assert _seen(bridge).history == "late"


@pytest.mark.parametrize("how", ["load", "resume"])
async def test_h21_one_history_in_time_does_not_end_the_watch(bridge: Bridge, how: str) -> None:
    """What was learnt of an agent shortens a wait; in the first turn its old words are looked for all the same."""
    timing = Timing(idle=0.05, history_end=0.1, history_pause=0.1)
    chat = _unknown(bridge, timing, history="prompt", **{how: True})
    await _loaded(bridge, chat)
    assert bridge.model is not None
    model = bridge.model._model
    assert isinstance(model, AgentModel)
    bridge.observations.note(
        name_of(AgentInfo("fake-agent", None, "1"), model.settings.command), history="before"
    )
    answer = await chat.say("what was it?")
    before, _, heard = answer.text.partition("echo: ")
    assert "milk" not in before
    assert json.loads(heard)[-1] == "what was it?"


async def test_h21_old_words_after_the_answer_to_the_load_and_before_the_prompt_fail_nothing(
    bridge: Bridge,
) -> None:
    """While the agent lists the tools, the history is heard as such."""
    timing = Timing(idle=0.05, history_end=0.3)
    chat = _unknown(bridge, timing, load=True, history="after", pause=0.2, lists_late=0.5)
    await _loaded(bridge, chat)
    assert (await chat.say("what was it?")).text == 'echo: ["what was it?"]'


async def test_h21_an_echo_of_the_prompt_in_other_lines_is_no_history(bridge: Bridge) -> None:
    chat = _unknown(bridge, Timing(idle=0.05, history_end=0.1, history_pause=0.2), load=True)
    await _loaded(bridge, chat)
    echo = json.dumps(["update", _echo('["say",  "yes"]')])
    answer = await chat.say(f'[{echo},\n["say",\n"yes"]]')
    assert answer.text == "yes"
    assert len(bridge.noted("started")) == 2


async def test_h21_an_agent_that_never_comes_to_the_end_gets_a_new_session_and_the_transcript(
    bridge: Bridge,
) -> None:
    timing = Timing(idle=0.05, history_end=2, history_pause=2, history=0.3)
    chat = _unknown(bridge, timing, load=True, history="after", pause=1.0)
    await _loaded(bridge, chat)
    answer = await chat.say("what was it?")
    before, _, echo = answer.text.partition("echo: ")
    assert before == ""
    heard = json.loads(echo)
    assert "remember the milk" in heard[0]
    assert heard[-1] == "what was it?"
    assert _seen(bridge).history == "unusable"
    # It is not tried again.
    await bridge.until_parked()
    await chat.say("again")
    assert len(bridge.noted("session/load")) == 1


async def test_h21_a_history_that_begins_with_the_prompt_is_noticed_and_the_prompt_goes_to_a_new_session(
    bridge: Bridge,
) -> None:
    timing = Timing(idle=0.05, history_end=0.1, history_pause=0.2)
    chat = _unknown(bridge, timing, load=True, history="prompt")
    await _loaded(bridge, chat)
    answer = await chat.say("what was it?")
    before, _, heard = answer.text.partition("echo: ")
    assert "was still sending an earlier part of this conversation" in before
    assert "milk" not in before
    assert json.loads(heard)[-1] == "what was it?"
    assert _seen(bridge).history == "unusable"


async def test_h21_an_answer_into_which_old_words_were_mixed_fails(bridge: Bridge) -> None:
    timing = Timing(idle=0.05, history_end=0.1, history_pause=0.2)
    chat = _unknown(bridge, timing, load=True, history="answer")
    await chat.say("remember the milk")
    await bridge.until_parked()
    answer = await chat.say("what was it?")
    assert "**Error:** Fake mixed words of earlier turns into this answer." in answer.text
    assert "milk" not in answer.text
    # And the next one is in a new session, which was told of it.
    assert "remember the milk" in (await chat.say("again")).text
    assert len(bridge.noted("session/new")) == 2


# What was learnt outlives the process.


async def test_what_was_learnt_is_kept_by_name_and_version(bridge: Bridge, tmp_path: Path) -> None:
    with Database.open(tmp_path / "state") as database:
        bridge.observations = Observations(AgentStore(database))
        chat = _unknown(bridge, Timing(list_tools_unsure=0.1), lists="none")
        await chat.say("hello")
    with Database.open(tmp_path / "state") as database:
        bridge.observations = Observations(AgentStore(database))
        assert list(_seen(bridge).sentences) == ["It did not look at the tools that it was offered."]
