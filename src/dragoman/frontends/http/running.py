"""Runs the server: a socket of our own, so that a port that is taken is told in a sentence, and an end that drains.

The first signal lets answers that are under way finish, for a while; a second one does not. Then every agent is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import uvicorn

from dragoman.config import Serve
from dragoman.frontends.http.app import build_app
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.heads import HeadLimits, LimitedHttp
from dragoman.frontends.http.middleware import HEADER_BYTES
from dragoman.frontends.http.service import HttpService

__all__ = ["PortTaken", "bound", "serve"]

_BACKLOG = 1_024


class PortTaken(Exception):
    """The address cannot be listened at. The text says why."""


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python adds the address in its own form; whoever reads this is told it anyway.
        raise PortTaken((error.strerror or str(error)).partition(" (while attempting")[0]) from error
    listening.set_inheritable(False)
    return listening


async def serve(
    service: HttpService,
    gate: AccessCheck,
    listening: socket.socket,
    on_drain: Callable[[], object] = lambda: None,
    heads: HeadLimits | None = None,
) -> bool:
    """Until a signal. Returns whether it was an interrupt. `on_drain`: answers are under way, and may finish."""
    protocol = partial(LimitedHttp, limits=heads or HeadLimits())
    settings: Serve = service.serve
    server = _Server(
        uvicorn.Config(
            build_app(service, gate),
            # Ours: logs go where the others do, and nothing of a request but its path is in them.
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            # Headers that name another client are for those behind a proxy, and there is none.
            proxy_headers=False,
            h11_max_incomplete_event_size=HEADER_BYTES,
            # The library only calls it.
            http=cast("type[asyncio.Protocol]", protocol),
            ws="websockets-sansio",
            ws_max_size=settings.max_body_bytes,
            timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
        ),
        on_drain,
    )
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, server.told, each)
    try:
        await server.serve(sockets=[listening])
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        listening.close()
    return server.was_interrupted


class _Server(uvicorn.Server):
    """Without signal handlers of its own: it would raise the signal again when it has ended well."""

    def __init__(self, config: uvicorn.Config, on_drain: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_drain = on_drain
        self.was_interrupted = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def told(self, number: signal.Signals) -> None:
        self.was_interrupted |= number == signal.SIGINT
        if self.should_exit:
            self.force_exit = True
        elif self.server_state.tasks:
            self._on_drain()
        self.should_exit = True
