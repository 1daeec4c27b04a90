"""Messages that no client library would send: a node drops them, and hears the next one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.fleet.connection import FleetConnection, Received
from fleet.machines import soon, until
from fleet.raw_sender import RawSender
from nats_servers import nats_server


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with nats_server(tmp_path) as url:
        yield url


async def _heard(connection: FleetConnection) -> asyncio.Queue[Received]:
    heard: asyncio.Queue[Received] = asyncio.Queue()
    await connection.subscribe("a.>", heard.put)
    await connection.flush()
    return heard


@pytest.mark.parametrize(
    "headers",
    [
        b"NATS/1.0",
        b"NATS/1.0\r\n",
        b"NATS/1.0 \xff\xfe\xfd x",
        b"NATS/1.0 \xff\xfe\xfd x\r\n\r\n",
        b"NATS/1.0 200 \xff\xfe\r\n\r\n",
        b"NATS/1.0 200 \xff\r\nName: value\r\n\r\n",
    ],
)
async def test_a_message_with_damaged_headers_is_dropped(url: str, headers: bytes) -> None:
    async with FleetConnection.open((url,), "node") as connection, RawSender(url) as sender:
        heard = await _heard(connection)
        await sender.publish(b"a.b", headers, b"damaged")
        await sender.publish(b"a.b", b"NATS/1.0\r\n\r\n", b"sound")
        assert (await asyncio.wait_for(heard.get(), 5)).data == b"sound"
        assert heard.empty()


@pytest.mark.parametrize("subject_and_reply", [(b"a.\xff", b""), (b"a.b", b"\xff\xfe")])
async def test_a_message_whose_subjects_are_no_text_is_dropped(
    url: str, subject_and_reply: tuple[bytes, bytes]
) -> None:
    subject, reply = subject_and_reply
    async with FleetConnection.open((url,), "node") as connection, RawSender(url) as sender:
        heard = await _heard(connection)
        await sender.publish(subject, b"NATS/1.0\r\n\r\n", b"damaged", reply)
        await sender.publish(b"a.b", b"NATS/1.0\r\n\r\n", b"sound")
        assert (await asyncio.wait_for(heard.get(), 5)).data == b"sound"
        assert heard.empty()


async def test_a_node_whose_reading_ends_connects_again_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FleetConnection.open((url,), "node") as connection, RawSender(url) as sender:
        heard = await _heard(connection)
        reconnected = asyncio.Event()
        connection.on_reconnect.append(reconnected.set)

        async def fails(data: bytes) -> None:
            monkeypatch.undo()
            raise ValueError(f"{len(data)} bytes that no parser has foreseen")

        monkeypatch.setattr(connection._client._ps, "parse", fails)
        await sender.publish(b"a.b", b"NATS/1.0\r\n\r\n", b"lost")
        await asyncio.wait_for(reconnected.wait(), 3)
        await soon(until(lambda: connection.is_connected))
        await sender.publish(b"a.b", b"NATS/1.0\r\n\r\n", b"sound")
        assert (await asyncio.wait_for(heard.get(), 5)).data == b"sound"
