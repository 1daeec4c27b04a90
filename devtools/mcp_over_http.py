"""An MCP client over streamable HTTP, for the agents of tests, benchmarks and traces.

Each message is a POST, each answer JSON or a stream of events.
One more stream, opened with GET, brings what the server says by itself; a server may refuse it, and nothing depends on it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import httpx2

from dragoman.acp.messages import HttpServer, StdioServer
from dragoman.demo.mcp import ToolClient, connect as connect_stdio
from dragoman.demo.mcp.link import CANCELLED, McpError, OnNotification
from dragoman.jsonrpc import (
    MAX_MESSAGE_BYTES,
    METHOD_NOT_FOUND,
    ErrorObject,
    ErrorResponse,
    Notification,
    RemoteError,
    RequestId,
    RpcResponse,
)
from dragoman.jsonrpc.messages import (
    Malformed,
    RpcMessage,
    RpcRequest,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    parse,
)

__all__ = ["connect"]

_log = logging.getLogger(__name__)

_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_EVENTS = "text/event-stream"
_NOT_FOUND = 404
# To connect, and to take what we send. An answer may take as long as a person does.
_CONNECT_SECONDS = 10.0
# A server that does not listen any more is left without a goodbye.
_GOODBYE_SECONDS = 1.0


class SessionExpired(McpError):
    """The server has forgotten us: a new handshake is due."""


async def connect(address: HttpServer | StdioServer, cwd: Path, on_change: Callable[[], None]) -> ToolClient:
    """As `dragoman.demo.mcp.connect`, over either transport."""
    if isinstance(address, StdioServer):
        return await connect_stdio(address, cwd, on_change)
    client = _HttpClient(address.name, on_change)
    try:
        await client.open(HttpLink(address, client.on_notification))
    except BaseException:
        await client.close()
        raise
    return client


class _HttpClient(ToolClient):
    async def _request(self, method: str, params: object) -> bytes:
        try:
            return await super()._request(method, params)
        except SessionExpired:
            # "When a client receives HTTP 404 […], it MUST start a new session by sending a new InitializeRequest".
            await self._handshake()
            return await super()._request(method, params)


class HttpLink:
    def __init__(self, server: HttpServer, on_notification: OnNotification) -> None:
        self._name = server.name
        self._url = server.url
        self._on_notification = on_notification
        self._ids = count(1)
        self._headers: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        # Reading the certificates of the world takes longer than all the rest; where none is asked for, none is trusted.
        is_plain = server.url.startswith("http:")
        self._http = httpx2.AsyncClient(
            headers={header.name: header.value for header in server.headers},
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
            # The address was given to us to be used as it is, whatever proxy is set for everything else.
            trust_env=False,
        )

    async def request(self, method: str, params: object) -> bytes:
        identity = next(self._ids)
        try:
            reply = await self._reply(identity, encode_request(identity, method, params))
        except asyncio.CancelledError:
            self._in_background(self._withdraw(identity))
            raise
        if isinstance(reply, ErrorResponse):
            raise RemoteError(reply.error)
        return reply.result

    async def notify(self, method: str, params: object) -> None:
        async with self._posted(encode_notification(method, params)):
            pass

    def agreed(self, version: str) -> None:
        self._headers[_VERSION] = version
        if self._listening is None or self._listening.done():
            self._listening = self._in_background(self._listen())

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if _SESSION in self._headers:
            with suppress(httpx2.HTTPError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await self._http.delete(self._url, headers=self._headers)
        await self._http.aclose()

    async def _reply(self, identity: int, body: bytes) -> RpcResponse | ErrorResponse:
        async with self._posted(body) as response, aclosing(_messages(self._name, response)) as messages:
            async for message in messages:
                if isinstance(message, RpcResponse | ErrorResponse) and message.id == identity:
                    return message
                self._take(message)
        raise McpError(f"{self._name} ended its answer before it was complete.")

    @asynccontextmanager
    async def _posted(self, body: bytes) -> AsyncIterator[httpx2.Response]:
        """A message sent, and the response to it while it comes in."""
        headers = {
            "content-type": "application/json",
            "accept": f"application/json, {_EVENTS}",
            **self._headers,
        }
        try:
            async with self._http.stream("POST", self._url, content=body, headers=headers) as response:
                self._check(response)
                # Given with the handshake, and due with everything after it.
                if _SESSION in response.headers:
                    self._headers[_SESSION] = response.headers[_SESSION]
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise McpError(
                f"{self._name} cannot be reached: {str(error) or type(error).__name__}."
            ) from error

    def _check(self, response: httpx2.Response) -> None:
        if response.is_success:
            return
        if response.status_code == _NOT_FOUND and _SESSION in self._headers:
            self._headers.clear()
            raise SessionExpired(f"{self._name} has forgotten the session.")
        raise McpError(f"{self._name} answers with status {response.status_code}.")

    async def _listen(self) -> None:
        headers = {"accept": _EVENTS, **self._headers}
        try:
            async with self._http.stream("GET", self._url, headers=headers) as response:
                if not response.is_success:
                    _log.debug("%s sends nothing by itself (%d)", self._name, response.status_code)
                    return
                async with aclosing(_messages(self._name, response)) as messages:
                    async for message in messages:
                        self._take(message)
        except (httpx2.HTTPError, McpError) as error:
            # Tools are listed again before each prompt anyway.
            _log.debug("%s: the stream of what it sends by itself broke: %s", self._name, error)

    def _take(self, message: RpcMessage) -> None:
        match message:
            case Notification():
                self._on_notification(message)
            case RpcRequest(id=identity, method=method):
                self._in_background(self._answer(identity, method))
            case _:
                _log.debug("%s: a reply that nobody waits for", self._name)

    async def _answer(self, identity: RequestId, method: str) -> None:
        if method == "ping":
            body = encode_response(identity, {})
        else:
            # We declare no capabilities, so nothing else may be asked of us.
            body = encode_error(identity, ErrorObject(METHOD_NOT_FOUND, f"{method} is not offered"))
        await self._send(body)

    async def _withdraw(self, identity: int) -> None:
        await self._send(encode_notification(CANCELLED, {"requestId": identity}))

    async def _send(self, body: bytes) -> None:
        try:
            async with self._posted(body):
                pass
        except McpError as error:
            _log.info("%s", error)

    def _in_background(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _messages(name: str, response: httpx2.Response) -> AsyncGenerator[RpcMessage, None]:
    if response.headers.get("content-type", "").startswith(_EVENTS):
        async for event in httpx2.EventSource(response, MAX_MESSAGE_BYTES):
            if event.data:
                yield _message(name, event.data.encode())
    else:
        yield _message(name, await _body(name, response))


async def _body(name: str, response: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_MESSAGE_BYTES:
            raise McpError(f"{name} answers with more than {MAX_MESSAGE_BYTES:,} bytes.")
    return bytes(body)


def _message(name: str, data: bytes) -> RpcMessage:
    message = parse(data)
    if isinstance(message, Malformed):
        raise McpError(f"{name} sends what is no message: {message.reason}.")
    return message
