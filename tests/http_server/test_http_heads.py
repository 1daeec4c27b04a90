"""Connections that send no complete request, over real sockets."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from dragoman.frontends.http import wire
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.heads import HeadLimits
from dragoman.frontends.http.running import bound, serve
from http_server.kit import Site, soon

_Make = Callable[..., Site]
_HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
# Longer than a test takes, so that only the number of connections decides.
_LONG = 3_600.0


@asynccontextmanager
async def _served(site: Site, limits: HeadLimits) -> AsyncIterator[int]:
    listening = bound("127.0.0.1", 0)
    port: int = listening.getsockname()[1]
    serving = asyncio.create_task(serve(site.service, AccessCheck(), listening, heads=limits))
    try:
        assert (await _asked(port)).startswith(b"HTTP/1.1 200")
        yield port
    finally:
        signal.raise_signal(signal.SIGTERM)
        await soon(serving)


async def _asked(port: int) -> bytes:
    reader, writer = await soon(asyncio.open_connection("127.0.0.1", port))
    writer.write(_HALF + b"Connection: close\r\n\r\n")
    answer = await soon(reader.read())
    writer.close()
    return answer


async def _closed(reader: asyncio.StreamReader) -> bytes:
    """What comes before the server closes a connection."""
    try:
        return await soon(reader.read())
    except ConnectionResetError:
        return b""


async def test_half_a_head_is_closed_after_a_while_and_logged(
    site: _Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with _served(site("Yes."), HeadLimits(0.05, log_seconds=0.0)) as port:
        for sent in (b"", b"G", _HALF, b"GET / HTTP/1.1\r\nX-Long: "):
            caplog.clear()
            reader, writer = await soon(asyncio.open_connection("127.0.0.1", port))
            writer.write(sent)
            assert await _closed(reader) == b""
            assert "127.0.0.1 is closed: it has sent no complete request within 0.05 seconds" in caplog.text
            writer.close()
        assert (await _asked(port)).startswith(b"HTTP/1.1 200")


async def test_bytes_that_trickle_in_buy_no_time(site: _Make) -> None:
    async with _served(site("Yes."), HeadLimits(0.2)) as port:
        reader, writer = await soon(asyncio.open_connection("127.0.0.1", port))
        closed = asyncio.create_task(_closed(reader))
        writer.write(_HALF)
        while not closed.done():
            writer.write(b"x: y\r\n")
            await asyncio.wait({closed}, timeout=0.01)
        assert closed.result() == b""
        writer.close()


async def test_the_rest_of_a_body_that_nobody_reads_has_the_same_time(site: _Make) -> None:
    async with _served(site("Yes."), HeadLimits(0.05)) as port:
        reader, writer = await soon(asyncio.open_connection("127.0.0.1", port))
        writer.write(_HALF + b"Content-Length: 1000\r\n\r\n")
        await soon(reader.readuntil(b"}"))
        writer.write(b"x")
        assert await _closed(reader) == b""
        writer.close()


async def test_a_body_that_stalls_is_refused_and_logged(
    site: _Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_BODY_SECONDS", 0.05)
    async with _served(site("Yes."), HeadLimits(_LONG)) as port:
        reader, writer = await soon(asyncio.open_connection("127.0.0.1", port))
        head = b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(head + b'Content-Length: 1000\r\n\r\n{"model"')
        assert (await soon(reader.readline())).startswith(b"HTTP/1.1 408 ")
        assert "a body was not complete after 0.05 seconds" in caplog.text
        writer.close()


async def test_an_answer_under_way_has_all_the_time_it_takes(site: _Make) -> None:
    made = site("Yes.")
    async with _served(made, HeadLimits(0.05)) as port:
        reader, writer = await soon(asyncio.open_connection("127.0.0.1", port))
        body = b'{"model":"m","input":"x"}'
        head = b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body))
        # The head is complete, and the body takes longer than a head may.
        waiting, other = await soon(asyncio.open_connection("127.0.0.1", port))
        assert await _closed(waiting) == b""
        other.close()
        writer.write(body)
        assert await soon(reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        writer.close()


async def test_connections_without_a_head_shut_nobody_out(
    site: _Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with _served(site("Yes."), HeadLimits(_LONG, most=8)) as port:
        held = []
        for _ in range(30):
            reader, writer = await soon(asyncio.open_connection("127.0.0.1", port))
            writer.write(_HALF)
            held.append((reader, writer))
        assert (await _asked(port)).startswith(b"HTTP/1.1 200")
        # The oldest are closed, one for each that came after.
        for reader, _ in held[:20]:
            assert await _closed(reader) == b""
        assert caplog.text.count("8 others wait as well") == 1, "a flood does not fill the log"
        for _, writer in held:
            writer.close()


def test_of_a_flood_the_log_has_a_line_now_and_then_with_the_number(caplog: pytest.LogCaptureFixture) -> None:
    limits = HeadLimits(log_seconds=10.0)
    for now in (100.0, 101.0, 105.0, 111.0, 112.0):
        limits.log("10.0.0.1", "too slow", now)
    assert [record.message for record in caplog.records] == [
        "a connection from 10.0.0.1 is closed: too slow",
        "a connection from 10.0.0.1 is closed: too slow; 2 more since the last such line",
    ]
