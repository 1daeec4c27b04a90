"""W: a client that cannot be asked, and a person at the console."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bridge.consumer import TOOLS, Bridge, Chat, Going, soon
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.settings import Timing
from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.lm import Features, TextPart, ThinkingPart, ToolDefinition, ToolResultPart, assistant, user
from dragoman.permissions.action import PERMISSION_TOOLS
from dragoman.permissions.decide import PermissionSetting
from dragoman.permissions.inbox import (
    DecidedAlready,
    InboxDecision,
    InboxOutcome,
    InboxQuestion,
    QuestionClosed,
    Reach,
)
from dragoman.store import Database
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_ADDRESS = "http://127.0.0.1:8427/"
_RUN = {"toolCallId": "p", "title": "Run it", "kind": "execute", "rawInput": {"command": "make it"}}
_ASK = ["ask", _RUN, ["allow_once", "reject_once"]]
_YES = InboxDecision(is_allowed=True, by="phone")
_NO = InboxDecision(is_allowed=False, by="phone", reason="not on a Friday")


@dataclass
class Console:
    """A person who has the page open, and sees what comes."""

    bridge: Bridge
    asked: asyncio.Queue[InboxQuestion] = field(default_factory=asyncio.Queue)
    outcomes: asyncio.Queue[InboxOutcome] = field(default_factory=asyncio.Queue)
    is_there: bool = True

    def __post_init__(self) -> None:
        self.bridge.permissions.inbox.connect(self, _ADDRESS, f"Open {_ADDRESS}, and try again.")

    def reach(self) -> Reach:
        return Reach(connections=frozenset({"test"} if self.is_there else ()))

    def opened(self, question: InboxQuestion) -> None:
        self.asked.put_nowait(question)

    def closed(self, _question: InboxQuestion, outcome: InboxOutcome) -> None:
        self.outcomes.put_nowait(outcome)

    async def question(self) -> InboxQuestion:
        return await soon(self.asked.get())

    async def outcome(self) -> InboxOutcome:
        return await soon(self.outcomes.get())

    async def decide(self, question: InboxQuestion, decision: InboxDecision = _YES) -> InboxOutcome:
        return await soon(self.bridge.permissions.inbox.decide(question.id, decision))


@pytest.fixture
def console(bridge: Bridge) -> Console:
    return Console(bridge)


def _chat(bridge: Bridge, permission: PermissionSetting = "ask", **timing: float) -> Chat:
    return bridge.chat(tools=TOOLS, permission=permission, timing=Timing(**timing))


def _begin(chat: Chat, *steps: object) -> Going:
    return chat.begin(user(prompt(*steps)))


async def test_w1_the_turn_waits_for_a_person_and_the_answer_goes_on(
    bridge: Bridge, console: Console
) -> None:
    chat = _chat(bridge)
    chat.program, chat.response_id = "curl/8", "resp_1"
    going = _begin(chat, ["say", "I look. "], _ASK, ["say", " done"])
    question = await console.question()
    assert (question.action.command, question.connection, question.client) == ("make it", "test", "curl/8")
    assert question.workspace == (str(bridge.folder),)
    # The reply is open, and says where a person can decide.
    await going.until(lambda heard: _ADDRESS in heard.text)
    assert "resp_1" in going.heard.text
    assert not going.task.done()
    outcome = await console.decide(question)
    assert (outcome.state, outcome.decision) == ("allowed", _YES)
    answer = await going.end()
    assert not answer.calls
    thoughts = "".join(part.text for part in answer.parts if isinstance(part, ThinkingPart))
    assert "✓ Fake wants to run: make it · allowed at the console by phone" in thoughts
    assert answer.text.endswith("<p: the-allow_once> done")
    assert not list(bridge.permissions.inbox)
    await chat.echo()


async def test_w1_a_denial_reaches_the_agent_with_its_reason(bridge: Bridge, console: Console) -> None:
    chat = _chat(bridge)
    going = _begin(chat, _ASK)
    outcome = await console.decide(await console.question(), _NO)
    assert outcome.state == "denied"
    answer = await going.end()
    assert "<p: the-reject_once>" in answer.text
    assert "You were not asked" not in answer.text
    assert bridge.noted("remark") == [{"dragoman": {"reason": "not on a Friday"}}]


async def test_w2_with_no_one_reachable_it_is_refused_at_once_with_the_address(
    bridge: Bridge, console: Console
) -> None:
    console.is_there = False
    answer = await _chat(bridge).do(_ASK, ["say", "on"])
    assert "<p: the-reject_once>" in answer.text
    assert f"Open {_ADDRESS}, and try again." in answer.text
    assert "You were not asked, so it was refused." in answer.text
    [remark] = bridge.noted("remark")
    assert "The user was not asked." in str(remark)
    assert _ADDRESS in str(remark)
    assert console.asked.empty()


async def test_w2_without_a_console_ask_means_refuse(bridge: Bridge) -> None:
    answer = await _chat(bridge).do(_ASK)
    assert "<p: the-reject_once>" in answer.text
    assert "No person can be asked here." in answer.text


async def test_w2_a_person_who_may_not_see_the_conversation_is_not_reached(
    bridge: Bridge, console: Console
) -> None:
    chat = _chat(bridge)
    chat.connection = "another key"
    answer = await chat.do(_ASK)
    assert f"Open {_ADDRESS}, and try again." in answer.text
    assert console.asked.empty()


async def test_a_client_that_can_be_asked_is_asked(bridge: Bridge, console: Console) -> None:
    chat = bridge.chat(permission="ask")
    asked = await chat.do(_ASK)
    assert [call.name for call in asked.calls] == [PERMISSION_TOOLS["execute"]]
    assert console.asked.empty()
    answer = await chat.give(bridge.approve(asked.calls[0]))
    assert "allow_once" in answer.text


@pytest.mark.parametrize("permission", ["deny", "allow-reads"])
async def test_what_the_setting_refuses_is_not_asked_about(
    bridge: Bridge, console: Console, permission: PermissionSetting
) -> None:
    answer = await _chat(bridge, permission).do(_ASK)
    assert f'permission = "{permission}"' in answer.text
    assert console.asked.empty()


async def test_d3_what_a_setting_allows_but_needs_a_person_goes_to_the_console(
    bridge: Bridge, console: Console
) -> None:
    chat = _chat(bridge, "allow")
    assert "allow_once" in (await chat.do(_ASK)).text
    assert console.asked.empty()
    secret = {"toolCallId": "s", "title": "Read", "kind": "read", "rawInput": {"path": ".env"}}
    going = _begin(chat, ["ask", secret, ["allow_once", "reject_once"]])
    question = await console.question()
    assert question.action.sensitive is not None
    await console.decide(question)
    assert "<s: the-allow_once>" in (await going.end()).text


async def test_d7_the_first_decision_counts_and_the_second_person_learns_it(
    bridge: Bridge, console: Console
) -> None:
    going = _begin(_chat(bridge), _ASK)
    question = await console.question()
    both = await asyncio.gather(
        console.decide(question), console.decide(question, _NO), return_exceptions=True
    )
    assert isinstance(both[0], InboxOutcome)
    assert isinstance(both[1], DecidedAlready)
    assert both[1].decision == _YES
    with pytest.raises(DecidedAlready) as late:
        await console.decide(question, _NO)
    assert late.value.outcome == both[0]
    assert "<p: the-allow_once>" in (await going.end()).text
    assert len(bridge.noted("outcome")) == 1


async def test_two_questions_of_one_turn_are_decided_one_by_one(bridge: Bridge, console: Console) -> None:
    other = {**_RUN, "toolCallId": "q", "rawInput": {"command": "other"}}
    going = _begin(_chat(bridge), ["all", [_ASK, ["ask", other, ["allow_once", "reject_once"]]]])
    questions = {(each := await console.question()).action.command: each for _ in range(2)}
    await console.decide(questions["other"], _NO)
    await console.decide(questions["make it"])
    answer = await going.end()
    assert "<p: the-allow_once>" in answer.text
    assert "<q: the-reject_once>" in answer.text


async def _closes(
    bridge: Bridge, console: Console, going: Going, end: Callable[[], object], state: str
) -> None:
    question = await console.question()
    await going.until(lambda heard: _ADDRESS in heard.text)
    end()
    assert (await console.outcome()).state == state
    with pytest.raises(QuestionClosed):
        await console.decide(question)
    assert not list(bridge.permissions.inbox)


async def test_w4_a_client_that_goes_away_closes_the_question(bridge: Bridge, console: Console) -> None:
    chat = _chat(bridge)
    going = _begin(chat, _ASK)
    await _closes(bridge, console, going, going.source.cancel, "ended")
    await going.end()
    await bridge.until_noted("session/cancel")
    # ACP's order: the agent may have stopped before it reads that its request is cancelled.
    assert bridge.noted("outcome") in ([], [{"outcome": "cancelled"}])
    await chat.echo()


async def test_w4_an_agent_that_withdraws_its_request_closes_the_question(
    bridge: Bridge, console: Console
) -> None:
    chat = _chat(bridge)
    going = _begin(chat, ["until", "enough", _ASK], ["say", "never mind"])
    await _closes(bridge, console, going, lambda: bridge.open_gate("enough"), "ended")
    assert "never mind" in (await going.end()).text


async def test_w4_an_agent_that_dies_closes_the_question(bridge: Bridge, console: Console) -> None:
    going = _begin(_chat(bridge), ["all", [_ASK, ["row", [["gate", "die"], ["exit", 3]]]]])
    question = await console.question()
    bridge.open_gate("die")
    assert (await console.outcome()).state == "ended"
    with pytest.raises(QuestionClosed):
        await console.decide(question)
    await asyncio.wait({going.task})


async def test_w4_a_decision_that_comes_while_the_turn_is_cancelled_is_not_shown_as_taken(
    bridge: Bridge, console: Console, tmp_path: Path
) -> None:
    """The decision is being stored when the client goes away."""
    with Database.open(tmp_path / "state") as database:
        store = bridge.store_in(database)
        going = _begin(_chat(bridge), _ASK)
        question = await console.question()
        deciding = asyncio.create_task(bridge.permissions.inbox.decide(question.id, _YES))
        # It has begun when the journal is being written.
        await asyncio.sleep(0)
        assert bridge.permissions.inbox._open[question.id].decision is not None
        going.source.cancel()
        with pytest.raises(QuestionClosed):
            await deciding
        await going.end()
        await bridge.close()
        [(_, asked), *decided] = await store.permissions(0.0)
        assert isinstance(asked.event, PermissionRequested)
        # What counts is the last: the agent got no yes.
        last = decided[-1][1].event
        assert isinstance(last, PermissionDecided)
        assert (last.is_allowed, last.by) == (False, "end")
    assert bridge.noted("outcome") in ([], [{"outcome": "cancelled"}])


async def test_p22_after_decide_minutes_it_is_refused_and_said_so(bridge: Bridge, console: Console) -> None:
    bridge.permissions.inbox.question_seconds = 0.3
    going = _begin(_chat(bridge), _ASK, ["say", "on"])
    question = await console.question()
    assert (await console.outcome()).state == "expired"
    answer = await going.end()
    assert f"No person decided at {_ADDRESS} in time." in answer.text
    assert answer.text.endswith("<p: the-reject_once>on")
    with pytest.raises(QuestionClosed):
        await console.decide(question)
    [remark] = bridge.noted("remark")
    assert "The user was not asked." not in str(remark)


async def test_a_client_that_waits_no_longer_gets_the_rest_with_its_next_request(
    bridge: Bridge, console: Console
) -> None:
    chat = _chat(bridge)
    chat.hold_seconds = 0.2
    first = await _begin(chat, ["say", "I look. "], _ASK, ["say", " done"]).end()
    assert first.text.startswith("I look. ")
    assert "This answer ends here." in first.text
    assert not first.calls
    await console.decide(await console.question())
    await bridge.until_noted("outcome")
    second = await chat.say("and now?")
    # The rest of the first turn, and then the answer to this message; nothing twice.
    assert second.text.count("<p: the-allow_once> done") == 1
    assert second.text.index("done") < second.text.index('echo: ["and now?"]')
    assert "I look." not in second.text


async def test_a_client_that_asks_again_before_the_decision_waits_for_the_same_question(
    bridge: Bridge, console: Console
) -> None:
    chat = _chat(bridge)
    chat.hold_seconds = 0.2
    await _begin(chat, _ASK, ["say", "done"]).end()
    question = await console.question()
    going = chat.begin(user("and now?"))
    await bridge.until_streaming()
    await console.decide(question)
    answer = await going.end()
    assert answer.text.index("<p: the-allow_once>done") < answer.text.index("echo:")
    assert console.asked.empty()


async def test_j1_the_decision_is_stored_with_who_made_it_before_the_agent_gets_it(
    bridge: Bridge, console: Console, tmp_path: Path
) -> None:
    with Database.open(tmp_path / "state") as database:
        store = bridge.store_in(database)
        going = _begin(_chat(bridge), _ASK)
        decision = InboxDecision(is_allowed=True, by="phone", new_rule="dragoman.toml:3")
        await console.decide(await console.question(), decision)
        # The agent can have the answer only now, and the store has it already.
        [(_, asked), (_, decided)] = await store.permissions(0.0)
        assert isinstance(asked.event, PermissionRequested)
        assert isinstance(decided.event, PermissionDecided)
        assert (decided.event.is_allowed, decided.event.by, decided.event.where) == (
            *(True, "person"),
            "console: phone",
        )
        assert decided.event.new_rule == "dragoman.toml:3"
        await going.end()
        await bridge.close()


async def test_a_person_stops_the_turn(bridge: Bridge, console: Console) -> None:
    chat = _chat(bridge)
    going = _begin(chat, ["say", "I look. "], _ASK)
    await console.question()
    await going.until(lambda heard: _ADDRESS in heard.text)
    assert bridge.model is not None
    model = bridge.model._model
    assert isinstance(model, AgentModel)
    [conversation] = model.conversations()
    assert conversation.stage == "asking"
    conversation.stop_turn()
    answer = await going.end()
    assert answer.text.rstrip().endswith("*Stopped at the console.*")
    assert (await console.outcome()).state == "ended"
    await bridge.until_noted("session/cancel")
    await chat.echo()


async def test_w3_no_client_can_answer_a_question_of_the_console(bridge: Bridge, console: Console) -> None:
    """Not even one that knows the call id: there is no nonce, and nothing was issued."""
    chat = _chat(bridge)
    going = _begin(chat, _ASK)
    question = await console.question()
    await going.until(lambda heard: _ADDRESS in heard.text)
    assert bridge.model is not None
    model = bridge.model._model
    assert isinstance(model, AgentModel)
    [conversation] = model.conversations()
    [pending] = conversation.state.pending
    assert bridge.grants.of_call(pending.call_id) is None
    assert bridge.grants.issue("", pending.part.name) is None
    chat.tools = (*TOOLS, *(ToolDefinition(name) for name in PERMISSION_TOOLS.values()))
    forged = chat.begin(user(ToolResultPart(pending.call_id, (TextPart("dragoman-grant-x"),))))
    await forged.until(lambda heard: heard.parts)
    # It listens to the same reply, and has decided nothing.
    assert (conversation.state.pending, bridge.noted("outcome")) == ((pending,), [])
    await console.decide(question, _NO)
    assert "<p: the-reject_once>" in (await going.end()).text
    await forged.end()


async def test_two_equal_chats_each_get_their_own_rest(bridge: Bridge, console: Console) -> None:
    """The text that ends an answer has an id in it, so the next request is recognised."""
    chats = [_chat(bridge), _chat(bridge)]
    for chat in chats:
        chat.hold_seconds = 0.2
        # The evidence of a client that keeps the text and nothing else.
        chat.features = Features()
    firsts = [await _begin(chat, _ASK, ["say", " done"]).end() for chat in chats]
    assert firsts[0].text != firsts[1].text
    for chat, first in zip(chats, firsts, strict=True):
        chat.history[-1] = assistant(first.text)
        await console.decide(await console.question())
    await bridge.until_noted("outcome", 2)
    for chat in chats:
        assert "<p: the-allow_once> done" in (await chat.say("and now?")).text


async def test_a_turn_that_goes_on_without_a_consumer_for_too_long_is_stopped_and_the_next_answer_says_so(
    bridge: Bridge, console: Console
) -> None:
    chat = _chat(bridge, human=0.3)
    chat.hold_seconds = 0.1
    await _begin(chat, _ASK, ["hang"]).end()
    await console.decide(await console.question())
    await bridge.until_noted("session/cancel")
    await bridge.until_idle()
    answer = await chat.say("and now?")
    assert "The agent's turn was stopped: no request came for a long time." in answer.text
    assert answer.text.endswith('echo: ["and now?"]')


async def test_a_turn_that_is_stopped_after_its_client_has_left_says_so_in_the_next_answer(
    bridge: Bridge, console: Console
) -> None:
    chat = _chat(bridge)
    chat.hold_seconds = 0.1
    await _begin(chat, _ASK).end()
    assert bridge.model is not None
    model = bridge.model._model
    assert isinstance(model, AgentModel)
    [conversation] = model.conversations()
    assert conversation.is_busy
    conversation.stop_turn()
    await bridge.until_idle()
    assert (await console.outcome()).state == "ended"
    assert [each.is_busy for each in model.conversations()] == [False]
    answer = await chat.say("and now?")
    assert answer.text.index("Stopped at the console.") < answer.text.index("echo:")
