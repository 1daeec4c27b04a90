"""An agent that writes its own HTTP, for what the official library's would never send."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from dragoman.backends.agent.toolserver.session import META_VERSION, STATELESS_VERSION
from dragoman.lm import JsonObject, json
from toolserver.harness import Bridge, soon

__all__ = ["SESSION", "Raw", "event", "first_event", "initialize", "message", "read"]

_ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
SESSION = "mcp-session-id"


def message(method: str, params: JsonObject | None = None, number: int | None = 1) -> bytes:
    said: JsonObject = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.encode(said if number is None else {**said, "id": number})


def initialize(version: str = "2025-06-18") -> bytes:
    client = {"name": "raw", "version": "1"}
    return message("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})


def read(data: bytes | str) -> JsonObject:
    value = json.decode(data)
    assert isinstance(value, dict)
    return value


def event(line: str) -> JsonObject:
    return read(line.removeprefix("data: "))


def first_event(response: httpx2.Response) -> JsonObject:
    return event(next(line for line in response.text.splitlines() if line.startswith("data: ")))


class Raw:
    def __init__(self, bridge: Bridge, http: httpx2.AsyncClient) -> None:
        self.url, headers = bridge.endpoint.http()
        self.headers = {**_ACCEPT, **{name.lower(): value for name, value in headers.items()}}
        self.http = http

    async def ask(self, method: str, body: bytes = b"", **headers: str) -> httpx2.Response:
        return await soon(self.http.request(method, self.url, content=body, headers=self._with(headers)))

    async def post(self, body: bytes, **headers: str) -> httpx2.Response:
        return await self.ask("POST", body, **headers)

    def stateless(self, method: str, params: JsonObject, **headers: str) -> tuple[bytes, dict[str, str]]:
        """A request of 2026-07-28 and the headers that belong to it. One with an empty value is left out."""
        meta: JsonObject = {
            META_VERSION: STATELESS_VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        named = {"mcp_name": str(params["name"])} if "name" in params else {}
        given = {"mcp_protocol_version": STATELESS_VERSION, "mcp_method": method, **named, **headers}
        return message(method, {"_meta": meta, **params}), self._with(given)

    async def post_stateless(self, method: str, params: JsonObject, **headers: str) -> httpx2.Response:
        body, given = self.stateless(method, params, **headers)
        return await soon(self.http.post(self.url, content=body, headers=given))

    async def open_session(self, version: str = "2025-06-18") -> str:
        opened = await self.post(initialize(version))
        assert opened.status_code == 200
        self.headers[SESSION] = opened.headers[SESSION]
        await self.post(message("notifications/initialized", number=None))
        return self.headers[SESSION]

    @asynccontextmanager
    async def calling(self, name: str) -> AsyncIterator[AsyncIterator[str]]:
        body = message("tools/call", {"name": name, "arguments": {}}, number=7)
        async with self.http.stream("POST", self.url, content=body, headers=self.headers) as response:
            assert response.status_code == 200
            yield response.aiter_lines()

    def _with(self, headers: dict[str, str]) -> dict[str, str]:
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        return {name: value for name, value in {**self.headers, **changed}.items() if value}
