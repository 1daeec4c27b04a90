"""A background response whose gateway is gone, at the worst moments: nothing is lost, and nothing is said that is not so."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.fleet.messages import (
    ACCEPTED_FORM,
    STATUS_FORM,
    STREAM_FORM,
    HandOver,
    NodeStatus,
    ResumeStream,
    StreamEnd,
)
from dragoman.fleet.subjects import STATUS, streams_subject
from dragoman.journal.response_events import ResponseClosed
from dragoman.journal.store import JournalStoreError
from fake_agent.steps import open_gate
from fleet.machines import RunningWorker, soon, until
from fleet.takeovers import (
    GatewayHere,
    Takeovers,
    ask,
    id_of,
    quicken,
    takeovers,
    until_ended,
    until_stored,
    with_agent,
)
from http_server.background_kit import Reader, text_of

pytestmark = pytest.mark.long


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Takeovers]:
    quicken(monkeypatch)
    async with takeovers(tmp_path) as made:
        yield made


def _cut_off(gateway: GatewayHere) -> None:
    """While it is gone it can read nothing either, until it has a lease again."""
    find = gateway.store.find

    async def perhaps(journal: str) -> Any:
        if gateway.is_gone or gateway.store._lease.seconds_left() <= 0:
            raise JournalStoreError("There is no connection.")
        return await find(journal)

    gateway.store.find = perhaps  # type: ignore[method-assign]
    gateway.is_gone = True


def _gateway_of(worker: RunningWorker) -> str:
    """The gateway that has the worker's only stream."""
    assert worker.worker.serving is not None
    return "".join(stream.gateway_node for stream in worker.worker.serving._streams.values())


async def _looked_after(gateway: GatewayHere) -> None:
    """Let a gateway hear of orphans, and wait until it has looked after all of them."""
    fleet = gateway.models._fleet
    assert fleet is not None
    await fleet.workers.refresh()
    await asyncio.gather(*fleet.workers._orphans.values())


async def _free(gateway: GatewayHere, id_: str) -> None:
    """Wait until no gateway that lives owns the journal of a response."""
    while (info := await gateway.store.find(id_)) is None or info.owner:  # noqa: ASYNC110 - the end of a lease tells nobody
        await asyncio.sleep(0.05)


async def test_j4_a_completed_response_is_handed_over_whole(place: Takeovers) -> None:
    """SIGTERM while the last parts are being stored: the worker is told that all is consumed, and drops it."""
    _worker, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    append = a.store.append
    fails = True

    async def perhaps(*arguments: Any, **named: Any) -> int:
        if fails:
            await asyncio.sleep(0.3)
            raise JournalStoreError("There is no leader.")
        return await append(*arguments, **named)

    a.store.append = perhaps  # type: ignore[method-assign]
    open_gate(folder, "on")
    kept = a.models.get("fake")._model._kept  # type: ignore[attr-defined]
    await soon(until(lambda: any(stream.is_read for _, stream in kept._open.values())))
    assert a.service.background.are_running
    hurry = asyncio.Event()
    hurry.set()
    await soon(a.service.background.finish(30, hurry))
    # The gateway's process ends here; its lease is given back.
    fails = False
    await a.store.release(id_of(first))
    found = await soon(until_ended(b, id_of(first)))
    assert (found["status"], text_of(found)) == ("completed", "One two."), found["error"]


async def test_j4_cancel_at_another_gateway_while_the_owner_is_dead(
    place: Takeovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    _worker, _ = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    a.is_gone = True
    monkeypatch.setattr("http_server.kit.soon", soon)
    answer = await soon(b.site.call("POST", f"/v1/responses/{id_of(first)}/cancel", b""))
    assert answer.status == 200, answer.json
    assert answer.response["status"] == "cancelled"


async def test_j4_delete_at_another_gateway_while_the_owner_is_dead(place: Takeovers) -> None:
    worker, _ = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    a.is_gone = True
    answer = await soon(b.site.call("DELETE", f"/v1/responses/{id_of(first)}", b""))
    assert answer.status == 200
    async with asyncio.timeout(20):
        await until(lambda: worker.streams == 0)


async def test_j4_a_former_owner_adds_nothing_to_the_conversation(
    place: Takeovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gateway A was suspended, B has the response. A wakes; the model says nothing for a while."""
    monkeypatch.setattr("dragoman.backends.remote.model._LEASE_WAIT_SECONDS", 2.0)
    worker, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    made = (await a.site.post("/v1/conversations", {})).json
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."], conversation=made["id"])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    _cut_off(a)
    await soon(until(lambda: _gateway_of(worker) == "b"))
    a.is_gone = False
    await soon(until(lambda: a.store._lease.seconds_left() > 0))
    # It has given up to take its stream again.
    await soon(until(lambda: not a.service.background.are_running))
    open_gate(folder, "on")
    found = await soon(until_ended(b, id_of(first)))
    assert text_of(found) == "One two."
    items = (await b.site.get(f"/v1/conversations/{made['id']}/items")).json["data"]
    said = [part["text"] for item in items if item["role"] == "assistant" for part in item["content"]]
    assert said == ["One two."]


async def test_j4_a_cancel_at_a_former_owner_cancels_or_says_that_it_does_not(place: Takeovers) -> None:
    worker, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    _cut_off(a)
    await soon(until(lambda: _gateway_of(worker) == "b"))
    a.is_gone = False
    await soon(until(lambda: a.store._lease.seconds_left() > 0))
    answer = await soon(a.site.call("POST", f"/v1/responses/{id_of(first)}/cancel", b""))
    told = answer.response["status"] if answer.status == 200 else answer.status
    open_gate(folder, "on")
    found = await soon(until_ended(b, id_of(first)))
    assert (told, found["status"]) in {("cancelled", "cancelled"), (503, "completed")}


async def test_j4_a_gateway_that_was_fenced_and_is_back_does_not_make_another_fail_its_response(
    place: Takeovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A was cut off past its fence and has its stream again. A client reads at B: B claims the journal, and gets no stream."""
    monkeypatch.setattr("dragoman.backends.remote.model._LEASE_WAIT_SECONDS", 5.0)
    monkeypatch.setattr("dragoman.frontends.worker.serving.GATEWAY_SILENCE_SECONDS", 16.0)
    _worker, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    incarnation = a.store._lease.incarnation
    a.is_gone = True
    await soon(until(lambda: a.store._lease.seconds_left() <= 0))
    a.is_gone = False
    await soon(until(lambda: a.store._lease.incarnation != incarnation))
    reader = Reader(b.site, "GET", f"/v1/responses/{id_of(first)}?stream=true")
    # For longer than B tries to get the stream: it must not end the response then.
    await asyncio.wait({reader.task}, timeout=8)
    assert not reader.task.done(), reader.events[-1]
    open_gate(folder, "on")
    await soon(reader.task)
    assert reader.events[-1]["type"] == "response.completed", reader.events[-1]["response"]["error"]


async def test_j4_a_stream_that_ended_as_moved_is_no_complete_response(place: Takeovers) -> None:
    worker, _folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    serving = worker.worker.serving
    assert serving is not None
    go = asyncio.Event()

    async def moved(*_arguments: object) -> StreamEnd:
        await go.wait()
        return StreamEnd(moved_to="w2")

    serving._respond = moved  # type: ignore[method-assign,assignment]
    first = ask(a, ["say", "One "])
    await first.until(bool)
    # The position is stored, and then the gateway dies.
    await soon(_position_stored(b, id_of(first)))
    a.is_gone = True
    go.set()
    found = await soon(until_ended(b, id_of(first)))
    assert (found["status"], text_of(found)) != ("completed", "")


async def _position_stored(gateway: GatewayHere, id_: str) -> None:
    async for entry in gateway.store.follow(id_):
        if getattr(entry.event, "position", None):
            return


async def test_j4_a_worker_cannot_have_the_response_of_another_worker_cancelled(place: Takeovers) -> None:
    """All that it needs can be read and written with the credentials of a worker: journals, and answers to `STATUS`."""
    _worker, folder = await with_agent(place)
    a = await place.open("a")
    done = ask(a, ["say", "Done."])
    await soon(done.task)
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    await soon(until_stored(a, id_of(first), "One "))
    # The thief reads the id of the stream in the journal.
    positions = [getattr(each, "position", None) for each in await a.events_of(id_of(first))]
    stream = json.loads([each for each in positions if each][-1])["stream"]
    thief = await place.room.connection("thief")

    async def lie(received: Any) -> None:
        lies = NodeStatus("w1", "x", "worker", "0", orphans={id_of(done): stream})
        await thief.answer(received, STATUS_FORM.encode(lies))

    await thief.subscribe(STATUS, lie)
    await thief.flush()
    await _looked_after(a)
    open_gate(folder, "on")
    await soon(first.task)
    assert first.events[-1]["type"] == "response.completed", first.events[-1]["response"]["error"]


async def test_j4_a_gateway_that_does_not_know_the_model_yet_does_not_end_the_response(
    place: Takeovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, folder = await with_agent(place)
    a = await place.open("a")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    await soon(until_stored(a, id_of(first), "One "))
    reader = await place.open("reader")
    assert reader.models._fleet is not None
    reader.models._fleet.workers.on_orphan = None
    a.is_gone = True
    await soon(_free(reader, id_of(first)))
    # Its first question for statuses has no answer: the worker is busy for half a second.
    serving = worker.worker.serving
    assert serving is not None
    await serving._unsubscribe[STATUS]()
    del serving._unsubscribe[STATUS]
    b = await place.open("b")
    found = await b.site.get(f"/v1/responses/{id_of(first)}")
    assert found.status == 503
    await serving._listen(STATUS, serving._on_status)
    open_gate(folder, "on")
    assert (await soon(b.end_of(id_of(first)))).end == "completed"


async def test_j4_the_clients_of_a_gateway_that_hands_over_learn_what_happened(place: Takeovers) -> None:
    _worker, folder = await with_agent(place)
    a = await place.open("a")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    hurry = asyncio.Event()
    hurry.set()
    await soon(a.service.background.finish(30, hurry))
    await asyncio.gather(asyncio.wait_for(first.task, 5), return_exceptions=True)
    open_gate(folder, "on")
    last = first.events[-1]
    assert "should not have happened" not in str(last), last


async def test_j4_a_cancel_while_a_gateway_hands_over_is_not_lost(place: Takeovers) -> None:
    await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    hurry = asyncio.Event()
    hurry.set()
    finishing = asyncio.create_task(a.service.background.finish(30, hurry))
    while not any(run.stopped for run in a.service.background._running.values()):  # noqa: ASYNC110 - it is so for a moment
        await asyncio.sleep(0)
    answer = await soon(a.site.call("POST", f"/v1/responses/{id_of(first)}/cancel", b""))
    await finishing
    told = answer.response["status"] if answer.status == 200 else answer.status
    assert told in {"cancelled", 503}, told


async def test_j4_the_agent_of_a_deleted_response_stops(
    place: Takeovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner's lease has ended, and no gateway has adopted the response yet (up to 5 s): it is deleted."""
    worker, _ = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    look_after = b.service.background.continue_orphan
    fleet = b.models._fleet
    assert fleet is not None
    fleet.workers.on_orphan = None
    first = ask(a, ["say", "One "], ["hang"])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    a.is_gone = True
    await soon(_free(b, id_of(first)))
    monkeypatch.setattr("http_server.kit.soon", soon)
    answer = await soon(b.site.call("DELETE", f"/v1/responses/{id_of(first)}", b""))
    fleet.workers.on_orphan = look_after
    assert answer.status == 200
    await soon(until(lambda: worker.streams == 0))
    assert not any(each.is_busy for each in worker.models.conversations())
    assert await b.store.journals("agent") == []


async def test_j4_a_hand_over_whose_message_was_lost_cancels_nothing(place: Takeovers) -> None:
    """Core NATS may lose a message. The next ping does not name the stream, and the worker cancels it."""
    worker, folder = await with_agent(place)
    a, b = await place.open("a"), await place.open("b")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    await soon(until_stored(b, id_of(first), "One "))
    fleet = a.models._fleet
    assert fleet is not None
    say = fleet.link.say

    async def losing_one(node: str, message: Any) -> None:
        if not isinstance(message, HandOver):
            await say(node, message)

    fleet.link.say = losing_one  # type: ignore[method-assign]
    hurry = asyncio.Event()
    hurry.set()
    serving = worker.worker.serving
    assert serving is not None
    [stream] = serving._streams.values()
    await soon(a.service.background.finish(30, hurry))
    # The next ping does not name the stream: it waits for another gateway, or has one; or it was given up.
    await soon(
        until(lambda: stream.is_dropped or stream.given_at < math.inf or stream.orphaned_at is not None)
    )
    assert not stream.is_dropped
    open_gate(folder, "on")
    found = await soon(until_ended(b, id_of(first)))
    assert (found["status"], text_of(found)) == ("completed", "One two."), found["error"]


async def test_j4_a_worker_names_an_agents_conversation_as_an_orphan(place: Takeovers) -> None:
    """The gateway appends the end of a response to the journal of a conversation."""
    await with_agent(place)
    a = await place.open("a")
    first = await soon(a.site.post("/v1/conversations", {}))
    id_ = first.json["id"]
    before = len(await a.events_of(id_))
    thief = await place.room.connection("thief")

    async def lie(received: Any) -> None:
        await thief.answer(
            received, STATUS_FORM.encode(NodeStatus("w9", "x", "worker", "0", orphans={id_: "s"}))
        )

    await thief.subscribe(STATUS, lie)
    await thief.flush()
    await _looked_after(a)
    assert len(await a.events_of(id_)) == before
    assert not any(isinstance(each, ResponseClosed) for each in await a.events_of(id_))


async def test_j4_a_stream_is_resumed_only_from_where_the_worker_still_has_it(place: Takeovers) -> None:
    """As after a crash in mid-way to the background: the first position is stored, later batches were receipted before."""
    worker, _folder = await with_agent(place)
    a = await place.open("a")
    first = ask(a, ["say", "One "], ["gate", "on"], ["say", "two."])
    await first.until_said("One ")
    serving = worker.worker.serving
    assert serving is not None
    [stream] = serving._streams.values()
    await soon(until(lambda: stream.background_id and not stream.window.after(0)))
    stream.orphaned_at = 0.0
    other = await place.room.connection("other")
    resume = ResumeStream(stream.id, "other/1", stream.background_id, 0)
    answer = await other.request(streams_subject("w1"), STREAM_FORM.encode(resume), 5.0)
    assert ACCEPTED_FORM.decode(answer).error is not None
