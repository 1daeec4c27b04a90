"""The consoles of gateways and the inbox of a worker in one process, with a real NATS server between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from console.asking import Asking, models_in
from dragoman.backends.remote.other_nodes import FleetNodes
from dragoman.backends.remote.question_mirror import QuestionMirror
from dragoman.config import ClientKey, ConsoleConfig
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.messages import Batch, Form, RequestMessage
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.feed import FeedStream
from dragoman.frontends.console.sessions import ConsoleSession
from dragoman.frontends.worker.conversation_service import served_conversations
from dragoman.frontends.worker.permission_service import PermissionService
from dragoman.frontends.worker.question_service import QuestionService
from dragoman.models import Models
from dragoman.permissions.inbox import Inbox
from dragoman.permissions.pipeline import PermissionServices
from http_server.kit import soon

__all__ = [
    "ALICE",
    "Gateway",
    "Worker",
    "gateway",
    "until",
    "worker",
]

_REQUEST = Form(RequestMessage)
_BATCH = Form(Batch)
ALICE = ClientKey("alice", "a-secret-of-alice")
KEYS = (ALICE, ClientKey("bob", "a-secret-of-bob"))


async def until(inbox: Inbox, is_so: Callable[[], object]) -> None:
    """Wait until it is so. Something changes in the inbox when it is."""
    news = asyncio.Event()
    inbox.on_change.append(news.set)

    async def look() -> None:
        while not is_so():
            news.clear()
            await news.wait()

    try:
        await soon(look())
    finally:
        inbox.on_change.remove(news.set)


@dataclass
class Worker:
    name: str
    models: Models
    connection: FleetConnection
    calls: PermissionService

    @property
    def permissions(self) -> PermissionServices:
        return self.models.permissions

    @property
    def inbox(self) -> Inbox:
        return self.permissions.inbox

    def asking(self, folder: str = "/srv/project") -> Asking:
        return Asking(self.inbox, folder)

    async def until(self, is_so: Callable[[], object]) -> None:
        await until(self.inbox, is_so)


@dataclass
class Gateway:
    name: str
    models: Models
    console: Console
    connection: FleetConnection

    @property
    def inbox(self) -> Inbox:
        return self.models.permissions.inbox

    def open_page(self, key: str | None = None, name: str = "phone") -> tuple[ConsoleSession, FeedStream]:
        """A person opens the console here."""
        scope = self.console.scope(key)
        assert scope is not None
        session = self.console.sessions.new(f"{name}", "decide", scope).session
        return session, self.console.feed.open(session)

    async def until(self, is_so: Callable[[], object]) -> None:
        await until(self.inbox, is_so)

    @property
    def copies(self) -> list[str]:
        return [each.id for each in self.inbox]


@asynccontextmanager
async def worker(
    url: str, folder: Path, name: str = "w1", *, models: Models | None = None
) -> AsyncIterator[Worker]:
    models = models or models_in(folder)
    async with FleetConnection.open((url,), name) as connection:
        calls = PermissionService(models.permissions.grants)

        async def release(journal: str) -> None:
            assert models.journals.store is not None
            await models.journals.store.release(journal)

        async with (
            QuestionService(connection, name, models.permissions, calls, say_seconds=0.05).serving(),
            served_conversations(connection, name, models.conversations, release),
        ):
            try:
                yield Worker(name, models, connection, calls)
            finally:
                await models.close()


@asynccontextmanager
async def gateway(
    url: str,
    folder: Path,
    name: str,
    *,
    config: ConsoleConfig | None = None,
    decide_seconds: float = 20.0,
    webhook_secret: str | None = None,
) -> AsyncIterator[Gateway]:
    models = models_in(folder)
    async with FleetConnection.open((url,), name) as connection:
        models.other_nodes = FleetNodes(connection, name)
        console = Console(
            config or ConsoleConfig(), KEYS, models, f"http://127.0.0.1:1/{name}/", webhook_secret
        )
        try:
            async with QuestionMirror.running(
                connection,
                name,
                models.permissions.inbox,
                presence_seconds=0.05,
                decide_seconds=decide_seconds,
            ):
                yield Gateway(name, models, console, connection)
        finally:
            await console.close()
            await models.close()
