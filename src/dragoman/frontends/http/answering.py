"""One answer under way: a model that reports parts, and a client that takes them in its own time.

`ResponseRun` is the sink of a model and the source of a response. What is reported is kept until it is taken; a model that is
too far ahead waits. Leaving the `async with` ends the model's work, however it was left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

import msgspec

from dragoman.frontends.http.errors import of_model, unexpected
from dragoman.lm import (
    CancellationSource,
    DataPart,
    LanguageModel,
    LanguageModelError,
    Part,
    Request,
    UsagePart,
)
from dragoman.lm.json import decode
from dragoman.lm.parts import CONVERSATION

__all__ = ["ConversationReport", "ResponseRun"]

# Parts that wait for a client. Each is a few words; a client that is so far behind is waited for.
_AHEAD = 256
# With so many the client is behind, and takes them as they come.
_MANY = 16
# Until then a failure is told by the status. Most agents have started by then, or will not.
_HOLD_SECONDS = 10.0


class ConversationReport(msgspec.Struct, frozen=True):
    """Which conversation an answer belongs to, and how that is known."""

    conversation: str | None = None
    evidence: str = "none"
    kind: str = "fresh"

    @property
    def header(self) -> str:
        return f"{self.conversation or '-'}; evidence={self.evidence}; kind={self.kind}"


class ResponseRun:
    def __init__(
        self, model: LanguageModel, request: Request, spell_out: Callable[[Part], Part] = lambda part: part
    ) -> None:
        """`spell_out` puts the question into a permission call: a client has no other way to show it."""
        self._model = model
        self._spell_out = spell_out
        self._request = request
        self._source = CancellationSource()
        self._parts: deque[Part] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None
        self.place: ConversationReport | None = None
        # The last that the model named.
        self.usage: UsagePart | None = None
        # What became of it, for whoever counts: until it is known, the worst.
        self.outcome = "failed"
        self.was_cancelled = False
        # Something of it is worth a status that says so.
        self._begun = False

    @property
    def is_cancelled(self) -> bool:
        return self._source.token.cancelled()

    @property
    def has_many(self) -> bool:
        """Whether more parts wait than a model says in one moment."""
        return len(self._parts) > _MANY

    def cancel(self) -> None:
        """The client has gone."""
        self.was_cancelled = self._task is None or not self._task.done() or bool(self._parts)
        self._source.cancel()

    # As a sink.

    def report(self, part: Part) -> None:
        if isinstance(part, DataPart) and part.mime_type == CONVERSATION:
            self.place = msgspec.convert(decode(part.data), ConversationReport)
            return
        if isinstance(part, UsagePart):
            self.usage = part
            return
        if not isinstance(part, DataPart):
            self._begun = True
        self._parts.append(self._spell_out(part))
        if len(self._parts) >= _AHEAD:
            self._room.clear()
        self._news.set()

    async def drain(self) -> None:
        await self._room.wait()

    # As a source.

    async def begun(self, seconds: float | None = _HOLD_SECONDS) -> None:
        """Until there is something to tell, or for so long. Raises what it failed with before that."""
        if self._task is None:
            raise AssertionError("enter it first")
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        while not self._begun and not self._task.done():
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                return
        if not self._begun:
            self._raise()

    async def parts(self) -> AsyncIterator[Part]:
        """All of them, as they come. Raises what the model failed with, after what it had said before."""
        if self._task is None:
            raise AssertionError("enter it first")
        while True:
            while self._parts:
                yield self._parts.popleft()
            self._room.set()
            if self._task.done():
                if self._parts:
                    continue
                self._raise()
                return
            self._news.clear()
            await self._news.wait()

    def _raise(self) -> None:
        error = self._task.exception() if self._task is not None and not self._task.cancelled() else None
        if isinstance(error, LanguageModelError):
            raise of_model(error) from error
        if error is not None:
            raise unexpected() from error

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._model.respond(self._request, self, self._source.token))
        self._task.add_done_callback(lambda _task: self._news.set())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._source.cancel()
        self._room.set()
        if self._task is not None:
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                # Whatever it was, it has been told, or nobody is there to be told.
                self._task.exception()
