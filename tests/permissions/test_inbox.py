"""The inbox: the first decision counts, and a decision counts when the conversation has it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from dragoman.permissions.action import Action
from dragoman.permissions.decide import Ask
from dragoman.permissions.inbox import (
    DecidedAlready,
    DecisionNotAcknowledged,
    Inbox,
    InboxDecision,
    InboxOutcome,
    InboxQuestion,
    QuestionClosed,
    Reach,
)

_ACTION = Action(agent="a", agent_name="A", risk="execute", kind="execute", title="x", folder="/w")
_YES = InboxDecision(is_allowed=True, by="phone")
_NO = InboxDecision(is_allowed=False, by="laptop", reason="no")


@dataclass
class _Owner:
    """A conversation: it closes the question as the decision says, unless it has ended."""

    inbox: Inbox
    id: str = ""
    has_ended: bool = False
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    got: list[InboxDecision] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def ask(self, conversation: str = "c") -> str:
        self.id = self.inbox.open(
            _ACTION,
            Ask(),
            self.apply,
            self.give_up,
            conversation=conversation,
            connection="k",
            client="curl",
            approval_session="s",
            workspace=("/w",),
        )
        return self.id

    def give_up(self, reason: str) -> None:
        self.reasons.append(reason)
        self.inbox.close(self.id, "expired")

    async def apply(self, decision: InboxDecision) -> None:
        await self.may_answer.wait()
        if not self.has_ended:
            self.got.append(decision)
            self.inbox.close(self.id, "allowed" if decision.is_allowed else "denied")


@dataclass
class _Watcher:
    seen: list[tuple[str, str]] = field(default_factory=list)

    def reach(self) -> Reach:
        return Reach(connections=frozenset({"k"}))

    def opened(self, question: InboxQuestion) -> None:
        self.seen.append(("opened", question.id))

    def closed(self, question: InboxQuestion, outcome: InboxOutcome) -> None:
        self.seen.append((outcome.state, question.id))


def _inbox() -> tuple[Inbox, _Watcher]:
    watcher = _Watcher()
    inbox = Inbox(now=lambda: 100.0, monotonic=lambda: 7.0)
    inbox.connect(watcher, "http://127.0.0.1/", "Open it.", question_seconds=60)
    return inbox, watcher


async def test_a_question_waits_until_it_is_decided() -> None:
    inbox, watcher = _inbox()
    owner = _Owner(inbox)
    id_ = owner.ask()
    [question] = inbox
    assert (question.id, question.asked_at, question.expires_at, len(inbox)) == (id_, 100.0, 160.0, 1)
    assert (inbox.find(id_), inbox.connection(id_)) == (question, "k")
    assert inbox.outcome(id_) is None
    owner.may_answer.set()
    outcome = await inbox.decide(id_, _YES)
    assert outcome == InboxOutcome("allowed", 100.0, _YES)
    # What was asked does not stay in memory.
    assert (list(inbox), inbox.find(id_), inbox.outcome(id_)) == ([], None, outcome)
    assert inbox.connection(id_) == "k"
    assert watcher.seen == [("opened", id_), ("allowed", id_)]


def test_since_when_a_conversation_waits() -> None:
    moments = iter([100.0, 101.0])
    inbox = Inbox(monotonic=lambda: next(moments))
    assert inbox.waiting_since("c") is None
    first = _Owner(inbox).ask()
    _Owner(inbox).ask()
    assert (inbox.waiting_since("c"), inbox.waiting_since("another")) == (100.0, None)
    inbox.close(first, "ended")
    assert inbox.waiting_since("c") == 101.0


async def test_d7_the_first_of_two_counts() -> None:
    inbox, _ = _inbox()
    owner = _Owner(inbox)
    id_ = owner.ask()
    first = asyncio.create_task(inbox.decide(id_, _NO))
    await asyncio.sleep(0)
    with pytest.raises(DecidedAlready) as under_way:
        await inbox.decide(id_, _YES)
    assert (under_way.value.decision, under_way.value.outcome) == (_NO, None)
    owner.may_answer.set()
    outcome = await first
    assert outcome.state == "denied"
    with pytest.raises(DecidedAlready) as late:
        await inbox.decide(id_, _YES)
    assert late.value.outcome == outcome
    assert owner.got == [_NO]


async def test_w4_a_decision_that_does_not_reach_its_owner_is_not_taken_and_the_next_one_may_be() -> None:
    inbox, watcher = _inbox()
    owner = _Owner(inbox, has_ended=True)
    id_ = owner.ask()
    owner.may_answer.set()
    with pytest.raises(QuestionClosed) as closed:
        await inbox.decide(id_, _YES)
    assert closed.value.outcome is None
    owner.has_ended = False
    assert (await inbox.decide(id_, _NO)).decision == _NO
    assert watcher.seen[-1] == ("denied", id_)


async def test_w4_a_question_that_ends_while_a_decision_is_on_its_way_has_no_decision() -> None:
    inbox, _ = _inbox()
    owner = _Owner(inbox, has_ended=True)
    id_ = owner.ask()
    deciding = asyncio.create_task(inbox.decide(id_, _YES))
    await asyncio.sleep(0)
    inbox.close(id_, "ended")
    owner.may_answer.set()
    with pytest.raises(QuestionClosed) as closed:
        await deciding
    assert closed.value.outcome == InboxOutcome("ended", 100.0)
    with pytest.raises(QuestionClosed) as later:
        await inbox.decide(id_, _NO)
    assert later.value.outcome == InboxOutcome("ended", 100.0)


async def test_an_owner_that_fails_leaves_the_question_open() -> None:
    inbox, _ = _inbox()

    async def fail(_decision: InboxDecision) -> None:
        raise OSError("the disk is full")

    id_ = inbox.open(
        _ACTION,
        Ask(),
        fail,
        print,
        conversation="c",
        connection="k",
        client="",
        approval_session="s",
        workspace=("/w",),
    )
    with pytest.raises(OSError, match="full"):
        await inbox.decide(id_, _YES)
    assert inbox.check_open(id_).id == id_


async def test_unknown_questions_and_closing_twice() -> None:
    inbox, watcher = _inbox()
    with pytest.raises(QuestionClosed) as unknown:
        await inbox.decide("made up", _YES)
    assert unknown.value.outcome is None
    assert (inbox.find("made up"), inbox.connection("made up")) == (None, None)
    id_ = _Owner(inbox).ask()
    inbox.close(id_, "expired")
    inbox.close(id_, "allowed")
    inbox.close_with(id_, InboxOutcome("allowed", 1.0))
    assert watcher.seen == [("opened", id_), ("expired", id_)]


def test_the_outcomes_that_stay_in_memory_are_bounded() -> None:
    inbox = Inbox()
    ids = [_Owner(inbox).ask() for _ in range(201)]
    for id_ in ids:
        inbox.close(id_, "ended")
    assert inbox.outcome(ids[0]) is None
    assert inbox.outcome(ids[1]) is not None
    assert len(set(ids)) == 201


async def test_when_the_console_ends_what_waits_is_refused_and_what_is_decided_counts() -> None:
    inbox, watcher = _inbox()
    waiting, decided = _Owner(inbox), _Owner(inbox)
    waiting.ask()
    id_ = decided.ask()
    deciding = asyncio.create_task(inbox.decide(id_, _YES))
    await asyncio.sleep(0)
    inbox.disconnect()
    assert ("expired", waiting.id) in watcher.seen
    assert (len(waiting.reasons), decided.reasons, inbox.address) == (1, [], "")
    decided.may_answer.set()
    assert (await deciding).state == "allowed"


def test_without_a_console_no_one_is_reachable() -> None:
    inbox, watcher = _inbox()
    assert inbox.is_reachable("k")
    assert not inbox.is_reachable("other")
    assert (inbox.address, inbox.advice, inbox.question_seconds) == ("http://127.0.0.1/", "Open it.", 60)
    inbox.disconnect()
    assert not inbox.is_reachable("k")
    assert watcher.seen == []
    assert (inbox.address, inbox.question_seconds) == ("", 3600.0)


# Questions of other nodes.


def _copy(id_: str = "w.1") -> InboxQuestion:
    return InboxQuestion(id_, _ACTION, Ask(), "c", "k", "curl", "", ("/w",), 90.0, 160.0, 2.0, node="w")


@dataclass
class _Node:
    """Takes the decisions about a copy as another node does."""

    inbox: Inbox
    outcome: InboxOutcome | None = None
    error: Exception | None = None
    got: list[InboxDecision] = field(default_factory=list)

    async def apply(self, decision: InboxDecision) -> None:
        self.got.append(decision)
        if self.error is not None:
            raise self.error
        if self.outcome is not None:
            self.inbox.close_with("w.1", self.outcome)


async def test_a_copy_has_the_outcome_that_its_node_says() -> None:
    inbox, watcher = _inbox()
    narrower = InboxOutcome("allowed", 9.0, InboxDecision(is_allowed=True, by="phone", level="session"))
    node = _Node(inbox, narrower)
    inbox.mirror(_copy(), node.apply)
    inbox.mirror(_copy(), _Node(inbox).apply)
    assert (len(inbox), inbox.waiting_since("c")) == (1, 2.0)
    assert await inbox.decide("w.1", _YES) is narrower
    assert node.got == [_YES]
    assert watcher.seen == [("opened", "w.1"), ("allowed", "w.1")]
    # What was decided does not wait again.
    inbox.mirror(_copy(), node.apply)
    assert len(inbox) == 0


async def test_w4_a_copy_whose_node_does_not_acknowledge_stays() -> None:
    inbox, _ = _inbox()
    node = _Node(inbox, error=DecisionNotAcknowledged("It does not answer.", may_count=True))
    inbox.mirror(_copy(), node.apply)
    with pytest.raises(DecisionNotAcknowledged, match="does not answer"):
        await inbox.decide("w.1", _YES)
    assert inbox.check_open("w.1").node == "w"
    node.error = None
    with pytest.raises(QuestionClosed):
        await inbox.decide("w.1", _YES)
    assert inbox.find("w.1") is not None


def test_a_copy_that_seemed_to_have_ended_waits_again_and_the_end_of_the_console_refuses_nothing() -> None:
    inbox, watcher = _inbox()
    changes: list[int] = []
    inbox.on_change.append(lambda: changes.append(len(inbox)))
    inbox.mirror(_copy(), _Node(inbox).apply)
    inbox.close("w.1", "ended")
    inbox.mirror(_copy(), _Node(inbox).apply)
    assert (inbox.outcome("w.1"), changes) == (None, [1, 0, 1])
    inbox.disconnect()
    assert (len(inbox), inbox.has_console, inbox.reach()) == (1, False, Reach())
    assert watcher.seen == [("opened", "w.1"), ("ended", "w.1"), ("opened", "w.1")]


def test_whom_a_person_is_reached_for() -> None:
    assert Reach(everyone=True).covers("any")
    assert Reach(connections=frozenset({"a"})).covers("a")
    assert not Reach(connections=frozenset({"a"})).covers("b")
