"""The tool server: both listeners, and the endpoints they serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from dragoman.backends.agent.toolserver.calls import PendingCall
from dragoman.backends.agent.toolserver.endpoint import Addresses, Endpoint
from dragoman.backends.agent.toolserver.over_http import HttpListener
from dragoman.backends.agent.toolserver.over_socket import SocketListener
from dragoman.backends.agent.toolserver.service import ToolService
from dragoman.clock import Clock, SystemClock

__all__ = ["ToolServer"]


@dataclass(frozen=True, slots=True)
class _Listeners:
    http: HttpListener
    socket: SocketListener

    def add(self, service: ToolService) -> None:
        self.http.add(service)
        self.socket.add(service)

    async def remove(self, service: ToolService) -> None:
        service.close()
        await asyncio.gather(self.http.remove(service), self.socket.remove(service))

    async def close(self) -> None:
        await self.http.close()
        await self.socket.close()


class ToolServer:
    """One MCP server for all conversations, over HTTP and a Unix socket."""

    def __init__(self, clock: Clock | None = None, *, session_idle_seconds: float | None = None) -> None:
        self._clock = clock or SystemClock()
        self._session_idle_seconds = session_idle_seconds
        self._listeners: _Listeners | None = None
        self._services: dict[Endpoint, ToolService] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start listening."""
        if self._listeners is not None:
            raise RuntimeError("the tool server runs already")
        listeners = _Listeners(HttpListener(self._session_idle_seconds), SocketListener())
        try:
            await listeners.http.start()
            await listeners.socket.start()
        except BaseException:
            await listeners.close()
            raise
        self._listeners = listeners

    def endpoint(
        self,
        *,
        name: str,
        on_call: Callable[[PendingCall], object],
        on_withdrawn: Callable[[str], object],
        on_waits: Callable[[], object] = lambda: None,
        limit_seconds: float | None = None,
    ) -> Endpoint:
        """Add an endpoint for the tools of one conversation. `name` is the server's name for the agent."""
        if self._listeners is None:
            raise RuntimeError("the tool server does not run")
        endpoint = Endpoint(
            name=name,
            limit_seconds=limit_seconds,
            on_call=on_call,
            on_withdrawn=on_withdrawn,
            on_waits=on_waits,
            clock=self._clock,
            addresses=Addresses(self._listeners.http.url, self._listeners.socket.path),
            end=self._end,
        )
        service = self._services[endpoint] = ToolService(endpoint)
        self._listeners.add(service)
        return endpoint

    async def close(self) -> None:
        """Close every endpoint, and stop listening. Nothing is left: no task, no socket, no file."""
        await asyncio.gather(*(endpoint.close() for endpoint in list(self._services)), *self._endings)
        listeners, self._listeners = self._listeners, None
        if listeners is not None:
            await listeners.close()

    async def _end(self, endpoint: Endpoint) -> None:
        service = self._services.pop(endpoint, None)
        if service is None or self._listeners is None:
            return
        # In a task, so that it completes even if the caller is cancelled.
        ending = asyncio.create_task(self._listeners.remove(service))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.shield(ending)
