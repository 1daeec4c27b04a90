"""Statements of document 002 that no scenario has by itself: its two histories, and the names of its states."""

from __future__ import annotations

import pytest

from agent.bridge import Bridge, Chat
from dragoman.backends.agent.machine.machine import State, handle
from dragoman.backends.agent.machine.types import AgentStarted, Called, Pending, Requested, TimerPassed
from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt, NormalResult, item_key
from dragoman.lm import ToolCallPart, user


def _asked() -> tuple[Chat, str, str]:
    """A chat whose first answer ended with a call: the conversation and the call."""
    chat = Chat(Bridge())
    reply = chat.ask("one", "Let me see.", calls=1)
    [call_id] = reply.call_ids
    return chat, reply.conversation, call_id


def test_case_1_a_request_with_call_and_result_commits_what_was_provisional() -> None:
    chat, conversation, call_id = _asked()
    reply = chat.give({call_id: "found"}, "I see.")
    assert (reply.found.kind, reply.conversation) == ("results", conversation)
    said, asked, result, answer = chat.bridge.record(conversation).keys
    assert said == item_key(NormalPrompt("one"))
    assert asked == item_key(NormalAnswer("Let me see.", ((call_id, "look", '{"n":1.0}'),)))
    assert result == item_key(NormalResult(call_id))
    assert answer == item_key(NormalAnswer("I see."))
    assert chat.bridge.record(conversation).pending == frozenset()


def test_case_2_a_request_without_the_call_goes_back_to_what_was_committed() -> None:
    chat, conversation, call_id = _asked()
    # The editor has forgotten the turn: its prompt is there, its answer and the call are not.
    chat.history = [user("one")]
    reply = chat.ask("two", "Two it is.")
    assert (reply.found.kind, reply.conversation) == ("refusal", conversation)
    kept: tuple[NormalItem, ...] = (NormalPrompt("one"), NormalPrompt("two"), NormalAnswer("Two it is."))
    assert chat.bridge.record(conversation).keys == tuple(map(item_key, kept))
    # The call is over for good: a result that turns up later answers nothing.
    late = chat.give({call_id: "found"})
    assert call_id not in {result.call_id for result in late.found.results}


@pytest.mark.parametrize("kind", ["call", "permission"])
def test_the_two_waiting_states_of_the_document_are_views_of_one(kind: str) -> None:
    pending = Pending("k", kind, ToolCallPart("dg_1", "look", {}))  # type: ignore[arg-type] # both kinds there are
    state = State()
    phases = [state.phase]
    for event in (
        Requested(1, prompt=(user("one"),)),
        AgentStarted(),
        Called(pending),
        TimerPassed("gather"),
    ):
        state, _ = handle(state, event)
        phases.append(state.phase)
    assert phases == ["Parked", "Starting", "Streaming", "Streaming", "Awaiting"]
    assert state.awaits_permission == (kind == "permission")
