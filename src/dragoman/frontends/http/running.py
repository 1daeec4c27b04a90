"""Runs the HTTP server until a signal.

The server gets a listening socket, so that the caller can report a port in use in a sentence. The first signal lets
running responses finish, up to a time limit. A second signal ends them at once. Then every agent is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import cast

import uvicorn

from dragoman.config import Serve
from dragoman.frontends.console.console import Console
from dragoman.frontends.http.app import build_app
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.heads import HeadLimits, LimitedHttp
from dragoman.frontends.http.middleware import HEADER_BYTES
from dragoman.frontends.http.service import HttpService

__all__ = ["PortTaken", "bound", "serve"]

_BACKLOG = 1_024
# After the drain, answers get so long to say that they end.
_LAST_SECONDS = 5.0


class PortTaken(Exception):
    """The server cannot listen at the address. The text says why."""


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python appends the address in its own form. The caller's message contains it already.
        raise PortTaken((error.strerror or str(error)).partition(" (while attempting")[0]) from error
    listening.set_inheritable(False)
    return listening


async def serve(
    service: HttpService,
    gate: AccessCheck,
    listening: socket.socket,
    on_drain: Callable[[], object] = lambda: None,
    heads: HeadLimits | None = None,
    console: Console | None = None,
    terminal_codes: AbstractContextManager[object] | None = None,
) -> bool:
    """Serve until a signal. Return whether it was SIGINT. `on_drain` is called if responses run and may finish.

    `terminal_codes` is entered when signals are handled, and left before they no longer are: no signal ends the process within it.
    """
    protocol = partial(LimitedHttp, limits=heads or HeadLimits())
    settings: Serve = service.serve
    server = _Server(
        uvicorn.Config(
            build_app(service, gate, console),
            # Our own logging: it logs nothing of a request but its path.
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            # The server is not behind a proxy, so it ignores headers that name another client.
            proxy_headers=False,
            h11_max_incomplete_event_size=HEADER_BYTES,
            # uvicorn only calls it.
            http=cast("type[asyncio.Protocol]", protocol),
            ws="websockets-sansio",
            ws_max_size=settings.max_body_bytes,
            timeout_graceful_shutdown=max(1, round(settings.drain_seconds + _LAST_SECONDS)),
        ),
        on_drain,
        service,
        console,
    )
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, server.on_signal, each)
    try:
        with terminal_codes or contextlib.nullcontext():
            await server.serve(sockets=[listening])
            await server.finish_background(settings.drain_seconds)
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        listening.close()
    return server.was_interrupted


class _Server(uvicorn.Server):
    """A uvicorn server without its own signal handlers, which raise the signal again after a clean end."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_drain: Callable[[], object],
        service: HttpService,
        console: Console | None,
    ) -> None:
        super().__init__(config)
        self._console = console
        self._on_drain = on_drain
        self._service = service
        self._background = service.background
        self._schema_checks = service.schema_checks
        self._hurry = asyncio.Event()
        self._signalled_at: float | None = None
        self.was_interrupted = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def on_signal(self, number: signal.Signals) -> None:
        self.was_interrupted |= number == signal.SIGINT
        streams = 0
        self._schema_checks.end()
        if self._console is not None:
            # The server waits for requests under way, and an event stream never ends by itself.
            streams = self._console.end_streams()
        if self.should_exit:
            self.force_exit = True
            self._hurry.set()
        elif len(self.server_state.tasks) > streams or self._background.are_running:
            self._on_drain()
        self.should_exit = self._service.is_draining = True
        if self._signalled_at is None:
            self._signalled_at = time.monotonic()
            loop = asyncio.get_running_loop()
            loop.call_later(self._service.serve.drain_seconds, self._service.end_answers)

    async def finish_background(self, seconds: float) -> None:
        """Let background responses end, up to so many seconds after the signal."""
        passed = time.monotonic() - (self._signalled_at or time.monotonic())
        await self._background.finish(max(0.0, seconds - passed), self._hurry)
