"""A server with a console, real models and a real agent behind it; and pages that are paired with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console.asking import stamped
from dragoman.config import ClientKey, ConsoleConfig, Serve, load
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.sessions import ConsoleRole
from dragoman.frontends.http.app import build_app
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.histories import response_store
from dragoman.frontends.http.service import HttpService
from dragoman.models import Models
from dragoman.store import Database
from fake_agent.steps import COMMAND
from http_server.kit import Answered, Json, Site, soon

__all__ = ["RUN", "DataSite", "Page", "data_site"]

# Steps of the fake agent: it wants to run something, and says what came of it.
RUN: list[object] = [
    "ask",
    {"toolCallId": "p", "title": "Run it", "kind": "execute", "rawInput": {"command": "git log --oneline"}},
    ["allow_once", "reject_once"],
]
_ADDRESS = "http://127.0.0.1:8427"


@dataclass
class Page:
    """The page in a paired browser."""

    site: DataSite
    token: str
    cookie: str
    events: list[tuple[str, Json]] = field(default_factory=list)
    last_id: str | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _leave: asyncio.Event = field(default_factory=asyncio.Event)
    _reading: asyncio.Task[Answered] | None = None

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        content = b"" if body is None else json.dumps(body).encode()
        return await self.site.http.call(
            method, f"/console/api/{path}", content, {**self._headers, **headers}
        )

    async def get(self, path: str) -> Json:
        answered = await self.call("GET", path)
        assert answered.status == 200, answered.writes
        return answered.json

    @property
    def _headers(self) -> dict[str, str]:
        return {
            "origin": _ADDRESS,
            "host": "127.0.0.1:8427",
            "x-dragoman-console": self.token,
            "cookie": self.cookie,
        }

    def open(self) -> None:
        """Open the event stream, behind the last event that the page has."""

        def heard(frame: bytes) -> None:
            id_, name = stamped(frame)
            self.last_id = id_ or self.last_id
            self.events.append((name, json.loads(frame.decode().partition("data: ")[2])))
            self._news.set()

        headers = {**self._headers, **({"last-event-id": self.last_id} if self.last_id else {})}
        self._leave = asyncio.Event()
        self._reading = asyncio.create_task(
            self.site.http.call("GET", "/console/api/events", b"", headers, leave=self._leave, heard=heard)
        )

    async def leave(self) -> None:
        """Close the page, or lose the connection."""
        self._leave.set()
        if self._reading is not None:
            await soon(self._reading)
            self._reading = None

    async def until(self, name: str, is_it: Callable[[Json], object] = lambda _data: True) -> Json:
        """The first event of this name that is so, now or later."""

        async def look() -> Json:
            while True:
                self._news.clear()
                for each, data in self.events:
                    if each == name and is_it(data):
                        return data
                await self._news.wait()

        return await soon(look())

    async def ended(self) -> None:
        assert self._reading is not None
        await soon(self._reading)
        self._reading = None


@dataclass
class DataSite:
    console: Console
    models: Models
    http: Site
    folder: Path
    pages: list[Page] = field(default_factory=list)

    def page(self, role: ConsoleRole = "decide", key: str | None = None, name: str = "phone") -> Page:
        scope = self.console.scope(key)
        assert scope is not None
        new = self.console.sessions.new(name, role, scope)
        page = Page(self, new.token, f"dragoman-console-8427={new.cookie}")
        self.pages.append(page)
        return page

    async def opened(self, *args: Any, **options: Any) -> Page:
        page = self.page(*args, **options)
        page.open()
        await page.until("hello")
        return page

    def respond(self, *steps: object, **fields: object) -> asyncio.Task[Answered]:
        """A request of a client that offers no permission tool."""
        headers = fields.pop("headers", {})
        assert isinstance(headers, dict)
        body = {"model": "m", "input": json.dumps(steps), "stream": True, **fields}
        return asyncio.create_task(self.http.post("/v1/responses", body, **headers))


@asynccontextmanager
async def data_site(
    folder: Path,
    *,
    config: ConsoleConfig | None = None,
    keys: Sequence[ClientKey] = (),
    more: str = "",
) -> AsyncIterator[DataSite]:
    work = folder / "work"
    work.mkdir()
    own = folder / "own.toml"
    command = json.dumps([*COMMAND, json.dumps({"folder": str(folder)})])
    own.write_text(f'[models.m]\nkind = "acp"\ncommand = {command}\ncwd = {json.dumps(str(work))}\n{more}')
    database = Database.open(folder / "state")
    models = Models(load(own), folder / "state", database=database)
    with response_store(database, models.journals.content) as responses:
        config = config or ConsoleConfig()
        service = HttpService(models, Serve(), responses, models.journals, config)
        console = Console(config, keys, models, f"{_ADDRESS}/")
        app = build_app(service, AccessCheck(), console)
        site = DataSite(console, models, Site(app, service), folder)
        try:
            yield site
        finally:
            for page in site.pages:
                await page.leave()
            await console.close()
            await models.close()
            database.close()
