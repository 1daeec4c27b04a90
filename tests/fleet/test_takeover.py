"""A gateway that is gone: another one continues its background responses, with every part once and in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from console.asking import session_of
from dragoman.backends.remote.question_mirror import QuestionMirror
from dragoman.config import ConsoleConfig
from dragoman.fleet.messages import STREAM_FORM, Cancel, ResumeStream
from dragoman.fleet.subjects import streams_subject
from dragoman.frontends.console.console import Console
from dragoman.frontends.http.background_run import BackgroundRun, StoppedBy
from dragoman.frontends.worker.batch_sender import BatchSender
from dragoman.frontends.worker.stream import WorkerStream
from dragoman.journal.response_events import PartsReported
from dragoman.journal.store import JournalStoreError
from dragoman.lm import JsonObject, TextPart
from fake_agent.steps import open_gate, prompt
from fleet.gateways_and_worker import until as until_inbox
from fleet.machines import script, soon, until
from fleet.takeovers import (
    GatewayHere,
    Takeovers,
    ask,
    id_of,
    prompts_in,
    quicken,
    takeovers,
    until_ended,
    until_stored,
    with_agent,
)
from http_server.background_kit import Reader, started, text_of
from http_server.stream_check import check_events

pytestmark = pytest.mark.long


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Takeovers]:
    quicken(monkeypatch)
    async with takeovers(tmp_path) as made:
        yield made


async def test_j4_a_response_goes_on_at_another_gateway_where_its_own_was_cut(place: Takeovers) -> None:
    _, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    path = f"/v1/responses/{id_of(first)}"
    a.is_gone = True
    heard = [event for event in first.events if event["type"].endswith("delta")]
    assert "dragoman_responses_taken_over_total 0" in b.service.metrics.text()
    # A client that was at the first gateway resumes after what it has.
    number = heard[-1]["sequence_number"]
    later = Reader(b.site, "GET", f"{path}?stream=true&starting_after={number}")
    whole = Reader(b.site, "GET", f"{path}?stream=true")
    await soon(until(lambda: b.service.background.are_running))
    open_gate(folder, "on")
    for each in (later, whole):
        await soon(each.task)
    assert "dragoman_responses_taken_over_total 1" in b.service.metrics.text()
    response = check_events(whole.events)
    assert (response["status"], text_of(response)) == ("completed", "One two.")
    assert [event["sequence_number"] for event in later.events] == list(
        range(number + 1, whole.events[-1]["sequence_number"] + 1)
    )
    # The agent was asked once, and the conversation goes on.
    assert prompts_in(folder) == 1
    assert (await b.site.get(path)).response == response
    follow_up = {"model": "fake", "input": prompt(["say", "Next."]), "previous_response_id": response["id"]}
    assert text_of((await soon(b.site.post("/v1/responses", follow_up))).response) == "Next."
    # The gateway that was taken for dead is there again. It has written nothing, and says what is so.
    a.is_gone = False
    await soon(first.task)
    assert (await a.site.get(path)).response == response


async def test_j4_a_response_that_nobody_follows_goes_on_too(place: Takeovers) -> None:
    _, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    a.is_gone = True
    # Nobody reads it, and the agent is not there yet.
    open_gate(folder, "on")
    assert (await soon(b.end_of(id_of(first)))).end == "completed"
    found = await soon(until_ended(b, id_of(first)))
    assert (found["status"], text_of(found)) == ("completed", "One two.")


async def test_j4_a_response_that_had_ended_when_its_gateway_went_is_complete(place: Takeovers) -> None:
    worker, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    a.is_gone = True
    open_gate(folder, "on")
    # The worker keeps the end until it is stored.
    assert (await soon(b.end_of(id_of(first)))).end == "completed"
    await soon(until(lambda: worker.streams == 0))


async def test_j4_a_stream_whose_last_receipt_was_lost_is_dropped_when_another_gateway_sees_the_end(
    place: Takeovers,
) -> None:
    worker, folder = await with_agent(place)
    a = await place.open("a")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    a.loses_receipts = True
    open_gate(folder, "on")
    assert (await soon(a.end_of(id_of(first)))).end == "completed"
    assert worker.streams == 1
    await place.open("b")
    await soon(until(lambda: worker.streams == 0))
    assert (await a.site.get(f"/v1/responses/{id_of(first)}")).response["status"] == "completed"


async def test_j4_every_part_comes_once_through_many_gateways(place: Takeovers) -> None:
    chance = random.Random(7)  # noqa: S311 - the same each time
    words = [f"w{number} " for number in range(1_500)]
    told: JsonObject = {"do": [{"say": "".join(words), "pace": 120}]}
    await place.room.worker("w1", told=script(place.room.folder / "script", told))
    last = await place.open("g0")
    first = started(last.site, model="told", input="x")
    await first.until(bool)
    id_ = id_of(first)
    for number in range(1, 4):
        await asyncio.sleep(chance.random())
        last.is_gone = True
        last = await place.open(f"g{number}")
        await soon(until(lambda: last.service.background.are_running))  # noqa: B023 - it is awaited here
    assert (await soon(last.end_of(id_))).end == "completed"
    events = await last.events_of(id_)
    stored = [part for event in events if isinstance(event, PartsReported) for part in event.parts]
    assert "".join(getattr(part, "value", "") for part in stored) == "".join(words)
    reader = Reader(last.site, "GET", f"/v1/responses/{id_}?stream=true")
    await soon(reader.task)
    assert text_of(check_events(reader.events)) == "".join(words)


async def test_j4_a_gateway_that_ends_hands_its_responses_over_at_once(place: Takeovers) -> None:
    _, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    hurry = asyncio.Event()
    hurry.set()
    await soon(a.service.background.finish(30, hurry))
    await soon(until(lambda: b.service.background.are_running))
    open_gate(folder, "on")
    assert (await soon(b.end_of(id_of(first)))).end == "completed"
    found = await soon(until_ended(b, id_of(first)))
    assert text_of(found) == "One two."
    assert prompts_in(folder) == 1


async def test_j4_a_response_that_was_taken_over_is_cancelled_there(place: Takeovers) -> None:
    worker, _ = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    a.is_gone = True
    await soon(until(lambda: b.service.background.are_running))
    path = f"/v1/responses/{id_of(first)}"
    cancelled = (await soon(b.site.call("POST", f"{path}/cancel", b""))).response
    assert (cancelled["status"], text_of(cancelled)) == ("cancelled", "One ")
    await soon(until(lambda: worker.streams == 0))
    [conversation] = worker.models.conversations()
    await soon(until(lambda: not conversation.is_busy))


async def _shown_and_not_stored(place: Takeovers, monkeypatch: pytest.MonkeyPatch) -> tuple[str, GatewayHere]:
    """A response that goes on at another gateway. Its client has seen a word that only the worker has now."""
    monkeypatch.setattr("dragoman.frontends.http.background_run._BATCH_SECONDS", 60)
    await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    a.is_gone = True
    await soon(until(lambda: b.service.background.are_running))
    stored = [each for each in await b.events_of(id_of(first)) if isinstance(each, PartsReported)]
    assert TextPart("One ") not in [part for each in stored for part in each.parts]
    return id_of(first), b


async def test_j4_what_was_shown_is_in_a_response_that_is_cancelled_before_it_has_come_again(
    place: Takeovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_send = asyncio.Event()
    resend = BatchSender.resend

    async def late(sender: BatchSender, stream: WorkerStream, after: int) -> None:
        await may_send.wait()
        await resend(sender, stream, after)

    monkeypatch.setattr(BatchSender, "resend", late)
    stop = BackgroundRun.stop

    def stopped(run: BackgroundRun, reason: StoppedBy) -> bool:
        may_send.set()
        return stop(run, reason)

    monkeypatch.setattr(BackgroundRun, "stop", stopped)
    id_, b = await _shown_and_not_stored(place, monkeypatch)
    cancelled = (await soon(b.site.call("POST", f"/v1/responses/{id_}/cancel", b""))).response
    assert (cancelled["status"], text_of(cancelled)) == ("cancelled", "One ")


async def test_j4_a_worker_that_sends_nothing_does_not_hold_up_a_cancellation(
    place: Takeovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_sender: BatchSender, _stream: WorkerStream, _after: int) -> None:
        pass

    monkeypatch.setattr(BatchSender, "resend", never)
    monkeypatch.setattr("dragoman.backends.remote.model._CATCH_UP_SECONDS", 0.2)
    id_, b = await _shown_and_not_stored(place, monkeypatch)
    cancelled = (await soon(b.site.call("POST", f"/v1/responses/{id_}/cancel", b""))).response
    assert cancelled["status"] == "cancelled"


@pytest.mark.parametrize("decided", ["while no gateway has it", "after the take-over"])
async def test_j4_a_question_that_is_open_when_the_gateway_goes_is_decided_once_at_the_other(
    place: Takeovers, decided: str
) -> None:
    worker, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    questions = b.models.permissions.inbox
    mirror = QuestionMirror.running(await place.room.connection("b-q"), "b", questions, presence_seconds=0.1)
    await place.room.stack.enter_async_context(mirror)
    console = Console(ConsoleConfig(), (), b.models, "http://127.0.0.1:8427/")
    place.room.stack.push_async_callback(console.close)
    console.feed.open(session_of())
    asked = worker.models.permissions.inbox
    await until_inbox(asked, lambda: asked.is_reachable("any"))
    call = {"toolCallId": "p", "title": "Run it", "kind": "execute", "rawInput": {"command": "git log"}}
    first = ask(a, ["say", "One "], ["ask", call, ["allow_once", "reject_once"]])
    await first.until_said("One ")
    await until_inbox(questions, lambda: len(questions))
    a.is_gone = True
    if decided == "after the take-over":
        await soon(until(lambda: b.service.background.are_running))
    [question] = questions
    await soon(console.decider.decide(question.id, session_of(), "allow"))
    said = text_of(await soon(until_ended(b, id_of(first))))
    # Between them is the notice that a person can decide.
    assert (said.partition(" ")[0], said.rpartition("\n")[2]) == ("One", "<p: the-allow_once>")
    assert (said.count("One "), said.count("<p: ")) == (1, 1)
    [record] = worker.models.permissions.record.newest_first()
    assert (record.allowed, record.by) == (True, "person")
    assert len(questions) == 0
    assert prompts_in(folder) == 1


async def test_j4_the_turn_in_its_conversation_is_that_of_the_whole_response(place: Takeovers) -> None:
    _, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    made = (await a.site.post("/v1/conversations", {})).json
    steps = (["say", "One "], ["gate", "on"], ["say", "two."])
    first = ask(a, *steps, conversation=made["id"])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    a.is_gone = True
    open_gate(folder, "on")
    await soon(until_ended(b, id_of(first)))
    path = f"/v1/conversations/{made['id']}/items"
    found = (await b.site.get(path)).json["data"]
    assert sorted(item["role"] for item in found) == ["assistant", "user"]
    response = await soon(until_ended(b, id_of(first)))
    assert text_of(response) == "One two."


async def test_j4_a_turn_is_added_to_its_conversation_once_if_the_gateway_goes_before_the_end_is_stored(
    place: Takeovers,
) -> None:
    _, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    made = (await a.site.post("/v1/conversations", {})).json
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."], conversation=made["id"])
    await first.until_said("One ")
    store_append = a.store.append

    async def append(journal: str, *arguments: object, **named: object) -> int:
        if journal == id_of(first):
            a.is_gone = True
            raise JournalStoreError("The gateway is gone.")
        return await store_append(journal, *arguments, **named)  # type: ignore[arg-type]

    await soon(until_stored(b, id_of(first), "One "))
    a.store.append = append  # type: ignore[method-assign]
    open_gate(folder, "on")
    await soon(until_ended(b, id_of(first)))
    found = (await b.site.get(f"/v1/conversations/{made['id']}/items")).json["data"]
    assert sorted(item["role"] for item in found) == ["assistant", "user"]


async def test_j4_without_its_worker_the_response_has_failed_and_says_so(place: Takeovers) -> None:
    worker, _ = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    a.is_gone = True
    worker.task.cancel()
    await asyncio.gather(worker.task, return_exceptions=True)
    reader = Reader(b.site, "GET", f"/v1/responses/{id_of(first)}?stream=true")
    await soon(reader.task)
    failed = check_events(reader.events)
    assert failed["status"] == "failed"
    assert "no longer answers" in failed["error"]["message"]
    assert text_of(failed) == "One "


async def test_j4_an_orphan_that_no_gateway_takes_is_cancelled(
    place: Takeovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.frontends.worker.serving.ORPHAN_SECONDS", 1.0)
    worker, _ = await with_agent(place)
    a = await place.open("a")
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    a.is_gone = True
    await soon(until(lambda: worker.streams == 0))
    [conversation] = worker.models.conversations()
    await soon(until(lambda: not conversation.is_busy))
    # The next reader says so.
    b = await place.open("b")
    assert (await soon(until_ended(b, id_of(first))))["status"] == "failed"


async def test_j4_a_stream_with_a_gateway_cannot_be_taken_or_cancelled_by_another(place: Takeovers) -> None:
    worker, folder = await with_agent(place)
    a = await place.open("a")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    serving = worker.worker.serving
    assert serving is not None
    [stream] = serving._streams.values()
    other = await place.room.connection("other")
    await soon(until(lambda: stream.background_id))
    resume = ResumeStream(stream.id, "other/1", stream.background_id, 0)
    answer = await other.request(streams_subject("w1"), STREAM_FORM.encode(resume), 5.0)
    assert b"still has a gateway" in answer
    await other.publish(streams_subject("w1"), STREAM_FORM.encode(Cancel(stream.id, "other/1")))
    await other.flush()
    open_gate(folder, "on")
    await soon(first.task)
    assert text_of(check_events(first.events)) == "One two."


async def test_j4_a_gateway_that_was_cut_off_for_a_while_takes_its_own_stream_up_again(
    place: Takeovers,
) -> None:
    worker, folder = await with_agent(place)
    a = await place.open("a")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    serving = worker.worker.serving
    assert serving is not None
    [stream] = serving._streams.values()
    a.is_gone = True
    await soon(until(lambda: stream.orphaned_at is not None))
    # It has given the worker up, too.
    fleet = a.models._fleet
    assert fleet is not None
    for peer in fleet.streams._peers.values():
        peer.fail()
    a.is_gone = False
    await soon(until(lambda: stream.orphaned_at is None))
    open_gate(folder, "on")
    await soon(first.task)
    assert text_of(check_events(first.events)) == "One two."
    assert prompts_in(folder) == 1


async def test_j4_while_the_journal_cannot_be_written_the_agent_waits_and_nothing_is_lost(
    place: Takeovers,
) -> None:
    worker, _ = await with_agent(place)
    a = await place.open("a")
    append, fails = a.store.append, True

    async def perhaps(*arguments: object, **named: object) -> int:
        if fails:
            raise JournalStoreError("There is no leader.")
        return await append(*arguments, **named)  # type: ignore[arg-type]

    first = ask(a, ["say", "One "], ["repeat", 400, 4_000], ["say", " Done."])
    await first.until_said("One ")
    a.store.append = perhaps  # type: ignore[method-assign]
    serving = worker.worker.serving
    assert serving is not None
    [stream] = serving._streams.values()
    await soon(until(lambda: not stream.window.has_room))
    fails = False
    await soon(first.task)
    text = text_of(check_events(first.events))
    assert (text.startswith("One "), text.endswith(" Done."), len(text) > 1_600_000) == (True, True, True)


async def test_j4_a_cancellation_just_after_the_gateway_is_gone_cancels(place: Takeovers) -> None:
    worker, _ = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    a.is_gone = True
    answered = await soon(b.site.call("POST", f"/v1/responses/{id_of(first)}/cancel", b""))
    assert (answered.status, answered.response["status"]) == (200, "cancelled")
    assert text_of(answered.response) == "One "
    await soon(until(lambda: worker.streams == 0))


@pytest.mark.parametrize("ends", ["it dies", "it is lost", "it hands over"])
async def test_j4_an_answer_that_was_read_and_not_stored_is_complete_elsewhere(
    place: Takeovers, ends: str
) -> None:
    worker, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    [run] = a.service.background._running.values()

    async def fails(*_arguments: object, **_named: object) -> int:
        raise JournalStoreError("There is no leader.")

    append = a.store.append
    a.store.append = fails  # type: ignore[method-assign]
    open_gate(folder, "on")
    await soon(until(lambda: run._closed is not None))
    assert (await a.site.get(f"/v1/responses/{id_of(first)}")).response["status"] == "in_progress"
    assert worker.streams == 1
    if ends == "it hands over":
        hurry = asyncio.Event()
        hurry.set()
        await soon(a.service.background.finish(30, hurry))
        a.is_gone = True
    elif ends == "it dies":
        a.is_gone = True
    else:
        # Suspended for longer than its lease: it wakes when another gateway has the response.
        a.is_gone = True
        await soon(until(lambda: b.service.background.are_running))
        a.is_gone = False
        a.store.append = append  # type: ignore[method-assign]
    assert (await soon(b.end_of(id_of(first)))).end == "completed"
    response = await soon(until_ended(b, id_of(first)))
    assert text_of(response) == "One two."
    assert prompts_in(folder) == 1
    await soon(until(lambda: worker.streams == 0))


async def test_j4_an_end_that_could_not_be_stored_is_stored_when_that_is_possible_again(
    place: Takeovers,
) -> None:
    _, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    [run] = a.service.background._running.values()
    append, fails = a.store.append, True

    async def perhaps(*arguments: Any, **named: Any) -> int:
        if fails:
            raise JournalStoreError("There is no leader.")
        return await append(*arguments, **named)

    a.store.append = perhaps  # type: ignore[method-assign]
    open_gate(folder, "on")
    await soon(until(lambda: run._closed is not None))
    fails = False
    # Nobody asks at the gateway that runs it.
    assert text_of(await soon(until_ended(b, id_of(first)))) == "One two."
