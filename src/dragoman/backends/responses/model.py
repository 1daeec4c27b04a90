"""An Open Responses endpoint as a language model.

No conversation is stored: every request carries all of it. The one thing cached, for a while, is the reasoning
that led to a call, for consumers that do not bring their thinking back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from dragoman.backends.responses.call_ids import CallIds
from dragoman.backends.responses.events import ResponseReader
from dragoman.backends.responses.http import DONE, EndpointFailure, Upstream
from dragoman.backends.responses.items import body_of, items_of
from dragoman.backends.responses.listing import Listed
from dragoman.backends.responses.other_servers import WORKSPACE_HEADER, conversation_of, headers_for
from dragoman.backends.responses.retries import pause_before_retry
from dragoman.backends.responses.settings import EndpointSettings
from dragoman.backends.responses.sse import ServerEvent
from dragoman.backends.responses.tools import FunctionTools
from dragoman.clock import Clock, SystemClock
from dragoman.lm import (
    CancellationError,
    CancellationToken,
    Capabilities,
    DataPart,
    JsonObject,
    LanguageModelError,
    Message,
    ModelInfo,
    Request,
    Sink,
    estimate_tokens,
    until_cancelled,
)
from dragoman.lm.foreign_items import ignored_files
from dragoman.lm.json import encode
from dragoman.lm.parts import IGNORED, ITEM
from dragoman.lm.request import WORKSPACE_OPTION
from dragoman.nearest import nearest

__all__ = ["EndpointModel"]

_log = logging.getLogger(__name__)

# Reasoning of some hundred calls, each with some kilobytes.
_REMEMBERED_BYTES = 8 * 1024 * 1024
# After the end of an answer, for the end of its connection: one that is read to its end can be used again.
_TAIL_SECONDS = 0.2
# A caller waits for a list of models, and not for this one alone.
_LEARN_SECONDS = 3.0
# A longer list does not help the user to find the right name.
_NAMES_SHOWN = 12


class EndpointModel:
    def __init__(
        self,
        info: ModelInfo,
        settings: EndpointSettings,
        configured: Listed | None = None,
        *,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Figures that are `configured` win over those that the endpoint lists."""
        self._configured = configured or Listed(settings.model)
        self._info = _with_listed(info, self._configured)
        self._has_learned = False
        self._settings = settings
        self._clock = clock or SystemClock()
        self._chance = chance
        self._upstream = Upstream(settings, self._clock)
        self._call_ids = CallIds()
        self._reasoning = _Reasoning(_REMEMBERED_BYTES)
        # Until the endpoint says that it knows no such thing.
        self._keeps_reasoning = True
        # Whether the endpoint's last response came from a server of ours.
        self._is_dragoman = False

    @property
    def info(self) -> ModelInfo:
        return self._info

    def count_tokens(self, text: str | Message) -> int:
        return estimate_tokens(text)

    async def models(self) -> tuple[Listed, ...]:
        """The endpoint's list of models."""
        return await self._upstream.models()

    def framed(self, request: Request) -> AsyncGenerator[ServerEvent]:
        """The events of an answer as the endpoint writes them. Raises `EndpointFailure`."""
        return self._upstream.framed(self._body(request)[0])

    async def refused(self) -> bytes:
        """The endpoint's error body for an invalid request: one that names no model."""
        try:
            async with aclosing(self._upstream.framed({"input": "Hello.", "stream": True})) as events:
                async for _ in events:
                    break
        except EndpointFailure as troubled:
            return troubled.body
        return b""

    async def compacted(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """What the endpoint makes of a history: items that only it can read."""
        body, _ = self._body(Request(tuple(messages)))
        output = await self._upstream.compacted({"model": body["model"], "input": body["input"]})
        return (Message("user", tuple(DataPart.json(item, ITEM) for item in output)),)

    async def learn(self) -> None:
        """Complete `info` with what the endpoint lists, once. One that lists nothing is taken as it is configured."""
        if self._has_learned:
            return
        try:
            async with asyncio.timeout(_LEARN_SECONDS):
                listed = await self.models()
        except (LanguageModelError, TimeoutError) as error:
            _log.info("%s lists no models: %s", self._settings.name, error)
            return
        self._has_learned = True
        for each in listed:
            if each.id == self._settings.model:
                self._info = _with_listed(_with_listed(self._info, each), self._configured)

    async def close(self) -> None:
        await self._upstream.close()

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        if not request.messages:
            raise LanguageModelError("bad_request", "The request has no messages.")
        try:
            await until_cancelled(self._respond(request, sink), token)
        except CancellationError:
            # What was said stands, and the connection is closed.
            return

    async def _respond(self, request: Request, sink: Sink) -> None:
        tries = 0
        while True:
            tries += 1
            body, left_out = self._body(request)
            exchange = _Exchange(request, body, self._answer(request), left_out)
            try:
                await self._exchange(exchange, sink)
                break
            except EndpointFailure as troubled:
                if exchange.has_begun:
                    raise troubled.error from troubled
                if self._keeps_reasoning and _is_about_reasoning(troubled):
                    _log.info("%s takes no reasoning back: asking without", self._settings.name)
                    self._keeps_reasoning = False
                    tries -= 1
                    continue
                pause = pause_before_retry(troubled.trouble, tries, troubled.error.retry_after, self._chance)
                if pause is None:
                    raise await self._explained(troubled.error) from troubled
                _log.info("trying again in %.1f s: %s", pause, troubled.error.message)
            await self._clock.sleep(pause)
        for call_id, items in exchange.answer.reasoning_of.items():
            self._reasoning.add((request.consumer.connection, call_id), items)

    def _answer(self, request: Request) -> ResponseReader:
        tools = FunctionTools(request)
        settings = self._settings
        # We ask for it ourselves (`ENCRYPTED_REASONING`).
        unasked = frozenset() if "include" in request.options.model_options else frozenset({"include"})
        return ResponseReader(
            tools.call,
            self._call_ids.issue,
            settings.name,
            settings.model_id,
            settings.redacted,
            takes_items=request.consumer.features.items,
            unasked=unasked,
        )

    def _body(self, request: Request) -> tuple[JsonObject, tuple[str, ...]]:
        """The body to send, and the MIME types of what it leaves out."""
        tools = FunctionTools(request)
        connection = request.consumer.connection

        def remembered(call_id: str) -> Sequence[JsonObject]:
            return self._reasoning.of((connection, call_id)) if self._keeps_reasoning else ()

        items, left_out = items_of(
            request.messages,
            tools,
            self._call_ids.original,
            model_id=self._settings.model_id if self._keeps_reasoning else None,
            images=self._info.capabilities.image_input,
            remembered=remembered,
            is_dragoman=self._is_dragoman,
        )
        body = body_of(
            request,
            tools,
            items,
            self._settings.model,
            self._settings.options,
            keeps_reasoning=self._keeps_reasoning,
        )
        return body, left_out

    def _begun(self, exchange: _Exchange, headers: Mapping[str, str], sink: Sink) -> None:
        """Report what is known before the first event: the conversation, and what the endpoint does not get."""
        where = conversation_of(headers, exchange.request.consumer)
        self._is_dragoman = exchange.answer.is_dragoman = "x-dragoman-conversation" in headers
        if where is not None:
            sink.report(where)
        if exchange.left_out:
            sink.report(ignored_files(exchange.left_out))
        if WORKSPACE_OPTION in exchange.request.options.model_options and WORKSPACE_HEADER not in headers:
            # Only a server of ours has folders, and says which one it took.
            sink.report(DataPart.json([WORKSPACE_HEADER], IGNORED))

    async def _exchange(self, exchange: _Exchange, sink: Sink) -> None:
        answer = exchange.answer
        was_announced = False
        events_of = self._upstream.events(
            exchange.body,
            headers_for(exchange.request, self._settings.secret),
            lambda headers: self._begun(exchange, headers, sink),
        )
        async with aclosing(events_of) as events:
            async for event in events:
                exchange.has_begun = True
                if event is DONE:
                    was_announced = True
                    break
                for part in answer.feed(event):
                    sink.report(part)
                await sink.drain()
                if answer.is_complete:
                    await _read_to_the_end(events)
                    break
        if not exchange.has_begun and not was_announced:
            error = LanguageModelError("unavailable", f"{self._settings.name} sent no event at all.")
            raise EndpointFailure("connection", error)
        for part in answer.end(was_announced=was_announced):
            sink.report(part)

    async def _explained(self, error: LanguageModelError) -> LanguageModelError:
        """The error, with the names of the endpoint's models if it does not know ours."""
        if error.kind != "not_found":
            return error
        try:
            names = [model.id for model in await self.models()]
        except LanguageModelError:
            return error
        if self._settings.model in names or not names:
            return error
        meant = nearest(self._settings.model, names)
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
        hint = f"Did you mean {meant}?" if meant else f"It has {shown}."
        return LanguageModelError(error.kind, error.message, hint=f"Check `model`. {hint}")


class _Exchange:
    """One request to the endpoint, and its response."""

    def __init__(
        self, request: Request, body: JsonObject, answer: ResponseReader, left_out: tuple[str, ...]
    ) -> None:
        self.request = request
        self.left_out = left_out
        self.body = body
        self.answer = answer
        self.has_begun = False


async def _read_to_the_end(events: AsyncIterator[JsonObject]) -> None:
    try:
        async with asyncio.timeout(_TAIL_SECONDS):
            async for _ in events:
                pass
    except (TimeoutError, EndpointFailure):
        # The answer is complete, even if its connection fails now.
        return


def _with_listed(info: ModelInfo, listed: Listed) -> ModelInfo:
    """The model's info with the endpoint's own figures in the place of our defaults."""
    can = info.capabilities
    return msgspec.structs.replace(
        info,
        max_input_tokens=listed.max_input_tokens or info.max_input_tokens,
        max_output_tokens=listed.max_output_tokens or info.max_output_tokens,
        capabilities=Capabilities(
            can.tool_calling if listed.tool_calling is None else listed.tool_calling,
            can.image_input if listed.image_input is None else listed.image_input,
        ),
        tags=("thinking",) if listed.thinking else info.tags,
    )


def _is_about_reasoning(troubled: EndpointFailure) -> bool:
    complaint = troubled.complaint
    text = f"{complaint.param} {complaint.code} {complaint.message}".lower()
    return troubled.trouble in (400, 422) and ("encrypted" in text or complaint.param.startswith("include"))


class _Reasoning:
    """Reasoning items by the call they led to; the oldest are forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._encoded: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def add(self, key: tuple[str, str], items: Sequence[JsonObject]) -> None:
        if not items:
            return
        self._encoded[key] = encoded = encode(list(items))
        self._size += len(encoded)
        while self._size > self._limit:
            _, forgotten = self._encoded.popitem(last=False)
            self._size -= len(forgotten)

    def of(self, key: tuple[str, str]) -> Sequence[JsonObject]:
        encoded = self._encoded.get(key)
        return msgspec.json.decode(encoded, type=list[JsonObject]) if encoded is not None else ()
