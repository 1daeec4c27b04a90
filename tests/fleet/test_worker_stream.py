"""The worker's end of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dragoman.fleet.messages import (
    BATCH_FORM,
    BATCHES_FORM,
    Batch,
    ErrorMessage,
    PendingMessage,
    RequestMessage,
    StreamEnd,
)
from dragoman.frontends.worker.batch_sender import BatchSender
from dragoman.frontends.worker.stream import WorkerStream
from dragoman.lm import LanguageModelError, Part, Request, TextPart
from fleet.machines import soon, until


async def test_a_batch_that_is_on_its_way_when_the_worker_stops_is_sent_before_the_end() -> None:
    sent: list[Batch] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def publish(gateway: str, data: bytes) -> None:
        assert gateway == "g"
        begun.set()
        await goes_on.wait()
        sent.extend(BATCH_FORM.decode(each) for each in BATCHES_FORM.decode(data))

    sender = BatchSender(publish)
    running = asyncio.create_task(sender.run())
    stream = WorkerStream(RequestMessage("s", "g/1", "m", Request(())), sender.wake, lambda _: (), "i1")
    stream.report(TextPart("first"))
    await soon(begun.wait())
    stream.report(TextPart("second"))
    ending = asyncio.create_task(sender.send_end(stream, StreamEnd()))
    await asyncio.sleep(0)
    goes_on.set()
    await soon(ending)
    stream.drop()
    running.cancel()
    assert [(each.number, each.parts) for each in sent] == [
        (1, (TextPart("first"),)),
        (2, (TextPart("second"),)),
    ]
    assert [each.end for each in sent] == [None, StreamEnd()]
    assert {each.incarnation for each in sent} == {"i1"}


async def test_streams_of_one_gateway_share_messages_up_to_a_size() -> None:
    messages: list[tuple[str, list[Batch]]] = []
    goes_on = asyncio.Event()

    async def publish(gateway: str, data: bytes) -> None:
        await goes_on.wait()
        messages.append((gateway, [BATCH_FORM.decode(each) for each in BATCHES_FORM.decode(data)]))

    sender = BatchSender(publish)
    streams = [
        WorkerStream(RequestMessage(f"s{n}", f"g{n % 2}/1", "m", Request(())), sender.wake, lambda _: (), "i")
        for n in range(20)
    ]
    for stream in streams:
        stream.report(TextPart("x" * 30_000))
    running = asyncio.create_task(sender.run())
    goes_on.set()
    await soon(until(lambda: sum(len(batches) for _, batches in messages) == len(streams)))
    running.cancel()
    # Ten streams for each gateway: five of them fill a message.
    assert [(gateway, len(batches)) for gateway, batches in messages] == [
        ("g0", 5),
        ("g0", 5),
        ("g1", 5),
        ("g1", 5),
    ]
    assert {each.stream for _, batches in messages for each in batches} == {each.id for each in streams}


async def test_a_stream_whose_parts_cannot_be_sent_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Batch] = []

    async def publish(_gateway: str, data: bytes) -> None:
        sent.extend(BATCH_FORM.decode(each) for each in BATCHES_FORM.decode(data))

    def pending_of(parts: Sequence[Part]) -> tuple[PendingMessage, ...]:
        if TextPart("bad") in parts:
            raise ValueError("no such request")
        return ()

    sender = BatchSender(publish)
    running = asyncio.create_task(sender.run())
    bad, good = (
        WorkerStream(RequestMessage(name, "g/1", "m", Request(())), sender.wake, pending_of, "i1")
        for name in ("bad", "good")
    )
    bad.report(TextPart("bad"))
    await soon(until(lambda: sent))
    good.report(TextPart("good"))
    await soon(until(lambda: len(sent) == 2))
    running.cancel()
    assert [each.stream for each in sent] == ["bad", "good"]
    assert sent[0].end is not None
    assert sent[0].end.error is not None
    assert "no such request" in sent[0].end.error.message
    assert bad.source.token.is_cancelled
    assert "cannot be sent" in caplog.text


async def test_an_answer_that_is_complete_ends_so_when_the_worker_stops() -> None:
    """Its end waits for room in the window; a worker whose time is over sends it all the same."""
    sender = BatchSender(_nowhere)
    stream = WorkerStream(RequestMessage("s", "g/1", "m", Request(())), sender.wake, lambda _: (), "i1")
    finishing = asyncio.create_task(stream.finish(StreamEnd()))
    await asyncio.sleep(0)
    stopped = ErrorMessage.of(LanguageModelError("unavailable", "The worker stops."))
    [batch] = [BATCH_FORM.decode(each) for each in stream.last_batches(StreamEnd(stopped))]
    assert batch.end == StreamEnd()
    finishing.cancel()


async def _nowhere(_gateway: str, _data: bytes) -> None:
    pass
