"""A real server on loopback for an app of the kit, and an endpoint's model for it: chains of two servers."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvicorn

from dragoman.backends.responses.model import EndpointModel
from dragoman.backends.responses.settings import EndpointSettings
from dragoman.lm import Capabilities, GuardedModel, ModelInfo

__all__ = ["endpoint_at", "listening"]


@asynccontextmanager
async def listening(app: Callable[..., Awaitable[None]]) -> AsyncIterator[str]:
    """The address of a running server."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=0)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        server = uvicorn.Server(config)
        # Not `serve`: signals are for the test's own process.
        task = asyncio.create_task(server._serve([bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def endpoint_at(url: str, model: str = "m") -> AsyncIterator[GuardedModel]:
    """The model of that name at another server."""
    info = ModelInfo("far", "Far", "far", "1", 100_000, 10_000, Capabilities(True, True), takes_options=True)  # noqa: FBT003
    settings = EndpointSettings("m", "Far", f"{url}/v1", model)
    guarded = GuardedModel(EndpointModel(info, settings))
    try:
        yield guarded
    finally:
        await guarded.close()
