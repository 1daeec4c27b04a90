"""What is said to an agent, and what the end of its turn adds to its answer."""

from __future__ import annotations

import pytest

from dragoman.acp.content import TextBlock
from dragoman.acp.messages import PromptResponse
from dragoman.backends.agent.prompt.prompting import (
    beginning_with,
    command_of,
    compose,
    last_words,
    split_prompt,
)
from dragoman.lm import DataPart, Message, Part, TextPart, ToolResultPart, assistant, user
from dragoman.lm.parts import STOPPED
from dragoman.lm.stops import Stopped

_PICTURE = DataPart.image(b"\x89PNG", "image/png")


def _texts(*messages: Message) -> list[str]:
    composed = compose(messages, context="", history=(), images=False, budget=1_000)
    return [block.text for block in composed.blocks if isinstance(block, TextBlock)]


def test_the_last_words_are_those_behind_the_last_answer() -> None:
    earlier = (user("one"), assistant("two"))
    assert split_prompt((*earlier, user("three"), user("four"))) == (earlier, (user("three"), user("four")))
    assert split_prompt((user("one"),)) == ((), (user("one"),))


def test_results_of_calls_that_it_has_not_made_belong_to_what_went_before() -> None:
    transcript, words = _texts(user(ToolResultPart("a", (TextPart("found"),)), "and now?"))
    assert "found" in transcript
    assert words == "and now?"


def test_without_new_words_it_is_told_to_go_on() -> None:
    assert _texts(user(ToolResultPart("a", (TextPart("found"),))))[-1] == (
        "Go on from where the conversation stopped."
    )


def test_what_it_cannot_take_is_named_once() -> None:
    composed = compose([user("look", _PICTURE, _PICTURE)], context="", history=(), images=False, budget=1_000)
    assert composed.notices == ("The agent cannot take image/png; it was left out.",)
    assert composed.left_out == ("image/png",)


def test_what_it_cannot_take_of_the_history_is_named_for_programs() -> None:
    table, report = DataPart("text/csv", b"a,b"), DataPart("application/pdf", b"%PDF")
    found = user(ToolResultPart("a", (TextPart("found"), report, table, _PICTURE)))
    history = (user("look", _PICTURE), assistant("yes", Stopped("other", "So.").part), found)
    without = compose([user("go")], context="", history=history, images=False, budget=10_000)
    assert without.left_out == ("image/png", "application/pdf")
    with_images = compose([user("go", report)], context="", history=history, images=True, budget=10_000)
    assert with_images.left_out == ("application/pdf",)


def test_what_the_transcript_leaves_out_is_told() -> None:
    history = (user("long " * 1_000), assistant("yes"))
    composed = compose([user("go")], context="Be brief.", history=history, images=False, budget=100)
    assert len(composed.notices) == 1
    assert "Be brief." in str(composed.blocks[0])


def _stopped(parts: tuple[Part, ...]) -> Stopped:
    [part] = parts
    assert isinstance(part, DataPart)
    assert part.mime_type == STOPPED
    return Stopped.of(part)


@pytest.mark.parametrize(
    ("stop", "reason", "words"),
    [
        ("max_tokens", "length", "The agent stopped: it reached the limit of tokens for one answer."),
        ("refusal", "content_filter", "The agent refused to go on."),
        ("cancelled", "other", "The agent stopped this turn by itself."),
        ("_tired*", "other", "The agent stopped: \\_tired\\*."),
    ],
)
def test_why_an_answer_is_not_what_it_seems_is_said(stop: str, reason: str, words: str) -> None:
    said = _stopped(last_words(PromptResponse(stop)))
    assert (said.reason, said.words) == (reason, words)


def test_a_turn_that_ends_as_it_should_adds_nothing() -> None:
    assert last_words(PromptResponse("end_turn", {"inputTokens": 3, "outputTokens": 4})) == ()


@pytest.mark.parametrize("stop", ["end_turn", "cancelled"])
def test_a_turn_that_ends_in_silence_after_a_refusal_says_so(stop: str) -> None:
    [part] = last_words(PromptResponse(stop), silenced=True)
    assert isinstance(part, TextPart)
    assert "The agent ended its turn after the refusal." in part.value


def test_silence_after_a_refusal_does_not_hide_another_reason() -> None:
    assert _stopped(last_words(PromptResponse("max_tokens"), silenced=True)).reason == "length"


@pytest.mark.parametrize(
    ("said", "command"),
    [
        (["/plan the garden"], "/plan the garden"),
        ([_PICTURE, "/plan"], "/plan"),
        (["/plans"], None),
        (["/"], None),
        (["do /plan"], None),
        ([_PICTURE], None),
    ],
)
def test_a_command_of_the_agent_begins_a_text_of_the_user(
    said: list[str | Part], command: str | None
) -> None:
    assert command_of([user(*said)], {"plan"}) == command


def test_a_command_is_the_first_block() -> None:
    composed = compose(
        [user(_PICTURE, "/plan it", "now")], context="", history=(), images=False, budget=1_000
    )
    blocks = beginning_with(composed, "/plan it").blocks
    assert [block.text for block in blocks if isinstance(block, TextBlock)] == [
        "/plan it",
        "[image/png, 4 bytes: left out]",
        "now",
    ]
    assert beginning_with(composed, "not there") == composed
