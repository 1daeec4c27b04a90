"""The store of responses: SQLite for one machine, JetStream for a fleet. Both do the same."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from dragoman.fleet.connection import FleetConnection, NoAnswer
from dragoman.fleet.responses import JetStreamResponses, responses_stream
from dragoman.fleet.stored import StoredStream, WrongSequence
from dragoman.fleet.subjects import RESPONSES
from dragoman.journal.event import JournalStarted
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.store import Database, ResponseStore, SqliteResponses, StoredResponse
from dragoman.store.errors import JournalStoreError
from nats_servers import nats_server

_WHEN = datetime(2026, 1, 2, tzinfo=UTC)
_HEX = "0123456789abcdef" * 2
_ID, _FILE = f"resp_{_HEX}", f"file_{_HEX}_{'f' * 32}"
# Larger than a message of NATS.
_LARGE = bytes(range(256)) * 10_000

_Stores: TypeAlias = tuple[ResponseStore, ResponseStore]


@asynccontextmanager
async def _on_nats(folder: Path) -> AsyncIterator[tuple[JetStreamResponses, JetStreamResponses]]:
    async with (
        nats_server(folder) as url,
        FleetConnection.open((url,), "one") as one,
        FleetConnection.open((url,), "two") as two,
    ):
        await one.js.add_stream(responses_stream(timedelta(days=30), max_bytes=64 * 1024 * 1024))
        yield JetStreamResponses(one), JetStreamResponses(two)


@pytest.fixture(params=["sqlite", "nats"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[_Stores]:
    """The same store as two processes have it."""
    if request.param == "nats":
        async with _on_nats(tmp_path) as both:
            yield both
        return
    with Database.open(tmp_path) as one, Database.open(tmp_path) as two:
        # SQLite knows conversations by their journals.
        for id_ in ("conv_1", "conv_2"):
            started = JournalStarted("items", "", connection="c")
            await SqliteJournals(one).append(id_, 0, [(1.0, started)], holds=False)
        yield SqliteResponses(one), SqliteResponses(two)


def _response(id_: str = _ID, content: bytes = b"said", conversation: str | None = None) -> StoredResponse:
    return StoredResponse(id_, "c", None, _WHEN, content, conversation)


@pytest.mark.parametrize("content", [b"", b"said", _LARGE])
async def test_what_one_stores_the_other_finds_whole(stores: _Stores, content: bytes) -> None:
    one, two = stores
    stored = StoredResponse(_ID, "http:key 1", "resp_0", _WHEN, content, "abc")
    await one.save(stored)
    assert await two.find(_ID, "http:key 1") == stored
    assert await two.find(_ID, "http:key 1", is_latest=True) == stored


@pytest.mark.parametrize("id_", ["", "resp_none", "a.b", "*", ">", "r 1", "é" * 100, "x" * 10_000])
async def test_another_connection_and_another_id_find_nothing(stores: _Stores, id_: str) -> None:
    one, two = stores
    await one.save(_response(), ["i1"], ["i2"])
    for connection in ("d", "*", "c.r"):
        assert await two.find(_ID, connection) is None
        assert await two.find_by_item("i1", connection) is None
        assert await two.delete(_ID, connection) is None
    assert await two.find(id_, "c") is None
    assert await two.file(id_) is None
    assert await two.find(_ID, "c") is not None


async def test_a_response_is_stored_once(stores: _Stores) -> None:
    one, two = stores
    await one.save(_response(content=b"first"))
    with pytest.raises(JournalStoreError):
        await two.save(_response(content=b"second"))
    found = await two.find(_ID, "c")
    assert found is not None
    assert found.content == b"first"


@pytest.mark.parametrize("content", [b"under way", _LARGE])
async def test_of_two_that_end_a_response_the_first_counts(stores: _Stores, content: bytes) -> None:
    one, two = stores
    await one.save(_response(content=content))
    ends = {b"one": one, b"two": two}

    for end, store in ends.items():

        def change(current: bytes, end: bytes = end) -> bytes | None:
            return end if current == content else None

        await store.update(_ID, "c", change, [f"item {end!r}"])
    for store in stores:
        found = await store.find(_ID, "c", is_latest=True)
        assert found is not None
        assert found.content == b"one"
    assert await two.find_by_item("item b'one'", "c") is not None
    assert await two.find_by_item("item b'two'", "c") is None


async def test_an_update_is_made_from_what_another_has_stored_meanwhile(stores: _Stores) -> None:
    one, two = stores
    await one.save(_response(content=b"1"))
    for store in (one, two, one):
        await store.update(_ID, "c", lambda current: current + b"2")
    await two.assign(_ID, "c", "conversation")
    found = await one.find(_ID, "c", is_latest=True)
    assert found == _response(content=b"1222", conversation="conversation")


async def test_a_response_that_was_deleted_is_not_updated(stores: _Stores) -> None:
    one, two = stores
    await one.save(_response())
    await two.delete(_ID, "c")
    await one.update(_ID, "c", lambda _: b"more")
    await one.assign(_ID, "c", "conversation")
    await one.touch([_ID], "c", datetime.now(UTC))
    assert await one.find(_ID, "c", is_latest=True) is None


async def test_the_newest_response_with_an_item_is_found_and_after_its_deletion_the_one_before(
    stores: _Stores,
) -> None:
    one, two = stores
    for number in (1, 2, 3):
        await one.save(_response(f"resp_{number}"), ["given", f"i{number}"], ["made"] if number == 1 else [])
    for expected in ("resp_3", "resp_2", "resp_1"):
        found = await two.find_by_item("given", "c")
        assert found is not None
        assert found.id == expected
        own = await two.find_by_item("made", "c", is_own=True)
        assert own is not None
        assert own.id == "resp_1"
        await one.delete(expected, "c")
    assert await two.find_by_item("given", "c") is None
    assert await two.find_by_item("made", "c") is None


async def test_conversations_with_an_item_are_listed_the_newest_first(stores: _Stores) -> None:
    one, two = stores
    await one.index("conv_1", "c", ["a", "b"])
    await two.index("conv_2", "c", ["a", "c"])
    assert await two.conversations_with("a", "c") == ["conv_2", "conv_1"]
    assert await one.conversations_with("c", "c") == ["conv_2"]
    assert await one.conversations_with("a", "d") == []


@pytest.mark.parametrize("content", [b"picture", _LARGE])
async def test_a_file_is_found_by_its_id_alone_and_goes_with_its_response(
    stores: _Stores, content: bytes
) -> None:
    one, two = stores
    await one.save(_response())
    await one.save(_response(_FILE, content))
    other = f"file_{'9' * 32}_{'f' * 32}"
    await one.save(_response(other))
    found = await two.file(_FILE)
    assert found is not None
    assert (found.content, found.connection) == (content, "c")
    assert await two.file(_ID) is None
    await two.delete(_ID, "c")
    assert await one.file(_FILE) is None
    assert await one.file(other) is not None


async def test_the_last_response_of_a_conversation_names_it_when_it_is_deleted(stores: _Stores) -> None:
    one, two = stores
    for id_, conversation in (("r1", "c1"), ("r2", None), ("r3", "c2"), ("r4", None)):
        await one.save(_response(id_, conversation=conversation))
    await two.assign("r2", "c", "c1")
    await one.save(_response(_FILE, conversation="c1"))
    assert [await one.delete(id_, "c") for id_ in ("r1", "r2", "r2", "r4")] == [None, "c1", None, None]
    assert await two.find("r3", "c") is not None


async def test_use_is_noted_also_for_files_of_a_response(stores: _Stores) -> None:
    one, two = stores
    await one.save(_response(content=_LARGE), ["item"])
    await one.save(_response(_FILE, _LARGE))
    later = _WHEN + timedelta(days=3)
    await two.touch([_ID], "c", later)
    for found in (
        await one.find(_ID, "c", is_latest=True),
        await one.file(_FILE),
        await one.find_by_item("item", "c"),
    ):
        assert found is not None
        assert (found.used_at, found.content) == (later, _LARGE)


# JetStream alone.


async def test_use_within_a_day_costs_no_message(tmp_path: Path) -> None:
    async with _on_nats(tmp_path) as (one, two):
        await one.save(_response())
        before = await _sequence(one)
        await one.touch([_ID], "c", _WHEN + timedelta(hours=23))
        await two.touch([_ID], "c", _WHEN + timedelta(hours=23))
        assert await _sequence(one) == before
        await two.touch([_ID], "c", _WHEN + timedelta(hours=25))
        assert await _sequence(one) > before


@pytest.mark.parametrize("times", [1, 100_000])
async def test_nothing_of_what_was_deleted_or_replaced_is_left_in_the_servers_files(
    tmp_path: Path, times: int
) -> None:
    secret = b"a word that may not be found again "
    async with _on_nats(tmp_path) as (one, two):
        await one.save(_response(content=secret * times))
        await one.save(_response(_FILE, secret * times))
        await one.save(_response("resp_other", b"stays"))
        await two.touch([_ID], "c", _WHEN + timedelta(days=2))
        assert _files_with(secret, tmp_path)
        await two.delete(_ID, "c")
        assert _files_with(secret, tmp_path) == []
        await one.save(_response(content=secret * times))
        await two.update(_ID, "c", lambda _: b"other")
        assert _files_with(secret, tmp_path) == []
        assert await one.find("resp_other", "c") is not None


async def test_responses_of_a_deleted_conversation_are_deleted(tmp_path: Path) -> None:
    async with _on_nats(tmp_path) as (one, two):
        await one.save(_response("r1", conversation="one"))
        await one.save(StoredResponse("r2", "other", None, _WHEN, b"", "one"))
        await one.save(_response("r3", conversation="two"))
        assert await two.delete_of("one") == ["r1", "r2"]
        assert await one.find("r1", "c") is None
        assert await one.find("r2", "other") is None
        assert await one.find("r3", "c") is not None


async def test_the_oldest_goes_when_there_is_no_room(tmp_path: Path) -> None:
    async with (
        nats_server(tmp_path) as url,
        FleetConnection.open((url,), "one") as connection,
    ):
        await connection.js.add_stream(responses_stream(timedelta(days=30), max_bytes=8 * 1024 * 1024))
        store = JetStreamResponses(connection)
        for number in range(4):
            await store.save(_response(f"r{number}", _LARGE))
        kept = [await store.find(f"r{number}", "c") is not None for number in range(4)]
        assert kept == [False, True, True, True]


async def test_without_nats_the_store_fails_as_a_broken_disk_does(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = AsyncExitStack()
        url = await server.enter_async_context(nats_server(tmp_path))
        connection = await stack.enter_async_context(FleetConnection.open((url,), "one"))
        await connection.js.add_stream(responses_stream(timedelta(days=30)))
        store = JetStreamResponses(connection)
        await store.save(_response())
        await server.aclose()
        with pytest.raises(JournalStoreError, match=r"Responses cannot be|no connection to NATS"):
            await store.find(_ID, "c")
        with pytest.raises(JournalStoreError, match=r"Responses cannot be|no connection to NATS"):
            await store.save(_response("r2"))


async def _sequence(store: JetStreamResponses) -> int:
    info = await store._connection.js.stream_info(RESPONSES)
    return info.state.last_seq


def _files_with(secret: bytes, folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()]


async def test_a_first_attempt_that_is_refused_as_a_double_before_it_can_be_read_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader refuses a second message for a subject as soon as it has proposed the first, and before that is there."""
    async with _on_nats(tmp_path) as (one, two):
        put, tries = StoredStream.put, 0

        async def late(self: StoredStream, subject: str, data: bytes, **options: Any) -> int:
            nonlocal tries
            tries += subject.endswith(f"_{_HEX}")
            if not subject.endswith(f"_{_HEX}") or tries == 3:
                return await put(self, subject, data, **options)
            raise NoAnswer if tries == 1 else WrongSequence("wrong last sequence")

        monkeypatch.setattr(StoredStream, "put", late)
        await one.save(_response())
        assert tries == 3
        found = await two.find(_ID, "c")
        assert found is not None
        assert found.content == b"said"
