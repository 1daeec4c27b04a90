"""Gateways and a worker of one fleet in one process, with a real NATS server between them.

Streams are short-circuited: a gateway's model calls the worker's model. What goes with a stream is encoded and decoded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from console.asking import Asking, models_in
from dragoman.backends.remote.other_nodes import FleetNodes
from dragoman.backends.remote.permission_mirror import PermissionMirror
from dragoman.backends.remote.question_mirror import QuestionMirror
from dragoman.config import ClientKey, ConsoleConfig, load
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.messages import Batch, Form, PendingMessage, RequestMessage
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.feed import FeedStream
from dragoman.frontends.console.sessions import ConsoleSession
from dragoman.frontends.worker.conversation_service import served_conversations
from dragoman.frontends.worker.permission_service import PermissionService
from dragoman.frontends.worker.question_service import QuestionService
from dragoman.lm import CancellationToken, LanguageModel, Message, ModelInfo, Part, Request, Sink
from dragoman.models import Models
from dragoman.permissions.inbox import Inbox
from dragoman.permissions.pipeline import PermissionServices
from fake_agent.steps import COMMAND
from http_server.kit import Held, Site, site_of, soon

__all__ = [
    "ALICE",
    "Gateway",
    "StreamedModel",
    "Worker",
    "agent_gateway",
    "agent_models",
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
            QuestionService.serving(connection, name, models.permissions, calls, say_seconds=0.05),
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
                connection, name, models.permissions.inbox, say_seconds=0.05, decide_seconds=decide_seconds
            ):
                yield Gateway(name, models, console, connection)
        finally:
            await console.close()
            await models.close()


class StreamedModel:
    """A worker's model as a gateway has it."""

    def __init__(self, behind: LanguageModel, at: Worker, mirror: PermissionMirror) -> None:
        self._behind = behind
        self._at = at
        self._mirror = mirror

    @property
    def info(self) -> ModelInfo:
        return self._behind.info

    def count_tokens(self, text: str | Message) -> int:
        return self._behind.count_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        sent, approved = self._mirror.outgoing(request)
        message = _REQUEST.decode(
            _REQUEST.encode(RequestMessage("s", "g", self.info.id, sent, approved=approved))
        )
        proved = self._at.calls.proved(message.request, message.approved)
        await self._behind.respond(proved, _Batches(sink, self._at, self._mirror), token)


class _Batches:
    def __init__(self, sink: Sink, at: Worker, mirror: PermissionMirror) -> None:
        self._sink, self._at, self._mirror = sink, at, mirror

    def report(self, part: Part) -> None:
        pending: tuple[PendingMessage, ...] = self._at.calls.pending([part])
        batch = _BATCH.decode(_BATCH.encode(Batch("s", 1, (part,), pending)))
        self._mirror.take(self._at.name, batch.pending)
        for each in batch.parts:
            self._sink.report(each)

    async def drain(self) -> None:
        await self._sink.drain()


class _RemoteHeld(Held):
    def __init__(
        self, mirror: PermissionMirror, permissions: PermissionServices, model: LanguageModel
    ) -> None:
        super().__init__(permissions, m=model)
        self._mirror = mirror

    async def recall_permissions(self, model_id: str, call_ids: Iterable[str]) -> None:
        await self._mirror.recall(call_ids)


def agent_models(folder: Path, more: str = "") -> Models:
    """The models of a worker: a fake agent."""
    work = folder / "work"
    work.mkdir(parents=True)
    own = folder / "own.toml"
    command = json.dumps([*COMMAND, json.dumps({"folder": str(folder)})])
    own.write_text(f'[models.m]\nkind = "acp"\ncommand = {command}\ncwd = {json.dumps(str(work))}\n{more}')
    return Models(load(own), folder / "state")


@asynccontextmanager
async def agent_gateway(
    url: str, at: Worker, store: Path, name: str, owner: Callable[[str], str | None] | None = None
) -> AsyncIterator[Site]:
    """An HTTP server whose model is a worker's agent. Gateways share what is stored."""
    permissions = PermissionServices()

    async def owner_of(conversation: str) -> str | None:
        return at.name if owner is None else owner(conversation)

    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(FleetConnection.open((url,), name))
        mirror = PermissionMirror(connection, permissions.grants, owner_of)
        await stack.enter_async_context(
            QuestionMirror.running(connection, name, permissions.inbox, say_seconds=0.05)
        )
        model = StreamedModel(at.models.get("m"), at, mirror)
        held = _RemoteHeld(mirror, permissions, model)
        yield stack.enter_context(contextmanager(site_of)(held, store=store, owner=name))
