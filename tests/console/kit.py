"""The console of a real server on loopback, and browsers that are paired with it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from console.asking import models_in
from dragoman.config import ClientKey, ConsoleConfig, Serve
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.sessions import ConsoleRole
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.running import bound, serve
from dragoman.permissions.inbox import Inbox
from http_server.kit import Held, Json, scripted, site_of, soon

__all__ = ["Browser", "ConsoleSite", "console_site"]


@dataclass
class Browser:
    """Sends what a browser would send: its cookies, its origin, and the token that the page stores."""

    origin: str
    client: httpx2.AsyncClient
    token: str = ""
    cookies: dict[str, str] = field(default_factory=dict)

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> httpx2.Response:
        """A call of the API. A header with the value "" is left out."""
        sent = {
            "origin": self.origin,
            "sec-fetch-site": "same-origin",
            "x-dragoman-console": self.token or "pair",
            "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        given = {name: value for name, value in sent.items() if value}
        response = await soon(
            self.client.request(method, f"/console/api/{path}", headers=given, json=body)
            if body is not None
            else self.client.request(method, f"/console/api/{path}", headers=given)
        )
        # The client is shared: it must not remember cookies for another browser.
        self.client.cookies.clear()
        for each in response.headers.get_list("set-cookie"):
            name, _, value = each.partition(";")[0].partition("=")
            self.cookies[name] = value
            if not value:
                del self.cookies[name]
        return response

    async def pair(self, code: str, name: str = "phone") -> Json:
        response = await self.call("POST", "pair", {"code": code, "name": name})
        assert response.status_code == 200, response.text
        paired: Json = response.json()
        self.token = paired["token"]
        session: Json = paired["session"]
        return session


@dataclass
class ConsoleSite:
    console: Console
    inbox: Inbox
    address: str
    client: httpx2.AsyncClient

    def browser(self) -> Browser:
        return Browser(self.address.rstrip("/"), self.client)

    async def paired(
        self, role: ConsoleRole = "decide", key: str | None = None, name: str = "phone"
    ) -> Browser:
        scope = self.console.scope(key)
        assert scope is not None
        browser = self.browser()
        await browser.pair(self.console.new_code(role, scope).text, name)
        return browser


@asynccontextmanager
async def console_site(
    folder: Path,
    config: ConsoleConfig | None = None,
    *,
    keys: Sequence[ClientKey] = (),
    api_keys: tuple[ClientKey, ...] = (),
    webhook_secret: str | None = None,
    settings: Serve | None = None,
) -> AsyncIterator[ConsoleSite]:
    """A server with a console, until the end of the block."""
    behind = models_in(folder)
    models = Held(behind.permissions, m=scripted("Yes."))
    with contextmanager(site_of)(models, store=folder, serve=settings) as site:
        listening = bound("127.0.0.1", 0)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        console = Console(config or ConsoleConfig(), keys, behind, address, webhook_secret)
        gate = AccessCheck(api_keys, site.service.serve.cors_origins)
        serving = asyncio.create_task(serve(site.service, gate, listening, console=console))
        try:
            async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
                await soon(client.get("/healthz"))
                yield ConsoleSite(console, behind.permissions.inbox, address, client)
        finally:
            signal.raise_signal(signal.SIGTERM)
            await soon(serving)
            await console.close()
            await behind.close()
