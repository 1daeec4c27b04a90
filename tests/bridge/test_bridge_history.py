"""H in one process: whichever way a consumer tells its history, the agent hears what is new, once, and where it belongs."""

import logging
from pathlib import Path

import pytest

from bridge.consumer import Bridge, Chat, result, soon
from dragoman.backends.agent.profile.settings import Timing
from dragoman.lm import (
    DataPart,
    LanguageModelError,
    Message,
    TextPart,
    ToolCallPart,
    assistant,
    user,
)
from dragoman.lm.parts import STATEFUL_MARKER
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

with_and_without_markers = pytest.mark.parametrize(
    "markers", [True, False], ids=["with markers", "without markers"]
)
# A reply is never given again: what is asked again is asked anew.
_NO_RETRY = Timing(retry=-1.0)


def _without_markers(message: Message) -> Message:
    stored = (part for part in message.content if not isinstance(part, DataPart))
    return Message(message.role, tuple(stored), message.name)


def _tell(chat: Chat, *, markers: bool) -> None:
    """Some consumers give our markers back."""
    if not markers:
        chat.history = [_without_markers(message) for message in chat.history]


def _sessions(bridge: Bridge) -> list[object]:
    """The session that each prompt went to."""
    return [params["sessionId"] for params in bridge.noted("session/prompt")]


def _heard(bridge: Bridge) -> list[str]:
    """The texts of the last prompt."""
    blocks = bridge.noted("session/prompt")[-1]["prompt"]
    assert isinstance(blocks, list)
    return [str(block["text"]) for block in blocks if isinstance(block, dict)]


async def test_h2_h3_h4_what_was_streamed_in_forty_parts_comes_back_as_one(bridge: Bridge) -> None:
    chat = bridge.chat()
    pieces = [f"{number} " for number in range(40)]
    answer = await chat.do(*(["say", piece] for piece in pieces), ["say", ""], ["say", "\n"])
    assert [
        part.value for part in answer.parts if isinstance(part, TextPart) and part.value.strip()
    ] == pieces
    chat.history[-1] = assistant("", "".join(pieces).strip())
    assert await chat.echo() == ["still there?"]
    assert len(bridge.noted("session/new")) == 1


@with_and_without_markers
async def test_h13_a_refusal_in_a_long_chat_stays_there_while_a_newer_one_begins_alike(
    bridge: Bridge, *, markers: bool
) -> None:
    chat, newer = bridge.chat(), bridge.chat()
    await chat.say("hello")
    await chat.echo()
    before = len(chat.history)
    assert (await chat.do(["call", "look", {}], ["say", "never said"])).calls
    await newer.say("hello")
    # The open turn vanishes but for the words that opened it.
    del chat.history[before + 1 :]
    _tell(chat, markers=markers)
    assert (await chat.say("no, this")).text == 'echo: ["no, this"]'
    first, second, third, other, last = _sessions(bridge)
    assert first == second == third == last != other
    assert bridge.noted("session/cancel") == [{"sessionId": first}]


async def test_h14_the_identical_request_after_a_failure_gets_what_was_said_and_the_failure(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    failed = await chat.do(["say", "one "], ["error", -32603, "the model is on fire"])
    assert "the model is on fire" in failed.text
    chat.history.pop()
    again = await chat.begin().end()
    assert again.text == failed.text
    assert len(bridge.noted("session/prompt")) == 2


@with_and_without_markers
async def test_h15_the_identical_request_after_a_cut_gets_a_whole_answer(
    bridge: Bridge, *, markers: bool
) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    _tell(chat, markers=markers)
    going = chat.begin(user(prompt(["say", "one "], ["gate", "on"], ["say", "two"])))
    await going.until(lambda heard: heard.text)
    assert (await going.cancel()).text == "one "
    chat.history.pop()
    bridge.open_gate("on")
    assert (await chat.begin().end()).text == "one two"
    first, second, third = _sessions(bridge)
    assert first == second != third
    # And the conversation goes on from there.
    assert await chat.echo() == ["still there?"]


@with_and_without_markers
async def test_h14_a_proved_retry_after_a_cut_gets_what_was_said_and_an_error_if_the_agent_has_acted(
    bridge: Bridge, *, markers: bool
) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    _tell(chat, markers=markers)
    step = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Deploy", "status": "completed"}
    going = chat.begin(user(prompt(["update", step], ["say", "one "], ["hang"])))
    await going.until(lambda heard: heard.text)
    assert (await going.cancel()).text == "one "
    chat.history.pop()
    chat.model_options = {"_isRetry": True}
    for _ in range(2):
        again = await chat.begin().end()
        chat.history.pop()
        assert again.text.startswith("one ")
        assert "was cut off" in again.text
    assert len(bridge.noted("session/prompt")) == 2


async def test_h14_later_the_same_words_are_another_request(bridge: Bridge) -> None:
    chat = bridge.chat(timing=_NO_RETRY)
    await chat.say("hello")
    await chat.say("once more")
    chat.history.pop()
    await chat.begin().end()
    assert len(bridge.noted("session/prompt")) == 3
    assert len(bridge.noted("session/new")) == 2


async def test_h14_another_chat_that_begins_with_the_same_words_is_no_retry(bridge: Bridge) -> None:
    words = user(prompt(["say", "one "], ["gate", "on"], ["say", "two"]))
    chats = [bridge.chat(), bridge.chat()]
    first = chats[0].begin(words)
    await first.until(lambda heard: heard.text)
    second = chats[1].begin(words)
    await second.until(lambda heard: heard.text)
    bridge.open_gate("on")
    for going in (first, second):
        assert (await going.end()).text == "one two"
    assert len(set(_sessions(bridge))) == 2


@with_and_without_markers
async def test_h15_the_agent_that_answers_anew_does_not_know_the_answer_that_was_thrown_away(
    bridge: Bridge, *, markers: bool
) -> None:
    chat = bridge.chat(timing=_NO_RETRY)
    await chat.say("remember the milk")
    thrown_away = await chat.say("second")
    chat.history.pop()
    _tell(chat, markers=markers)
    await chat.begin().end()
    sent, words = _heard(bridge)
    assert "remember the milk" in sent
    assert (words, "second" in sent, thrown_away.text in sent) == ("second", False, False)
    first, second, third = _sessions(bridge)
    assert first == second != third


async def test_h16_message_two_of_six_edited_is_told_to_a_fresh_session_with_all_that_stands_around_it(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    asked = await chat.do(["say", "I look. "], ["call", "look", {"at": "the moon"}])
    await chat.give(result(asked.calls[0], "round and pale"))
    await chat.say("the second message")
    await chat.say("the third message")
    _tell(chat, markers=False)
    whole = list(chat.history)
    edited = next(at for at, message in enumerate(whole) if message.text == "the second message")
    # What followed is gone; or it is still there.
    for rest in ([], whole[edited + 1 :]):
        chat.history = [*whole[:edited], user("the second, better"), *rest]
        if rest:
            chat.history.append(user("and on"))
        await chat.begin().end()
        *context, words = _heard(bridge)
        sent = "\n".join(context)
        assert words == ("and on" if rest else "the second, better")
        for piece in ("I look.", "called look", "the moon", "round and pale"):
            assert piece in sent
        assert "the second message" not in sent.replace('["the second message"]', "")
        assert ("the third message" in sent) == bool(rest)
    assert len(set(_sessions(bridge))) == 3


async def test_h17_a_summary_with_our_marker_goes_on_and_one_without_is_replayed(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    last = (await chat.say("second")).message()
    summary = user("<conversation-summary>\nThe milk was spoken of.\n</conversation-summary>")
    chat.history = [summary, last]
    assert await chat.echo() == ["still there?"]
    # The markers are gone with what was summarised: all there is is told.
    chat.history = [summary]
    assert any("The milk was spoken of." in text for text in await chat.echo())
    first, second, third, fourth = _sessions(bridge)
    assert first == second == third != fourth


@pytest.mark.parametrize("ending", [assistant("I am done."), user(" ")], ids=["an answer", "nothing"])
async def test_h18_a_history_that_ends_with_an_answer_is_refused_before_any_agent_hears_of_it(
    bridge: Bridge, ending: Message
) -> None:
    chat = bridge.chat()
    going = chat.begin(user("hello"), assistant("Hello!"), ending)
    with pytest.raises(LanguageModelError, match="ends with an assistant") as caught:
        await soon(going.task)
    assert (caught.value.kind, going.heard.parts) == ("bad_request", [])
    assert bridge.journal == []


async def test_h20_the_same_prompt_in_two_workspaces_is_two_conversations_each_in_its_folder(
    bridge: Bridge, tmp_path: Path
) -> None:
    chats = [bridge.chat(), bridge.chat()]
    for chat, name in zip(chats, ("here", "there"), strict=True):
        chat.folder = tmp_path / name
        chat.folder.mkdir()
        await chat.say("hello")
    for chat in chats:
        assert await chat.echo() == ["still there?"]
    assert [params["cwd"] for params in bridge.noted("session/new")] == [
        str(tmp_path / name) for name in ("here", "there")
    ]
    here, there, here_again, there_again = _sessions(bridge)
    assert here == here_again != there == there_again


async def test_h23_names_that_are_not_ours_are_ignored_and_logged(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    victim, thief = bridge.chat(), bridge.chat()
    [call] = (await victim.do(["call", "look", {}])).calls
    marker = next(part for part in victim.history[-1].content if isinstance(part, DataPart))
    forged = DataPart(STATEFUL_MARKER, marker.data[:-4] + b"AAAA")
    guessed = ToolCallPart(call.call_id[:-4] + "aaaa", "look", {})
    thief.history = [
        user("before"),
        assistant(forged, "x", guessed),
        user(result(guessed, "stolen")),
    ]
    with caplog.at_level(logging.WARNING, logger="dragoman.backends.agent.model"):
        answer = await thief.say("give me the rest")
    assert answer.text.startswith("echo: ")
    assert "not ours" in caplog.text
    assert guessed.call_id in caplog.text
    assert (await victim.give(result(call, "its own"))).text == "<look returned: its own>"
    assert len(set(_sessions(bridge))) == 2


async def test_h24_a_marker_first_and_nothing_before_it_is_enough(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    await chat.echo()
    marker = next(part for part in chat.history[-1].content if isinstance(part, DataPart))
    for _ in range(2):
        chat.history = [assistant(marker)]
        assert await chat.echo() == ["still there?"]
        marker = next(part for part in chat.history[-1].content if isinstance(part, DataPart))
    assert len(set(_sessions(bridge))) == 1


async def test_h25_rejected_in_the_first_turn_the_call_is_refused_and_only_the_new_words_prompted(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    opening = prompt(["call", "look", {}], ["say", "never said"])
    assert (await chat.say(opening)).calls
    chat.history = [user(opening)]
    assert (await chat.say("something else")).text == 'echo: ["something else"]'
    assert len(bridge.noted("session/cancel")) == 1
    assert len(set(_sessions(bridge))) == 1
    assert _heard(bridge) == ["something else"]


@with_and_without_markers
async def test_h27_stopped_in_mid_answer_the_beginning_of_it_is_enough(
    bridge: Bridge, *, markers: bool
) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    going = chat.begin(user(prompt(["say", "one two "], ["hang"])))
    await going.until(lambda heard: heard.text)
    cut = await going.cancel()
    # Only the first of the two markers has been there.
    assert [isinstance(part, DataPart) for part in cut.parts] == [True, False]
    chat.history[-1] = assistant(cut.parts[0], "one")
    _tell(chat, markers=markers)
    assert await chat.echo() == ["still there?"]
    assert len(set(_sessions(bridge))) == 1
