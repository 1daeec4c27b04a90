"""The HTTP front end in this process: an app, models for it, and a client that sees every write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dragoman.backends.agent.model import AgentModel
from dragoman.backends.scripted import ScriptedModel, ScriptedReply, ScriptStep
from dragoman.config import Config, ConsoleConfig, KeyConfig, Serve, client_keys
from dragoman.frontends.http.app import build_app
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.histories import response_store
from dragoman.frontends.http.service import HttpService
from dragoman.journal.content import JournalContent
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.writer import Journals
from dragoman.lm import GuardedModel, LanguageModel, LanguageModelError, ModelInfo
from dragoman.lm.client_services import ClientRegistry
from dragoman.models import LiveConversation, Models
from dragoman.permissions.pipeline import PermissionServices
from dragoman.store import Database
from http_server.stream_check import check_events, check_resource

__all__ = [
    "DEADLINE",
    "KEY",
    "TOOL",
    "Answered",
    "Held",
    "Json",
    "Site",
    "function",
    "scripted",
    "site_of",
    "soon",
]

Json = dict[str, Any]
_T = TypeVar("_T")

# Longer than anything here takes on a busy machine. Only a test that fails reaches it.
DEADLINE = 30.0
KEY = "a-key-of-ours"


async def soon(work: Awaitable[_T]) -> _T:
    return await asyncio.wait_for(work, DEADLINE)


def function(name: str) -> Json:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    return {"type": "function", "name": name, "description": f"The tool {name}.", "parameters": schema}


TOOL = function("look")


class Held:
    """Models that are there already."""

    def __init__(self, permissions: PermissionServices | None = None, **models: LanguageModel) -> None:
        self.permissions = permissions or PermissionServices()
        self.clients = ClientRegistry()
        self._models = models
        self.cwd = Path.cwd()
        self.journals = Journals()

    def conversing(self, model_id: str) -> None:
        self.get(model_id)

    def offering(self, model_id: str) -> None:
        self.get(model_id)

    def watch_offers(self, on_change: Callable[[str], None]) -> None:
        """Nothing is offered."""

    def conversations(self) -> tuple[LiveConversation, ...]:
        return ()

    async def learn(self) -> None:
        return

    async def recall_permissions(self, model_id: str, call_ids: Iterable[str]) -> None:
        """All that waits is known."""

    def infos(self) -> tuple[ModelInfo, ...]:
        return tuple(model.info for model in self._models.values())

    def get(self, model_id: str) -> LanguageModel:
        if model_id not in self._models:
            raise LanguageModelError("not_found", f"There is no model {model_id!r}.")
        return self._models[model_id]

    def folder(self, model_id: str) -> Path | None:
        model = self._models.get(model_id)
        return self.cwd if isinstance(getattr(model, "_model", None), AgentModel) else None

    def is_remote(self, model_id: str) -> bool:
        self.get(model_id)
        return False

    async def close(self) -> None:
        return


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    writes: list[bytes]

    @property
    def json(self) -> Json:
        value: Json = json.loads(b"".join(self.writes))
        return value

    @property
    def error(self) -> Json:
        error: Json = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    @property
    def response(self) -> Json:
        assert self.status == 200, self.writes
        check_resource(self.json)
        return self.json

    @property
    def data(self) -> list[Json]:
        """Of each write, which is one event and ends like one; the last is `[DONE]`."""
        assert self.writes[-1] == b"data: [DONE]\n\n"
        found = []
        for write in self.writes[:-1]:
            assert write.endswith(b"\n\n")
            assert write.count(b"\n\n") == 1
            *head, data = write.decode().strip().split("\n")
            value = json.loads(data.removeprefix("data: "))
            assert head in ([], [f"event: {value.get('type')}"])
            found.append(value)
        return found

    @property
    def streamed(self) -> Json:
        """The response that a stream told, with every event checked."""
        assert self.status == 200, self.writes
        return check_events(self.data)


@dataclass
class Site:
    app: Callable[..., Awaitable[None]]
    service: HttpService
    headers: Mapping[str, str] = field(default_factory=dict)

    async def post(self, path: str, body: object, **headers: str) -> Answered:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.call("POST", path, content, headers)

    async def create(self, **fields: object) -> Answered:
        headers = fields.pop("headers", {})
        assert isinstance(headers, dict)
        return await self.post("/v1/responses", {"model": "m", **fields}, **headers)

    async def get(self, path: str, **headers: str) -> Answered:
        return await self.call("GET", path, b"", headers)

    async def call(
        self,
        method: str,
        path: str,
        content: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        leave: asyncio.Event | None = None,
        heard: Callable[[bytes], None] = lambda _write: None,
    ) -> Answered:
        """One request; the client goes when `leave` is set, and otherwise stays."""
        named = {"host": "127.0.0.1", "content-type": "application/json", **self.headers}
        named |= {name.lower().replace("_", "-"): value for name, value in (headers or {}).items()}
        answered = Answered(0, {}, [])
        incoming = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Json:
            if incoming:
                return incoming.pop()
            await (leave or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Json) -> None:
            if message["type"] == "http.response.start":
                answered.status = message["status"]
                answered.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            elif message["body"]:
                answered.writes.append(message["body"])
                heard(message["body"])

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", 8427),
            "client": ("127.0.0.1", 50_000),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items()],
        }
        await soon(self.app(scope, receive, send))
        return answered


def site_of(
    models: Held | Models,
    *,
    store: Path | None = None,
    keys: tuple[str, ...] = (),
    named: Mapping[str, KeyConfig] | None = None,
    serve: Serve | None = None,
    content: JournalContent = "full",
    owner: str | None = None,
    console: ConsoleConfig | None = None,
    config_file: Path | None = None,
) -> Iterator[Site]:
    """A site, and its database closed at the end. `owner` stands for another process that has the same database."""
    serve = serve or Serve()
    database = Database.open(store) if store is not None else None
    journals = Journals(SqliteJournals(database, owner) if database is not None else None, content)
    known = Config(serve=Serve(api_keys=keys), keys=dict(named or {}))
    values = (*keys, *(each.key for each in known.keys.values()))
    headers = {"authorization": f"Bearer {values[0]}"} if values else {}
    with response_store(database, content) as responses:
        service = HttpService(models, serve, responses, journals, console, config_file)
        yield Site(build_app(service, AccessCheck(client_keys(known), serve.cors_origins)), service, headers)
    if database is not None:
        database.close()


def scripted(*replies: ScriptedReply | ScriptStep | str, info: ModelInfo | None = None) -> GuardedModel:
    return GuardedModel(ScriptedModel.of(*replies, info=info))
