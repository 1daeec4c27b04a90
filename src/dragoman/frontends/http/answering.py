"""A running response: the model reports parts into a buffer, and the client reads them at its own pace.

`ResponseRun` is the sink of the model and the source of the response. It buffers the reported parts. When the buffer is
full, the model waits in `drain`. Leaving the `async with` block cancels the model's work, whatever the reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from dragoman.frontends.http.errors import ApiError, of_model, unexpected
from dragoman.frontends.http.ignored import names_of
from dragoman.lm import (
    CancellationSource,
    CancellationToken,
    DataPart,
    Delivery,
    LanguageModel,
    LanguageModelError,
    Part,
    Sink,
    UsagePart,
)
from dragoman.lm.json import decode
from dragoman.lm.model import Resumable
from dragoman.lm.parts import CONVERSATION, IGNORED
from dragoman.lm.rules import is_shown

__all__ = ["ConversationReport", "ResponseRun"]

# The size of the buffer, in parts of a few words each. When the buffer is full, the model waits for the client.
_AHEAD = 256
# With more buffered parts than this the client is behind, and several events leave in one write.
_MANY = 16
# A failure within this time sets the HTTP status. Most agents have started by then, or will not.
_HOLD_SECONDS = 10.0


class ConversationReport(msgspec.Struct, frozen=True):
    """The conversation of a response, and the evidence by which it was identified."""

    conversation: str | None = None
    evidence: str = "none"
    kind: str = "fresh"
    # The folder in which an agent behind an endpoint works.
    workspace: str | None = None

    @property
    def header(self) -> str:
        return f"{self.conversation or '-'}; evidence={self.evidence}; kind={self.kind}"


class ResponseRun:
    """Runs a model for one request, and buffers its parts for the client."""

    def __init__(
        self,
        model: LanguageModel,
        run: Callable[[Sink, CancellationToken], Coroutine[None, None, None]],
        spell_out: Callable[[Part], Part] = lambda part: part,
        link_files: Callable[[DataPart], Awaitable[Iterable[Part]]] | None = None,
        *,
        sees_paths: bool = False,
        has_demands: bool = False,
    ) -> None:
        """`run` runs the model: it reports to this sink. `has_demands`: the request demands a form or a call.

        What only this server knows: `spell_out` adds the question to a permission call, when it is reported. `link_files`
        replaces a file by its address, before the client gets it: to store a file may take a moment.
        """
        self._model = model
        self._resumable = model if isinstance(model, Resumable) else None
        self._run = run
        self._spell_out = spell_out
        self._link_files = link_files
        self._sees_paths = sees_paths
        self._has_demands = has_demands
        self._source = CancellationSource()
        self._parts: deque[Part] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None
        # Which conversation the request belongs to, and how it was found. None until the model has reported it.
        self.place: ConversationReport | None = None
        # The last usage that the model reported.
        self.usage: UsagePart | None = None
        # The names of what the model did not get, as far as it has reported them.
        self.ignored: list[str] = []
        # For the metrics. It stays "failed" until the response has ended well.
        self.outcome = "failed"
        self.was_cancelled = False
        # Whether the model has reported anything that the client sees: then the status is 200.
        self._begun = False
        # Why the server ends it before the model has.
        self._ended_with: ApiError | None = None
        # Whether the buffer has no limit, because the client gets everything at once.
        self._is_held = False

    @property
    def is_cancelled(self) -> bool:
        return self._source.token.cancelled()

    @property
    def conversation(self) -> str | None:
        """The agent's conversation, as far as it is known."""
        return None if self.place is None else self.place.conversation

    @property
    def workspace(self) -> str | None:
        """The folder of an agent behind an endpoint, as far as it is known."""
        return None if self.place is None else self.place.workspace

    @property
    def has_many(self) -> bool:
        """Whether more parts are buffered than a model reports at once."""
        return len(self._parts) > _MANY

    def cancel(self) -> None:
        """Cancel the model's work, because the client has disconnected."""
        self.was_cancelled = self._task is None or not self._task.done() or bool(self._parts)
        self._source.cancel()

    def end_with(self, error: ApiError) -> None:
        """Fail with this error, after the parts that are there."""
        self._ended_with = error
        self._news.set()

    @property
    def _is_over(self) -> bool:
        return self._ended_with is not None or (self._task is not None and self._task.done())

    def delivered(self, *, whole: bool) -> None:
        """Tell the model whether the whole response has reached the client."""
        if self.conversation is not None and isinstance(self._model, Delivery):
            self._model.delivered(self.conversation, whole=whole)

    # Another server can continue the response, if the model runs elsewhere.

    def keep(self, response_id: str) -> None:
        """Let the model keep what is not stored."""
        if self._resumable is not None:
            self._resumable.keep(response_id)

    def stored(self, response_id: str, position: str) -> None:
        """Tell the model that everything before this position is stored."""
        if self._resumable is not None:
            self._resumable.stored(response_id, position)

    def release(self, response_id: str) -> None:
        """Let the model keep nothing more."""
        if self._resumable is not None:
            self._resumable.release(response_id)

    def hand_over(self, response_id: str) -> None:
        """End here, without ending the model's work: another server continues it."""
        if self._resumable is not None:
            self._resumable.hand_over(response_id)
        self._source.cancel()

    # As a sink.

    def report(self, part: Part) -> None:
        if isinstance(part, DataPart) and part.mime_type == CONVERSATION:
            self.place = msgspec.convert(decode(part.data), ConversationReport)
            return
        if isinstance(part, UsagePart):
            self.usage = part
            return
        if isinstance(part, DataPart) and part.mime_type == IGNORED:
            self.ignored += names_of(part)
        elif not isinstance(part, DataPart) or is_shown(part):
            self._begun = True
        self._parts.append(self._spell_out(part))
        if len(self._parts) >= _AHEAD and not self._is_held:
            self._room.clear()
        self._news.set()

    async def drain(self) -> None:
        await self._room.wait()

    # As a source.

    async def begun(self, seconds: float | None = _HOLD_SECONDS) -> None:
        """Wait for the first visible part, at most `seconds`. Raise `ApiError` if the model fails before it."""
        if self._task is None:
            raise AssertionError("enter it first")
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        while not self._begun and not self._is_over:
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                return
        if not self._begun:
            self._raise()

    def check_met(self) -> None:
        """Raise `ApiError` if the model has failed, and the request demands a form or a call.

        Without it, the rest of the answer is of no use to the client.
        """
        if self._has_demands and self._is_over:
            self._raise()

    async def held(self, limit: Callable[[], float | None]) -> bool:
        """Buffer all parts until the model has ended. Return false if the time of `limit` comes first.

        `limit` returns a time of the event loop, or None. It is called again after each part, after `look_again` and when
        the time has come.
        """
        if self._task is None:
            raise AssertionError("enter it first")
        loop = asyncio.get_running_loop()
        self._is_held = True
        self._room.set()
        try:
            while not self._is_over:
                at = limit()
                if at is not None and at <= loop.time():
                    return False
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(at):
                        await self._news.wait()
        finally:
            self._is_held = False
        return True

    def look_again(self) -> None:
        """What the limit of `held` depends on may have changed."""
        self._news.set()

    async def take_buffered(self) -> list[Part]:
        """Take the parts that are buffered now."""
        parts = list(self._parts)
        self._parts.clear()
        self._room.set()
        return [each for part in parts for each in await self._linked(part)]

    async def parts(self) -> AsyncIterator[Part]:
        """Yield the parts as the model reports them. If the model fails, raise `ApiError` after its last part."""
        if self._task is None:
            raise AssertionError("enter it first")
        while True:
            while self._parts:
                for part in await self._linked(self._parts.popleft()):
                    yield part
            self._room.set()
            if self._is_over:
                if self._parts:
                    continue
                self._raise()
                return
            self._news.clear()
            await self._news.wait()

    async def _linked(self, part: Part) -> Iterable[Part]:
        if self._link_files is None or not isinstance(part, DataPart):
            return (part,)
        return await self._link_files(part)

    def _raise(self) -> None:
        if self._ended_with is not None:
            raise self._ended_with
        error = self._task.exception() if self._task is not None and not self._task.cancelled() else None
        if isinstance(error, LanguageModelError):
            raise of_model(error, sees_paths=self._sees_paths) from error
        if error is not None:
            raise unexpected() from error

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(self, self._source.token))
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
                # Mark the error as retrieved: `parts` has raised it already, or the client has disconnected.
                self._task.exception()
