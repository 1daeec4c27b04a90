"""The worker's end of a stream."""

from __future__ import annotations

import asyncio

from dragoman.fleet.messages import BATCH_FORM, Batch, RequestMessage, StreamEnd
from dragoman.frontends.worker.stream import WorkerStream
from dragoman.lm import Request, TextPart
from fleet.machines import soon


async def test_a_batch_that_is_on_its_way_when_the_worker_stops_is_sent_before_the_end() -> None:
    sent: list[Batch] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def send(data: bytes) -> None:
        begun.set()
        await goes_on.wait()
        sent.append(BATCH_FORM.decode(data))

    stream = WorkerStream(RequestMessage("s", "g", "m", Request(())), send, lambda _: (), "i1")
    stream.report(TextPart("first"))
    await soon(begun.wait())
    stream.report(TextPart("second"))
    ending = asyncio.create_task(stream.send_end(StreamEnd()))
    await asyncio.sleep(0)
    goes_on.set()
    await soon(ending)
    stream.drop()
    assert [(each.number, each.parts) for each in sent] == [
        (1, (TextPart("first"),)),
        (2, (TextPart("second"),)),
    ]
    assert [each.end for each in sent] == [None, StreamEnd()]
    assert {each.incarnation for each in sent} == {"i1"}
