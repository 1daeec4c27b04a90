"""Answers of a form and required calls, with a real process behind them: held back, judged, asked for once more."""

from __future__ import annotations

import json

import pytest

from bridge.consumer import Bridge, Chat, Heard, result, soon
from dragoman.lm import (
    ActivityPart,
    AnswerForm,
    Features,
    LanguageModelError,
    Part,
    TextPart,
    ThinkingPart,
    ToolDefinition,
    user,
)
from fake_agent.steps import prompt
from process.living import all_gone

pytestmark = pytest.mark.long

CITY = AnswerForm(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
        "required": ["city", "people"],
        "additionalProperties": False,
    },
    "city",
)
GOOD = '{"city": "Köln", "people": 1}'
_BOTH = ["allow_once", "reject_once"]
_STEP = ["update", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run", "kind": "execute"}]
_STEP_ENDS = ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}]


def _formed(bridge: Bridge, form: AnswerForm = CITY, **options: object) -> Chat:
    chat = bridge.chat(**options)  # type: ignore[arg-type]  # options of the fake agent
    chat.form = form
    chat.features = Features(
        thinking=True, data=True, keeps_parts_of_failures=True, reports=True, activity=True
    )
    return chat


def _prompts(bridge: Bridge) -> list[list[str]]:
    return [
        [block.get("text", "") for block in params["prompt"]]  # type: ignore[attr-defined]
        for params in bridge.noted("session/prompt")
    ]


def _kinds(heard: Heard) -> list[type[Part]]:
    return [type(part) for part in heard.parts if isinstance(part, TextPart | ThinkingPart | ActivityPart)]


async def _fails(chat: Chat, *steps: object) -> tuple[LanguageModelError, Heard]:
    going = chat.begin(user(prompt(*steps)))
    with pytest.raises(LanguageModelError) as failed:
        await going.end()
    return failed.value, going.heard


async def test_the_agent_gets_the_schema_in_words_before_the_users_message(bridge: Bridge) -> None:
    chat = _formed(bridge)
    steps = [["say", GOOD]]
    assert (await chat.do(*steps)).text == GOOD
    (blocks,) = _prompts(bridge)
    *_, words, said = blocks
    assert said == prompt(*steps)
    assert words.startswith("<answer-form>\n")
    schema = next(line for line in words.splitlines() if line.startswith("{"))
    assert json.loads(schema) == CITY.schema


async def test_text_is_held_back_and_only_the_json_of_the_last_message_is_text(bridge: Bridge) -> None:
    chat = _formed(bridge)
    before, after = f"Here it is:\n```json\n{GOOD[:10]}", f"{GOOD[10:]}\n```\nAsk me more."
    steps = (
        ["think", "hm"],
        ["say", "I look. {}"],
        _STEP,
        _STEP_ENDS,
        ["say", before],
        ["note", "half"],
        ["gate", "go"],
        ["say", after],
    )
    going = chat.begin(user(prompt(*steps)))
    await bridge.until_noted("half")
    await going.until(lambda heard: ActivityPart in _kinds(heard))
    assert going.heard.text == ""
    # What was said before the step cannot be the answer any more.
    assert going.heard.thinking == "hmI look. {}"
    bridge.open_gate("go")
    answer = await going.end()
    assert answer.text == GOOD
    assert answer.thinking == "hmI look. {}Here it is:\n\nAsk me more."
    assert _kinds(answer)[-1] is TextPart


async def test_an_answer_without_the_form_is_asked_for_once_more_with_the_reason(bridge: Bridge) -> None:
    chat = _formed(bridge)
    answer = await chat.do(["say", '{"city": "Bonn"}'], ["again", [["say", GOOD]]])
    assert (answer.text, answer.thinking) == (GOOD, '{"city": "Bonn"}')
    _, (*_, words, again) = _prompts(bridge)
    assert words.startswith("<answer-form>")
    assert "people: required, but missing" in again
    assert len(bridge.noted("session/new")) == 1


async def test_a_second_wrong_answer_is_an_error_that_has_the_reason_and_the_words(bridge: Bridge) -> None:
    chat = _formed(bridge)
    error, heard = await _fails(chat, ["say", "No idea."], ["again", [["say", "Still none."]]])
    assert error.kind == "agent_failed"
    assert "even when it was asked again: the answer has no JSON value" in error.sentence
    assert "Still none." in error.sentence
    assert (heard.text, heard.thinking) == ("", "No idea.Still none.")
    # The conversation goes on, and the next request has a form of its own.
    assert (await chat.do(["say", GOOD])).text == GOOD
    assert len(_prompts(bridge)) == 3


async def test_the_next_request_is_recognised_by_what_the_client_was_sent(bridge: Bridge) -> None:
    chat = _formed(bridge)
    await chat.do(["say", f"Sure: {GOOD}"])
    # A client that keeps nothing but the text.
    chat.history[-1:] = [type(chat.history[0])("assistant", (TextPart(GOOD),))]
    chat.form = None
    assert (await chat.echo())[-1] == "still there?"
    assert len(bridge.noted("session/new")) == 1
    assert len(_prompts(bridge)[-1]) == 1, "neither the history nor the form is sent again"


async def test_any_object_is_enough_without_a_schema(bridge: Bridge) -> None:
    chat = _formed(bridge, AnswerForm())
    assert (await chat.do(["say", '{"a": [1]}'])).text == '{"a": [1]}'
    error, _ = await _fails(chat, ["say", "[1]"], ["again", [["say", "[2]"]]])
    assert "not an object" in error.sentence


async def test_functions_may_be_called_first_and_only_the_last_reply_has_the_form(bridge: Bridge) -> None:
    chat = _formed(bridge)
    steps = (["say", "I ask first."], ["call", "look", {}], ["say", "oh"], _STEP, ["say", GOOD])
    first = await chat.do(*steps)
    (call,) = first.calls
    assert (first.text, first.thinking) == ("", "I ask first.")
    last = await chat.give(result(call, "seen"))
    assert last.text == GOOD
    assert "<look returned: seen>oh" in last.thinking
    assert len(_prompts(bridge)) == 1


async def test_a_call_in_the_second_asking_ends_the_reply_and_the_form_still_holds(bridge: Bridge) -> None:
    chat = _formed(bridge)
    first = await chat.do(["say", "prose"], ["again", [["call", "look", {}], ["again", [["say", GOOD]]]]])
    (call,) = first.calls
    assert (first.text, first.thinking) == ("", "prose")
    last = await chat.give(result(call, "seen"))
    assert last.text == GOOD
    assert len(_prompts(bridge)) == 3


async def test_a_permission_request_in_the_middle_is_asked_as_always(bridge: Bridge) -> None:
    chat = _formed(bridge)
    ask = ["ask", {"toolCallId": "p", "title": "Run it", "kind": "execute"}, _BOTH, "quiet"]
    first = await chat.do(["say", "May I?"], ask, ["say", "x"], ["again", [ask, ["say", GOOD]]])
    (call,) = first.calls
    assert first.text == ""
    second = await chat.give(bridge.approve(call))
    (call,) = second.calls
    last = await chat.give(bridge.approve(call))
    assert last.text == GOOD
    assert [outcome["optionId"] for outcome in bridge.noted("outcome")] == ["the-allow_once"] * 2


async def test_a_cancel_during_either_asking_ends_the_turn_and_nothing_of_it_comes_later(
    bridge: Bridge,
) -> None:
    chat = _formed(bridge)
    going = chat.begin(user(prompt(["say", "{"], ["note", "one"], ["hang"])))
    await bridge.until_noted("one")
    await going.cancel()
    going = chat.begin(user(prompt(["say", "prose"], ["again", [["say", "{"], ["note", "two"], ["hang"]]])))
    await bridge.until_noted("two")
    await going.cancel()
    chat.form = None
    chat.history = [message for message in chat.history if message.role == "user"]
    await chat.echo()


async def test_a_crash_during_the_second_asking_is_an_error_and_the_next_request_goes_on(
    bridge: Bridge,
) -> None:
    chat = _formed(bridge, load=True)
    error, heard = await _fails(chat, ["say", "prose"], ["again", [["exit", 7]]])
    assert "exited with code 7" in error.sentence
    assert heard.text == ""
    assert (await chat.do(["say", GOOD])).text == GOOD


async def test_a_crash_right_after_the_answer_does_not_lose_it(bridge: Bridge) -> None:
    """The check takes a moment, in which the process ends."""
    form = AnswerForm({"type": "object", "properties": {"a": {"type": "string", "pattern": "^b+$"}}})
    chat = _formed(bridge, form)
    answer = await chat.do(["say", '{"a": "bb"}'], ["after", [["exit", 7]]])
    assert answer.text == '{"a": "bb"}'
    await soon(all_gone(bridge.pids))


async def test_a_regular_expression_that_never_ends_does_not_hold_the_server(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.forms.checking.CHECK_SECONDS", 2.0)
    form = AnswerForm({"properties": {"a": {"pattern": "^(a+)+$"}}})
    chat = _formed(bridge, form)
    hostile = json.dumps({"a": "a" * 60 + "!"})
    answer = await chat.do(["say", hostile], ["again", [["say", '{"a": "aaa"}']]])
    assert answer.text == '{"a": "aaa"}'
    assert "takes longer than" in _prompts(bridge)[-1][-1]


async def test_an_agent_that_stops_early_is_not_asked_again_and_has_no_text(bridge: Bridge) -> None:
    chat = _formed(bridge)
    answer = await chat.do(["say", '{"city": '], ["stop", "max_tokens"])
    assert (answer.text, answer.thinking) == ("", '{"city": ')
    assert [part for part in answer.data if b"length" in part.data]
    assert len(_prompts(bridge)) == 1


async def test_a_retry_joins_and_gets_the_json_once(bridge: Bridge) -> None:
    chat = _formed(bridge)
    await chat.do(["say", GOOD])
    first = chat.begin(user(prompt(["say", GOOD[:5]], ["note", "half"], ["gate", "go"], ["say", GOOD[5:]])))
    await bridge.until_noted("half")
    second = chat.begin()
    await second.until(lambda heard: heard.parts)
    bridge.open_gate("go")
    assert [(await going.end()).text for going in (first, second)] == [GOOD, GOOD]
    assert len(_prompts(bridge)) == 2


async def test_the_same_words_with_another_form_are_another_request(bridge: Bridge) -> None:
    chat = _formed(bridge)
    await chat.do(["say", GOOD])
    chat.history.append(user(prompt(["say", GOOD])))
    await chat.begin().end()
    chat.history.pop()
    chat.form = None
    answer = await chat.begin().end()
    assert answer.text == GOOD
    assert len(_prompts(bridge)) == 3


async def test_a_consumer_without_thinking_gets_nothing_but_the_json(bridge: Bridge) -> None:
    chat = _formed(bridge)
    chat.features = Features(keeps_parts_of_failures=True)
    picture = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    show = ["update", {"sessionUpdate": "agent_message_chunk", "content": picture}]
    answer = await chat.do(["think", "hm"], ["say", "So: "], show, ["say", GOOD])
    assert answer.text == GOOD


# Required calls.


async def _required(bridge: Bridge, *names: str) -> Chat:
    chat = bridge.chat(tools=tuple(ToolDefinition(name, "A tool.", {"type": "object"}) for name in names))
    chat.tool_mode = "required"
    chat.features = Features(thinking=True, keeps_parts_of_failures=True)
    return chat


async def test_t14_a_required_call_is_said_in_words_by_the_names_that_the_agent_knows(bridge: Bridge) -> None:
    long = "look_" + "x" * 59
    chat = await _required(bridge, "look", long)
    answer = await chat.do(["say", "I look."], ["call", "look", {}])
    assert [call.name for call in answer.calls] == ["look"]
    assert (answer.text, answer.thinking) == ("", "I look.")
    ((words, _),) = _prompts(bridge)
    (listed,) = bridge.noted("listed")
    for name in listed["tools"]:  # type: ignore[attr-defined]
        assert f"`{name}`" in words
    assert long not in words


async def test_t14_a_turn_without_the_required_call_is_asked_for_it_once_more(bridge: Bridge) -> None:
    chat = await _required(bridge, "look")
    answer = await chat.do(["say", "No need."], ["again", [["call", "look", {}], ["say", "so"]]])
    (call,) = answer.calls
    assert answer.thinking == "No need."
    # It holds for the next reply as well: the agent has one more try.
    chat.history.append(user(result(call, "seen")))
    going = chat.begin()
    with pytest.raises(LanguageModelError, match="A function call is required, but Fake made none"):
        await going.end()
    assert going.heard.text == ""
    assert len(_prompts(bridge)) == 3


async def test_a_request_that_requires_a_call_and_offers_none_is_refused(bridge: Bridge) -> None:
    chat = bridge.chat()
    chat.tools = tuple(tool for tool in chat.tools if tool.name.startswith("dragoman-"))
    chat.tool_mode = "required"
    with pytest.raises(LanguageModelError, match="offered no tool") as refused:
        await chat.do(["say", "x"])
    assert refused.value.kind == "bad_request"


async def test_an_early_stop_before_a_required_call_is_no_end(bridge: Bridge) -> None:
    chat = await _required(bridge, "look")
    chat.features = Features(thinking=True, keeps_parts_of_failures=True, reports=True)
    answer = await chat.do(["say", "long"], ["again", [["call", "look", {}]]], ["stop", "max_tokens"])
    assert [call.name for call in answer.calls] == ["look"]
    assert not [part for part in answer.data if b"length" in part.data]
    assert "limit of tokens" in answer.text


# Side requests.


async def test_a_side_request_has_the_form_or_fails(bridge: Bridge) -> None:
    main = bridge.chat()
    await main.do(["say", "hello"])
    aside = bridge.aside()
    aside.form, aside.features = CITY, Features(thinking=True, keeps_parts_of_failures=True)
    answer = await aside.do(["say", "Hm."], ["again", [["say", f"So: {GOOD}"]]])
    assert (answer.text, answer.thinking) == (GOOD, "Hm.So:")
    aside.history.clear()
    error, heard = await _fails(aside, ["say", "No."], ["again", [["say", "Never."]]])
    assert "Never." in error.sentence
    assert heard.text == ""
    assert await main.echo() == ["still there?"]
