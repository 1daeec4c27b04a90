"""Talking to an endpoint over HTTP: requests out, events in, and every failure as a `EndpointFailure`.

The client is imported when the first request is made, and honours the proxies of the environment. Redirections are not
followed: they would carry the key elsewhere. When the reader of the events stops, the connection is closed at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from dragoman import __version__
from dragoman.backends.responses.failures import (
    Address,
    EndpointComplaint,
    complaint_of_body,
    http_failure,
)
from dragoman.backends.responses.listing import Listed, listed_models
from dragoman.backends.responses.retries import Trouble, retry_after_seconds
from dragoman.backends.responses.settings import EndpointSettings
from dragoman.backends.responses.sse import EventTooLarge, ServerEvent, SseReader
from dragoman.clock import Clock
from dragoman.jsonrpc.text import Decoder
from dragoman.lm import (
    CancellationError,
    CancellationSource,
    JsonObject,
    LanguageModelError,
    until_cancelled,
)
from dragoman.lm.json import decode, encode

if TYPE_CHECKING:
    import httpx2

__all__ = ["DONE", "EndpointFailure", "Upstream"]

CONNECT_SECONDS = 15.0
# A prompt with many pictures over a slow line.
_WRITE_SECONDS = 120.0
_LIST_SECONDS = 10.0
# What servers answer to a path that they do not know.
_NO_SUCH_PATH = frozenset({404, 405, 501})
_OK = 200
# Never tried again as they are; the status itself says what to change.
_VAGUE = frozenset({400, 422})
# An error that is longer has no more to say; a whole response, or a list of models, may be long.
_MAX_ERROR_BYTES = 64 * 1024
_MAX_BODY_BYTES = 64 * 1024 * 1024

# The last event, in the place of one: literally `data: [DONE]`.
DONE: JsonObject = {"type": "[DONE]"}
_decoder = Decoder(dict)
_T = TypeVar("_T")


class EndpointFailure(Exception):
    """A request failed, or its stream of events broke off."""

    def __init__(
        self,
        trouble: Trouble,
        error: LanguageModelError,
        complaint: EndpointComplaint = EndpointComplaint(),  # noqa: B008 - frozen
        body: bytes = b"",
    ) -> None:
        """`body` is what came with a status that is not 200."""
        super().__init__(error.message)
        self.trouble = trouble
        self.error = error
        self.complaint = complaint
        self.body = body


class Upstream:
    def __init__(self, settings: EndpointSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._client: httpx2.AsyncClient | None = None

    async def events(
        self,
        body: JsonObject,
        headers: Mapping[str, str] | None = None,
        on_begin: Callable[[Mapping[str, str]], None] = lambda _headers: None,
    ) -> AsyncGenerator[JsonObject]:
        """Send one request and yield its events. Raises `EndpointFailure` if it fails or breaks off.

        `on_begin` gets the headers of the response before the first event.
        """
        async with self._response("POST", "/responses", encode(body), headers) as response:
            on_begin(response.headers)
            match _type_of(response):
                case "application/json":
                    # A server that does not stream has said everything.
                    whole = _object(await self._read(response, _MAX_BODY_BYTES))
                    yield {"type": _ENDS.get(whole.get("status"), "response.completed"), "response": whole}
                    yield DONE
                case "text/html" | "application/xhtml+xml":
                    raise EndpointFailure(_OK, self._no_endpoint("a web page"))
                case _:
                    async for event in self._streamed(response):
                        yield event

    async def framed(self, body: JsonObject) -> AsyncGenerator[ServerEvent]:
        """Send one request and yield the events unparsed, for a check of the endpoint."""
        async with self._response("POST", "/responses", encode(body)) as response:
            if (kind := _type_of(response)) != "text/event-stream":
                raise EndpointFailure(
                    _OK, self._no_endpoint(f"{kind or 'no type'} instead of a stream of events")
                )
            async for event in self._frames(response):
                yield event

    async def models(self) -> tuple[Listed, ...]:
        """The endpoint's models. LanguageModelError if it does not list them."""
        try:
            async with asyncio.timeout(_LIST_SECONDS), self._response("GET", "/models") as response:
                return listed_models(decode(await self._read(response, _MAX_BODY_BYTES)))
        except TimeoutError:
            name = self._settings.name
            raise LanguageModelError("timeout", f"{name} has not listed its models in time.") from None
        except EndpointFailure as troubled:
            raise troubled.error from troubled
        except msgspec.DecodeError as error:
            raise self._no_endpoint("something else than JSON") from error

    async def compacted(self, body: JsonObject) -> tuple[JsonObject, ...]:
        """The items that stand for a history. Raises `LanguageModelError`: `not_found` if the endpoint has no compaction."""
        name = self._settings.name
        try:
            async with self._response("POST", "/responses/compact", encode(body)) as response:
                value = _object(await self._read(response, _MAX_BODY_BYTES))
        except EndpointFailure as troubled:
            if troubled.trouble in _NO_SUCH_PATH:
                raise LanguageModelError("not_found", f"{name} has no /responses/compact.") from troubled
            raise troubled.error from troubled
        output = value.get("output")
        items = tuple(item for item in output if isinstance(item, dict)) if isinstance(output, list) else ()
        if not items:
            raise LanguageModelError("agent_failed", f"{name} has sent nothing for the history.")
        return items

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _streamed(self, response: httpx2.Response) -> AsyncIterator[JsonObject]:
        async for event in self._frames(response):
            yield self._event(event)

    async def _frames(self, response: httpx2.Response) -> AsyncIterator[ServerEvent]:
        reader = SseReader()
        chunks = response.aiter_bytes()
        try:
            while (chunk := await self._unless_silent(anext(chunks, None))) is not None:
                for event in reader.feed(chunk):
                    yield event
        except EventTooLarge as error:
            name = self._settings.name
            raise EndpointFailure(_OK, LanguageModelError("agent_failed", f"{name}: {error}.")) from error
        last = reader.end()
        if last is not None:
            yield last

    def _event(self, event: ServerEvent) -> JsonObject:
        if event.data.strip() == b"[DONE]":
            return DONE
        try:
            value: JsonObject = _decoder.decode(event.data)
        except msgspec.DecodeError as error:
            name = self._settings.name
            raise EndpointFailure(
                "connection",
                LanguageModelError(
                    "unavailable", f"{name} sent an event that is not JSON ({error}).", hint="Try again."
                ),
            ) from error
        return value if "type" in value else {**value, "type": event.name}

    async def _unless_silent(self, work: Awaitable[_T]) -> _T:
        """The result of `work`, which waits for the endpoint, under a timeout for silence."""
        source = CancellationSource()

        async def watch() -> None:
            await self._clock.sleep(self._settings.silence)
            source.cancel()

        watching = asyncio.ensure_future(watch())
        try:
            return await until_cancelled(work, source.token)
        except CancellationError:
            raise EndpointFailure(_OK, self._silent()) from None
        finally:
            watching.cancel()

    def _silent(self) -> LanguageModelError:
        return LanguageModelError(
            "timeout",
            f"{self._settings.name} has sent nothing for {self._settings.silence:g} seconds.",
            hint="Try again; for a model that needs longer, raise `silence_seconds`.",
        )

    @asynccontextmanager
    async def _response(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """A response with status 200. Whatever goes wrong with it, also while it is read, is `EndpointFailure`."""
        import httpx2  # noqa: PLC0415 - takes a while to import, and is only needed where an endpoint is used

        url = self._settings.url + path
        response: httpx2.Response | None = None
        try:
            if self._client is None:
                timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, write=_WRITE_SECONDS)
                self._client = httpx2.AsyncClient(timeout=timeout, follow_redirects=False)
            # A path in a header is UTF-8.
            sent = [
                (name.encode("ascii"), value.encode("utf-8", "surrogateescape"))
                for name, value in {**(headers or {}), **self._headers()}.items()
            ]
            request = self._client.build_request(method, url, content=content, headers=sent)
            response = await self._unless_silent(self._client.send(request, stream=True))
            if response.status_code != _OK:
                raise await self._refused(response, url)
            yield response
        except httpx2.InvalidURL as error:
            message = f"{self._settings.name} has no usable address: {error}."
            raise LanguageModelError("bad_request", message, hint="Check `base_url`.") from error
        except httpx2.HTTPError as error:
            raise EndpointFailure(
                "connection", self._unreachable(error, broke_off=response is not None)
            ) from error
        finally:
            if response is not None:
                await response.aclose()

    def _headers(self) -> dict[str, str]:
        headers = {
            "User-Agent": f"dragoman/{__version__}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            # Compressed events arrive in blocks, late.
            "Accept-Encoding": "identity",
        }
        if self._settings.key is not None:
            headers["Authorization"] = f"Bearer {self._settings.key}"
        return {**headers, **self._settings.headers}

    async def _refused(self, response: httpx2.Response, url: str) -> EndpointFailure:
        body = await self._read(response, _MAX_ERROR_BYTES)
        complaint = complaint_of_body(body)
        complaint = replace(complaint, message=self._settings.redacted(complaint.message))
        address = Address(self._settings.name, url, self._settings.model, self._settings.key_place)
        error = http_failure(
            response.status_code,
            complaint,
            address,
            retry_after=retry_after_seconds(response.headers.get("retry-after")),
        )
        # Without credit, coming back in a moment does not help.
        is_final = error.kind == "blocked" or (
            # A server of ours says so after a failure of an agent that may have acted; OpenAI has the header, too.
            response.headers.get("x-should-retry") == "false" and response.status_code not in _VAGUE
        )
        trouble: Trouble = 402 if is_final else response.status_code
        return EndpointFailure(trouble, error, complaint, body)

    async def _read(self, response: httpx2.Response, limit: int) -> bytes:
        body = bytearray()
        chunks = response.aiter_bytes()
        while (chunk := await self._unless_silent(anext(chunks, None))) is not None:
            body += chunk
            if len(body) > limit:
                break
        return bytes(body[:limit])

    def _unreachable(self, error: httpx2.HTTPError, *, broke_off: bool) -> LanguageModelError:
        name, url = self._settings.name, self._settings.url
        why = self._settings.redacted(str(error)) or type(error).__name__
        if broke_off:
            return LanguageModelError("unavailable", f"{name} broke off: {why}.", hint="Try again.")
        return LanguageModelError(
            "unavailable",
            f"{name} cannot be reached at {url}: {why}.",
            hint="Is it running? Check `base_url`.",
        )

    def _no_endpoint(self, what: str) -> LanguageModelError:
        return LanguageModelError(
            "not_found",
            f"{self._settings.name} answered with {what}: there is no Open Responses endpoint at {self._settings.url}.",
            hint="Check `base_url`; it often ends in /v1.",
        )


_ENDS: dict[object, str] = {"failed": "response.failed", "incomplete": "response.incomplete"}


def _type_of(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _object(body: bytes) -> JsonObject:
    try:
        value: JsonObject = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise EndpointFailure(
            "connection",
            LanguageModelError("unavailable", f"The answer is not JSON ({error}).", hint="Try again."),
        ) from error
    return value
