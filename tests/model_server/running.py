"""The server: routes, gates, and what it was asked."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from model_server.asked import Ask, Call, Gate, Json
from model_server.dialects import chat, gemini, messages, responses
from model_server.script import reply_to

__all__ = ["ModelServer", "app", "model_server"]

MODEL = "scripted"
# Longer than anything here takes on a busy machine. Only a test that fails reaches it.
_DEADLINE_SECONDS = 60.0


class ModelServer:
    """What one server was asked, and the gates that hold its streams."""

    def __init__(self, on_ask: Callable[[Ask], None] = lambda _ask: None) -> None:
        self.url = ""
        self.asks: list[Ask] = []
        # Of any path that nobody serves: what an agent wanted besides a model.
        self.strays: list[str] = []
        self._on_ask = on_ask
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._reached: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._changed = asyncio.Event()

    def open(self, gate: str) -> None:
        self._gates[gate].set()

    async def reached(self, gate: str) -> None:
        """Until a stream stands before the gate."""
        await asyncio.wait_for(self._reached[gate].wait(), _DEADLINE_SECONDS)

    async def until(self, is_so: Callable[[ModelServer], object]) -> None:
        async def look() -> None:
            while not is_so(self):
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(look(), _DEADLINE_SECONDS)

    def scripted(self, words: str) -> list[Ask]:
        """What was asked for with such a script, without the titles and summaries."""
        return [ask for ask in self.asks if words in ask.text and ask.tools]

    def results(self, words: str) -> list[tuple[Call, str]]:
        """What came of the calls of such a script: each with what the model was given for it."""
        asks = self.scripted(words)
        calls = {call.id: call for ask in asks if ask.reply is not None for call in ask.reply.calls}
        return [(calls[id_], text) for id_, text in asks[-1].results.items()]

    async def answer(self, body: Json, dialect: ModuleType) -> Response:
        ask: Ask = dialect.read(body)
        reply = ask.reply = reply_to(ask)
        self.asks.append(ask)
        self._on_ask(ask)
        self._changed.set()
        if reply.status is not None:
            return JSONResponse(dialect.error(reply.status), reply.status)
        if ask.is_streaming:
            return StreamingResponse(
                self._watched(ask, dialect.stream(reply, ask, self._pass)), media_type="text/event-stream"
            )
        for piece in reply.said:
            if isinstance(piece, Gate):
                await self._pass(piece.name)
        return JSONResponse(dialect.whole(reply, ask))

    async def _pass(self, gate: str) -> None:
        self._reached[gate].set()
        await self._gates[gate].wait()

    async def _watched(self, ask: Ask, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        whole = False
        try:
            async for event in events:
                yield event
            whole = True
        finally:
            ask.is_over, ask.was_cut = True, not whole
            self._changed.set()


def app(server: ModelServer) -> Starlette:
    async def chat_completions(request: Request) -> Response:
        return await server.answer(await request.json(), chat)

    async def create_response(request: Request) -> Response:
        return await server.answer(await request.json(), responses)

    async def create_message(request: Request) -> Response:
        return await server.answer(await request.json(), messages)

    async def generate_content(request: Request) -> Response:
        return await server.answer(
            gemini.addressed(await request.json(), request.path_params["address"]), gemini
        )

    async def count_tokens(_request: Request) -> Response:
        return JSONResponse({"input_tokens": 100})

    async def models(_request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_MODEL], "has_more": False, "models": []})

    async def open_gate(request: Request) -> Response:
        server.open(request.path_params["name"])
        return Response(status_code=204)

    async def stray(request: Request) -> Response:
        server.strays.append(f"{request.method} {request.url.path}")
        return JSONResponse({"error": {"message": "There is only a model here."}}, 404)

    every = ["GET", "POST", "PUT", "DELETE", "HEAD"]
    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/v1/responses", create_response, methods=["POST"]),
            Route("/v1/messages", create_message, methods=["POST"]),
            Route("/v1/messages/count_tokens", count_tokens, methods=["POST"]),
            Route("/v1/models", models),
            Route("/v1beta/models/{address}", generate_content, methods=["POST"]),
            Route("/gates/{name}", open_gate, methods=["POST"]),
            Route("/{path:path}", stray, methods=every),
        ]
    )


_MODEL: Json = {
    "id": MODEL,
    "object": "model",
    "type": "model",
    "display_name": "Scripted",
    "created": 0,
    "created_at": "2026-01-01T00:00:00Z",
    "owned_by": "tests",
}


@asynccontextmanager
async def model_server(
    port: int = 0, on_ask: Callable[[Ask], None] = lambda _: None
) -> AsyncIterator[ModelServer]:
    """A running server on loopback; its streams are cut when it ends."""
    served = ModelServer(on_ask)
    with socket.create_server(("127.0.0.1", port)) as listening:
        served.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        # Whoever still streams has left: there is nobody to wait for, and nothing to say about it.
        config = uvicorn.Config(app(served), log_config=None, lifespan="off", timeout_graceful_shutdown=0)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        server = uvicorn.Server(config)
        # Not `serve`: signals are for whoever runs this.
        task = asyncio.create_task(server._serve([listening]))
        try:
            yield served
        finally:
            server.should_exit = True
            await task
