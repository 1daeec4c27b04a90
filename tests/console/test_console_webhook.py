"""The webhook, against a real server on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from console.asking import Asking
from dragoman.frontends.console.webhook import Webhook
from dragoman.permissions.inbox import Inbox, InboxOutcome
from http_server.kit import soon

SECRET = "a-secret-of-ours"
ADDRESS = "http://127.0.0.1:8427/"


@dataclass
class Delivery:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value


@dataclass
class Receiver:
    """Answers with the statuses it is given, the last of them again and again. None: it never answers."""

    statuses: list[int | None] = field(default_factory=lambda: [200])
    port: int = 0
    deliveries: asyncio.Queue[Delivery] = field(default_factory=asyncio.Queue)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/a-secret-path?token=b"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request, *lines = head.decode().strip().split("\r\n")
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
                self.deliveries.put_nowait(Delivery(request.split(" ")[1], headers, body))
                if status is None:
                    await asyncio.Event().wait()
                location = f"location: http://127.0.0.1:{self.port}/elsewhere\r\n" if status == 302 else ""
                writer.write(f"HTTP/1.1 {status} X\r\n{location}content-length: 0\r\n\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def next(self) -> Delivery:
        return await soon(self.deliveries.get())


@asynccontextmanager
async def receiving(*statuses: int | None) -> AsyncIterator[Receiver]:
    receiver = Receiver([*statuses] or [200])
    tasks: set[asyncio.Task[Any]] = set()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(receiver.serve(reader, writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def hook(receiver: Receiver, **options: Any) -> AsyncIterator[Webhook]:
    made = Webhook(receiver.url, SECRET, ADDRESS, pauses=(0.0, 0.0), **options)
    try:
        yield made
    finally:
        await soon(made.close())


def verified(delivery: Delivery) -> int:
    """Check the signature the way the documentation says it. Returns its time."""
    fields = dict(each.split("=") for each in delivery.headers["x-dragoman-signature"].split(","))
    message = fields["t"].encode() + b"." + delivery.body
    assert hmac.digest(SECRET.encode(), message, hashlib.sha256).hex() == fields["v1"]
    return int(fields["t"])


async def test_a_message_is_signed_and_says_nothing_of_what_is_asked() -> None:
    question = Asking(Inbox()).ask(kind="execute", input={"command": "deploy the-secret-thing"})
    async with receiving() as receiver, hook(receiver, now=lambda: 1234.5) as made:
        made.asked(question)
        delivery = await receiver.next()
        assert verified(delivery) == 1234
        assert delivery.path == "/hooks/a-secret-path?token=b"
        assert delivery.headers["content-type"] == "application/json"
        assert delivery.json == {
            "type": "question.asked",
            "id": question.id,
            "address": ADDRESS,
            "model": "claude",
            "conversation": "c1",
            "asked_at": question.asked_at,
            "expires_at": question.expires_at,
        }
        made.closed(question, InboxOutcome("expired", 5.0))
        closed = await receiver.next()
        verified(closed)
        assert (closed.json["type"], closed.json["id"], closed.json["state"]) == (
            "question.closed",
            question.id,
            "expired",
        )
        assert closed.headers["x-dragoman-delivery"] != delivery.headers["x-dragoman-delivery"]


async def test_with_content_it_says_what_is_asked_in_short_and_visibly() -> None:
    question = Asking(Inbox()).ask(kind="execute", input={"command": f"run \x1b {'x' * 5_000}"})
    async with receiving() as receiver, hook(receiver, has_content=True) as made:
        made.asked(question)
        message = (await receiver.next()).json
    assert message["title"] == "Claude Code wants to run a command"
    assert message["command"].startswith("run ␛ xxx")
    assert len(message["command"]) < 500
    assert message["folder"] == "/srv/project"


async def _logged(caplog: pytest.LogCaptureFixture, part: str) -> None:
    async def look() -> None:
        while part not in caplog.text:  # noqa: ASYNC110 - a log tells nobody that it grows
            await asyncio.sleep(0.01)

    await soon(look())


@pytest.mark.parametrize(
    ("statuses", "attempts", "logged"),
    [
        ([503, 200], 2, None),
        ([500, 429, 200], 3, None),
        ([500], 3, "HTTP status 500"),
        # It would be the same again.
        ([404], 1, "HTTP status 404"),
        # It is not followed.
        ([302], 1, "HTTP status 302"),
    ],
)
async def test_it_tries_three_times_where_that_may_help(
    caplog: pytest.LogCaptureFixture, statuses: list[int], attempts: int, logged: str | None
) -> None:
    asking = Asking(Inbox())
    async with receiving(*statuses) as receiver, hook(receiver) as made:
        made.asked(asking.ask())
        tried = [await receiver.next() for _ in range(attempts)]
        assert len({each.headers["x-dragoman-delivery"] for each in tried}) == 1
        for each in tried:
            verified(each)
        if logged is not None:
            await _logged(caplog, logged)
        # The next message is the next delivery: there was no further attempt.
        receiver.statuses = [200]
        made.asked(asking.ask())
        following = await receiver.next()
        assert following.headers["x-dragoman-delivery"] != tried[0].headers["x-dragoman-delivery"]
        assert following.path.startswith("/hooks/")
    assert "secret-path" not in caplog.text


async def test_a_receiver_that_never_answers_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with receiving(None) as receiver, hook(receiver, timeout_seconds=0.5) as made:
        made.asked(Asking(Inbox()).ask())
        for _ in range(3):
            await receiver.next()
        await _logged(caplog, "no answer within")
    assert "secret-path" not in caplog.text
    assert "token=b" not in caplog.text


async def test_one_that_is_not_there_is_logged_without_its_path(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with receiving() as receiver:
        pass
    async with hook(receiver) as made:
        made.asked(Asking(Inbox()).ask())
        await _logged(caplog, "the webhook at 127.0.0.1 did not take a message: ConnectError")
    assert "secret-path" not in caplog.text


async def test_the_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver, hook(receiver) as made:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        made.asked(Asking(Inbox()).ask())
        await receiver.next()
        assert proxy.deliveries.empty()


async def test_messages_beyond_a_hundred_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    asking = Asking(Inbox())
    async with receiving(None) as receiver, hook(receiver) as made:
        made.asked(asking.ask())
        # The first is on its way, and the queue is empty.
        await receiver.next()
        for _ in range(101):
            made.asked(asking.ask())
    assert caplog.text.count("is dropped: 100 wait already") == 1
