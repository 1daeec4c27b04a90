"""A worker's questions at the consoles of gateways: asked there, decided once, and never without the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from console.asking import question_of, session_of
from dragoman.config import ConsoleConfig
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.console_messages import (
    QUESTION_FORM,
    QuestionClosedMessage,
    QuestionOpened,
)
from dragoman.fleet.subjects import decisions_subject, questions_subject
from dragoman.frontends.console.wire import ConsoleError
from dragoman.permissions.decide import Ask
from dragoman.permissions.inbox import InboxDecision, InboxOutcome
from fleet.gateways_and_worker import ALICE, Gateway, Worker, gateway, worker
from http_server.kit import Json, soon
from nats_servers import nats_server


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with nats_server(tmp_path) as address:
        yield address


@pytest.fixture
async def first(url: str, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with gateway(url, tmp_path / "g1", "g1") as there:
        yield there


@pytest.fixture
async def second(url: str, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with gateway(url, tmp_path / "g2", "g2") as there:
        yield there


@pytest.fixture
async def runner(url: str, tmp_path: Path) -> AsyncIterator[Worker]:
    async with worker(url, tmp_path / "w1") as there:
        yield there


async def _reachable(runner: Worker, connection: str = "http:a") -> None:
    await runner.until(lambda: runner.inbox.is_reachable(connection))


async def test_w1_a_person_at_any_gateway_is_asked_and_the_answer_goes_on(
    runner: Worker, first: Gateway, second: Gateway
) -> None:
    session, _ = second.open_page()
    await _reachable(runner)
    assert runner.inbox.address == second.inbox.address
    asking = runner.asking()
    question = asking.ask()
    await first.until(lambda: first.copies)
    await second.until(lambda: second.copies)
    [copy] = second.inbox
    assert (copy.id, copy.node, copy.action, copy.conversation) == (
        f"w1.{question.id}",
        "w1",
        question.action,
        "c1",
    )
    assert second.inbox.waiting_since("c1") == copy.since
    outcome = await soon(second.console.decider.decide(copy.id, session, "allow"))
    assert (outcome["state"], outcome["by"], outcome["level"]) == ("allowed", "phone", "once")
    assert [(each.is_allowed, each.by) for each in asking.got] == [(True, "phone")]
    await first.until(lambda: not first.copies)
    there = first.inbox.outcome(copy.id)
    assert there is not None
    assert there.decision is not None
    assert (there.state, there.decision.by) == ("allowed", "phone")


async def test_w2_nobody_is_reachable_and_the_advice_is_the_gateways(runner: Worker, first: Gateway) -> None:
    await runner.until(lambda: runner.inbox.address)
    assert not runner.inbox.is_reachable("http:a")
    assert runner.inbox.advice == first.inbox.advice
    assert first.inbox.address in runner.inbox.advice
    _, page = first.open_page()
    await _reachable(runner)
    first.console.feed.close_stream(page)
    await runner.until(lambda: not runner.inbox.is_reachable("http:a"))


@pytest.mark.long
async def test_w2_without_any_gateway_no_one_is_reachable(url: str, runner: Worker, tmp_path: Path) -> None:
    assert not runner.inbox.address
    assert "no gateway" in runner.inbox.advice
    async with gateway(url, tmp_path / "g", "g") as there:
        there.open_page()
        await _reachable(runner)
    # It has said that its console is gone. No one waits for its time to be over.
    await runner.until(lambda: not runner.inbox.is_reachable("http:a"))
    assert not runner.inbox.address


async def test_a_person_of_one_key_is_reachable_for_that_key_only(runner: Worker, first: Gateway) -> None:
    session, _ = first.open_page("alice")
    await _reachable(runner, ALICE.connection)
    assert not runner.inbox.is_reachable("http:b")
    foreign = runner.asking().ask(connection="http:b")
    own = runner.asking().ask(connection=ALICE.connection)
    await first.until(lambda: len(first.copies) == 2)
    shown = first.console._hello(session)["snapshot"]
    assert isinstance(shown, dict)
    questions: list[Json] = shown["questions"]
    assert [each["id"] for each in questions] == [f"w1.{own.id}"]
    with pytest.raises(ConsoleError) as error:
        await first.console.decider.decide(f"w1.{foreign.id}", session, "allow")
    assert error.value.status == 404
    assert runner.inbox.find(foreign.id) is not None


async def test_d7_n6_two_people_at_two_gateways_decide_at_once_and_one_counts(
    runner: Worker, first: Gateway, second: Gateway
) -> None:
    asking = runner.asking()
    asking.ask()
    await first.until(lambda: first.copies)
    await second.until(lambda: second.copies)
    [id_] = first.copies
    sessions = [session_of(name="ann"), session_of(name="ben")]
    results = await soon(
        asyncio.gather(
            first.console.decider.decide(id_, sessions[0], "allow"),
            second.console.decider.decide(id_, sessions[1], "deny"),
            return_exceptions=True,
        )
    )
    taken = [each for each in results if isinstance(each, dict)]
    late = [each for each in results if isinstance(each, ConsoleError)]
    assert (len(taken), len(late), len(asking.got)) == (1, 1, 1)
    assert taken[0]["by"] == asking.got[0].by
    assert late[0].code == "decided"
    assert asking.got[0].by in late[0].message


async def test_w4_a_decision_that_is_not_acknowledged_is_not_shown_as_taken(
    url: str, runner: Worker, tmp_path: Path
) -> None:
    asking = runner.asking()
    asking.stored.clear()
    question = asking.ask()
    async with gateway(url, tmp_path / "g", "g", decide_seconds=0.2) as there:
        await there.until(lambda: there.copies)
        id_ = f"w1.{question.id}"
        with pytest.raises(ConsoleError) as unknown:
            await soon(there.console.decider.decide(id_, session_of(), "allow", "always"))
        assert (unknown.value.status, unknown.value.code) == (504, "unknown")
        assert "not known" in unknown.value.message
        assert there.inbox.find(id_) is not None
        # It arrived after all. The next one learns it.
        asking.stored.set()
        await there.until(lambda: there.inbox.find(id_) is None)
        outcome = there.inbox.outcome(id_)
        assert outcome is not None
        assert outcome.state == "allowed"
        assert there.models.permissions.approvals.list() == ()
    assert len(asking.got) == 1
    [granted] = runner.permissions.approvals.list()
    assert granted.level == "always"


async def test_w4_a_worker_that_is_gone_takes_nothing(first: Gateway) -> None:
    question = question_of()
    message = QuestionOpened(
        question.id, question.action, question.ask, "c1", "http:a", "curl", ("/w",), ("once",), 1.0, 60.0
    )
    # Nobody listens for decisions at the worker that says this.
    await first.connection.publish(questions_subject("gone"), QUESTION_FORM.encode(message))
    await first.until(lambda: first.copies)
    [id_] = first.copies
    with pytest.raises(ConsoleError) as error:
        await soon(first.console.decider.decide(id_, session_of(), "allow"))
    assert (error.value.status, error.value.code) == (503, "not_taken")
    assert "Nothing was decided" in error.value.message
    assert first.copies == [id_]


class _Disk(asyncio.Event):
    """A slow disk: it says when something waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_used = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.is_used.set()
        return await super().wait()


async def test_a_question_that_ends_before_its_answer_is_closed_and_nothing_lasts(
    runner: Worker, first: Gateway
) -> None:
    asking = runner.asking()
    asking.stored = disk = _Disk()
    question = asking.ask()
    await first.until(lambda: first.copies)
    deciding = asyncio.create_task(
        first.console.decider.decide(f"w1.{question.id}", session_of(), "allow", "always")
    )
    await soon(disk.is_used.wait())
    assert len(runner.permissions.approvals.list()) == 1
    runner.inbox.close(question.id, "ended")
    disk.set()
    with pytest.raises(ConsoleError) as error:
        await soon(deciding)
    assert (error.value.status, error.value.code) == (410, "closed")
    assert runner.permissions.approvals.list() == ()


@pytest.mark.parametrize("level", ["session", "workspace", "always"])
async def test_a_lasting_yes_is_granted_by_the_worker_only(
    runner: Worker, first: Gateway, tmp_path: Path, level: str
) -> None:
    asking = runner.asking(str(tmp_path))
    question = asking.ask()
    await first.until(lambda: first.copies)
    [id_] = first.copies
    shown = first.console.question(next(iter(first.inbox)), session_of().scope)
    # No rule: the worker has rules of its own.
    assert (shown["node"], shown["levels"]) == ("w1", ["once", "session", "workspace", "always"])
    assert first.console.decider.offers(next(iter(first.inbox)), session_of()) == ()
    outcome = await soon(first.console.decider.decide(id_, session_of(), "allow", level))  # type: ignore[arg-type]
    assert outcome["level"] == level
    [granted] = runner.permissions.approvals.list()
    assert (granted.level, granted.session) == (level, "s1" if level == "session" else None)
    assert first.models.permissions.approvals.list() == ()
    assert runner.inbox.find(question.id) is None


async def test_a_gateway_cannot_make_a_yes_wider_than_the_worker_offers(
    runner: Worker, first: Gateway
) -> None:
    asking = runner.asking()
    question = asking.ask(Ask(once=True))
    await first.until(lambda: first.copies)
    [copy] = first.inbox
    assert copy.node_levels == ("once",)
    with pytest.raises(ConsoleError) as error:
        await first.console.decider.decide(copy.id, session_of(), "allow", "always")
    assert error.value.code == "bad_level"
    wide = InboxDecision(is_allowed=True, by="x", level="always", new_rule="/etc/rules:1")
    outcome = await soon(first.inbox.decide(copy.id, wide))
    assert outcome.decision is not None
    assert (outcome.decision.level, outcome.decision.new_rule) == ("once", None)
    assert runner.permissions.approvals.list() == ()
    assert runner.inbox.find(question.id) is None


async def test_a_gateway_that_starts_later_gets_what_waits(url: str, runner: Worker, tmp_path: Path) -> None:
    question = runner.asking().ask()
    async with gateway(url, tmp_path / "g", "late") as there:
        await there.until(lambda: there.copies == [f"w1.{question.id}"])
        # Its end refuses nothing: other gateways have the question.
    assert runner.inbox.find(question.id) is not None


async def test_what_was_lost_is_mended_by_the_next_list(runner: Worker, first: Gateway) -> None:
    asking = runner.asking()
    lost, stale = asking.ask(), asking.ask()
    await first.until(lambda: len(first.copies) == 2)
    first.inbox.close(f"w1.{lost.id}", "ended")
    await first.until(lambda: len(first.copies) == 2)
    # The worker closes it, and no one hears that.
    runner.inbox._open.pop(stale.id)
    await first.until(lambda: first.copies == [f"w1.{lost.id}"])


async def test_a_worker_speaks_for_its_own_questions_only(url: str, runner: Worker, first: Gateway) -> None:
    question = runner.asking().ask()
    await first.until(lambda: first.copies)
    forged = QuestionClosedMessage(
        question.id, InboxOutcome("allowed", 1.0, InboxDecision(is_allowed=True, by="x"))
    )
    async with FleetConnection.open((url,), "w2") as other:
        for subject in ("w2", "w2.w1"):
            await other.publish(questions_subject(subject), QUESTION_FORM.encode(forged))
        await other.publish(questions_subject("w2"), b"nonsense")
        own = QuestionClosedMessage("none", forged.outcome)
        await other.publish(questions_subject("w2"), QUESTION_FORM.encode(own))
        await other.flush()
        later = runner.asking().ask()
        await first.until(lambda: len(first.copies) == 2)
    assert first.copies == [f"w1.{question.id}", f"w1.{later.id}"]


async def test_one_gateway_calls_people(url: str, runner: Worker, tmp_path: Path) -> None:
    config = ConsoleConfig(webhook="http://127.0.0.1:9/hook", webhook_secret="s" * 32)
    async with (
        gateway(url, tmp_path / "a", "a", config=config, webhook_secret="s" * 32) as one,
        gateway(url, tmp_path / "b", "b", config=config, webhook_secret="s" * 32) as other,
    ):
        await _reachable(runner)
        runner.asking().ask()
        await one.until(lambda: one.copies)
        await other.until(lambda: other.copies)
        called = [next(iter(each.inbox)).calls_people for each in (one, other)]
    assert sorted(called) == [False, True]


async def test_a_message_that_is_no_decision_decides_nothing(runner: Worker, first: Gateway) -> None:
    question = runner.asking().ask()
    await first.connection.publish(decisions_subject("w1"), b"nonsense")
    await first.until(lambda: first.copies)
    assert runner.inbox.find(question.id) is not None


async def test_the_end_of_a_worker_closes_its_questions_at_once(
    url: str, first: Gateway, tmp_path: Path
) -> None:
    async with worker(url, tmp_path / "w2", "w2") as ending:
        ending.asking().ask()
        await first.until(lambda: first.copies)
        [id_] = first.copies
    await first.until(lambda: not first.copies)
    outcome = first.inbox.outcome(id_)
    assert outcome is not None
    assert outcome.decision is None
