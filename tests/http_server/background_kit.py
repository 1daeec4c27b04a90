"""A model that answers step by step, and clients that follow it, for tests of background responses."""

import asyncio
import json
from collections.abc import Callable

from dragoman.lm import CancellationToken, LanguageModelError, Part, Request, Sink, TextPart
from http_server.kit import Answered, Json, Site, soon


class Stepwise:
    """A model that reports what the test puts in, and ends when the test says so."""

    def __init__(self) -> None:
        self.steps: asyncio.Queue[Part | LanguageModelError | None] = asyncio.Queue()
        self.started = 0
        self.was_cancelled = False
        self.requests: list[Request] = []

    async def __call__(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        self.started += 1
        self.requests.append(request)
        cancelled = asyncio.Event()
        token.on_cancel(cancelled.set)
        leaving = asyncio.create_task(cancelled.wait())
        while True:
            getting = asyncio.create_task(self.steps.get())
            await asyncio.wait({getting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                self.was_cancelled = True
                return
            step = getting.result()
            if step is None:
                leaving.cancel()
                return
            if isinstance(step, LanguageModelError):
                leaving.cancel()
                raise step
            sink.report(step)
            await sink.drain()

    def say(self, *texts: str, ends: bool = False) -> None:
        for text in texts:
            self.steps.put_nowait(TextPart(text))
        if ends:
            self.steps.put_nowait(None)


class Reader:
    """A client that reads a stream, and can leave."""

    def __init__(self, site: Site, method: str, path: str, body: Json | None = None) -> None:
        self.leave = asyncio.Event()
        self.events: list[Json] = []
        self.raw = b""
        self._news = asyncio.Event()
        content = b"" if body is None else json.dumps(body).encode()
        self.task: asyncio.Task[Answered] = asyncio.create_task(
            site.call(method, path, content, leave=self.leave, heard=self._hear)
        )

    def _hear(self, write: bytes) -> None:
        self.raw += write
        for piece in write.decode().strip().split("\n\n"):
            data = piece.partition("data: ")[2]
            if data != "[DONE]":
                self.events.append(json.loads(data))
        self._news.set()

    async def until(self, is_enough: Callable[[list[Json]], bool]) -> None:
        while not is_enough(self.events):
            self._news.clear()
            await soon(self._news.wait())

    async def until_said(self, text: str) -> None:
        await self.until(lambda events: any(event.get("delta") == text for event in events))


def started(site: Site, **fields: object) -> Reader:
    body = {"model": "m", "input": "x", "background": True, "stream": True, **fields}
    return Reader(site, "POST", "/v1/responses", body)


def text_of(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )
