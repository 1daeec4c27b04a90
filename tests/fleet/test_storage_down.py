"""A gateway whose NATS is down: what is stored is not lost, and no answer says that it is."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.messages import BATCH_FORM, Batch
from dragoman.fleet.responses import JetStreamResponses, responses_stream
from dragoman.fleet.stored import StoredStream
from dragoman.fleet.streams import make_streams
from dragoman.fleet.subjects import RESPONSE_SUBJECTS, RESPONSES, subject_token
from dragoman.frontends.http.errors import ApiError
from dragoman.frontends.http.files import Files, StoredFile
from dragoman.frontends.http.histories import Histories, HistoryEntry
from dragoman.lm import LanguageModelError, TextPart, user
from fleet.machines import Machines, script, soon, until
from fleet.strange_worker import StrangeWorker
from nats_servers import nats_server

# Through agents and connections: each takes a second or more.
pytestmark = pytest.mark.long

_ID = "resp_" + "0123456789abcdef" * 2
_ENTRY = HistoryEntry([{"id": "msg_1", "type": "message"}], {"id": _ID, "status": "completed", "output": []})


class _Stored:
    """What one gateway has stored on a server that can be stopped."""

    def __init__(self, connection: FleetConnection, server: AsyncExitStack) -> None:
        self.connection = connection
        self.store = JetStreamResponses(connection)
        self.histories = Histories(self.store)
        self.files = Files(self.store)
        self._server = server

    async def stop_nats(self) -> None:
        await self._server.aclose()
        await soon(until(lambda: not self.connection.is_connected))


@pytest.fixture
async def stored(tmp_path: Path) -> AsyncIterator[_Stored]:
    async with AsyncExitStack() as server:
        url = await server.enter_async_context(nats_server(tmp_path))
        async with FleetConnection.open((url,), "gate") as connection:
            await connection.js.add_stream(responses_stream(timedelta(days=30), max_bytes=64 * 1024 * 1024))
            stored = _Stored(connection, server)
            assert await stored.histories.save(_ID, _ENTRY, "c", ())
            yield stored


def _assert_can_be_repeated(error: ApiError) -> None:
    assert (error.status, error.code) == (503, "storage_unavailable")
    assert "cannot be reached" in error.message
    assert error.headers["x-should-retry"] == "true"


async def test_a_response_that_cannot_be_read_is_not_said_to_be_gone(stored: _Stored) -> None:
    assert (await stored.histories.chain(_ID, "c")).ids == (_ID,)
    await stored.stop_nats()
    for reading in (
        stored.histories.chain(_ID, "c"),
        stored.histories.find(_ID, "c"),
        stored.histories.read_with_item("msg_1", "c", is_own=False),
        stored.histories.conversations_with("msg_1", "c"),
        stored.histories.delete(_ID, "c"),
    ):
        with pytest.raises(ApiError) as raised:
            await reading
        _assert_can_be_repeated(raised.value)


async def test_a_file_that_cannot_be_read_is_not_said_to_be_gone(stored: _Stored) -> None:
    id_ = await stored.files.add(StoredFile("c", "text/plain", "a.txt", b"said"), _ID, None, may_store=True)
    assert await stored.files.find(id_) is not None
    await stored.stop_nats()
    with pytest.raises(ApiError) as raised:
        await stored.files.find(id_)
    _assert_can_be_repeated(raised.value)


async def test_a_damaged_response_is_gone(stored: _Stored) -> None:
    id_ = _ID.replace("0", "a")
    subject = f"{RESPONSE_SUBJECTS}.{subject_token('c')}.r.{subject_token(id_)}"
    await StoredStream(stored.connection, RESPONSES).put(subject, b"not a response")
    with pytest.raises(ApiError) as raised:
        await stored.histories.chain(id_, "c")
    assert raised.value.code == "previous_response_not_found"


async def test_an_answer_that_ends_because_nats_is_away_does_not_blame_the_worker(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack, AsyncExitStack() as server:
        room = Machines(await server.enter_async_context(nats_server(tmp_path)), tmp_path, stack)
        await make_streams(await room.connection("admin"), 1, None)

        def half(stream: str) -> tuple[bytes, ...]:
            return (BATCH_FORM.encode(Batch(stream, 1, (TextPart("Half"),))),)

        await StrangeWorker(await room.connection("w1"), batches=half).start()
        gateway = await room.gateway()
        going = room.chat(gateway, "strange").begin(user("Tell me."))
        await going.until(lambda heard: "Half" in heard.text)
        await server.aclose()
        said = (await going.end()).text
        assert "w1, on which this conversation runs, cannot be reached: NATS is away." in said
        assert "no longer answers" not in said


async def test_a_new_request_says_that_nats_cannot_be_reached(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack, AsyncExitStack() as server:
        room = Machines(await server.enter_async_context(nats_server(tmp_path)), tmp_path, stack)
        await make_streams(await room.connection("admin"), 1, None)
        running = await room.worker("w1", story=script(tmp_path, {"do": [{"say": "Yes."}]}))
        gateway = await room.gateway()
        fleet = gateway.get("story")._model._fleet  # type: ignore[attr-defined]
        await server.aclose()
        await soon(until(lambda: not running.connection.is_connected))
        await soon(until(lambda: not fleet.link.is_connected))
        with pytest.raises(LanguageModelError, match="There is no connection to NATS") as raised:
            await soon(room.chat(gateway, "story").say("hello"))
        assert raised.value.kind == "unavailable"
        # Workers cannot be heard. That is no reason to say that there is no such model.
        later = fleet.link.clock() + 3600
        fleet.link.clock = lambda: later
        await fleet.workers.refresh()
        assert "story" in fleet.workers.offered
