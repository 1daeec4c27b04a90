"""The routes of the HTTP front end and their request handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from dragoman.frontends.console.console import Console
from dragoman.frontends.console.routes import console_routes
from dragoman.frontends.console.wire import API_ROOT, ConsoleError, on_console_error
from dragoman.frontends.event_streams import EventStream, WriteEvent, until_disconnected, while_connected
from dragoman.frontends.http.answering import ResponseRun
from dragoman.frontends.http.auth import WITHOUT_KEY, AccessCheck
from dragoman.frontends.http.chat import ChatStream, read_chat
from dragoman.frontends.http.conversation_routes import conversation_routes
from dragoman.frontends.http.create_request import object_of, read_compact, read_create
from dragoman.frontends.http.delivery import ConfirmedResponse
from dragoman.frontends.http.errors import ApiError, ErrorType, bad_request
from dragoman.frontends.http.file_routes import file_route
from dragoman.frontends.http.front_page import FRONT_PAGE
from dragoman.frontends.http.holding import held_response
from dragoman.frontends.http.ignored import printable
from dragoman.frontends.http.input_items import listed
from dragoman.frontends.http.middleware import ApiCorsMiddleware, RequestMiddleware, client_of
from dragoman.frontends.http.openapi import description
from dragoman.frontends.http.over_websocket import Socket
from dragoman.frontends.http.preparing import Prepared
from dragoman.frontends.http.resource import new_id
from dragoman.frontends.http.service import HttpService
from dragoman.frontends.http.wire import DONE, JsonResponse, error_response, framed, read_body
from dragoman.frontends.http.workspace_choice import WORKSPACE_HEADER, header_text
from dragoman.frontends.request_values import whole_number
from dragoman.lm import JsonObject, ModelInfo
from dragoman.lm.json import encode

__all__ = ["build_app"]

# The status that some proxies log for a client that disconnects before the response.
_GONE = 499


def build_app(service: HttpService, gate: AccessCheck, console: Console | None = None) -> ASGIApp:
    """Build the ASGI application. The caller closes the models of `service`, and the console."""
    routes = _Routes(service, has_console=console is not None)
    access = None if console is None else console.access
    middleware = [Middleware(RequestMiddleware, gate=gate, metrics=service.metrics, console_access=access)]
    if origins := service.serve.cors_origins:
        cors = Middleware(
            ApiCorsMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["x-dragoman-conversation", "x-dragoman-ignored", WORKSPACE_HEADER],
        )
        middleware.insert(0, cors)
    at_root: list[BaseRoute] = [Route("/", routes.front_page, methods=["GET"])]
    if console is not None:
        at_root = console_routes(console)
    return Starlette(
        routes=[
            *at_root,
            Route("/v1/responses", routes.create, methods=["POST"]),
            WebSocketRoute("/v1/responses", Socket(service)),
            Route("/v1/responses/compact", routes.compact, methods=["POST"]),
            Route("/v1/responses/input_tokens", routes.input_tokens, methods=["POST"]),
            Route("/v1/responses/{id}", routes.retrieve, methods=["GET"]),
            Route("/v1/responses/{id}", routes.delete, methods=["DELETE"]),
            Route("/v1/responses/{id}/input_items", routes.input_items, methods=["GET"]),
            Route("/v1/responses/{id}/cancel", routes.cancel, methods=["POST"]),
            *conversation_routes(service),
            file_route(service.files, [key.connection for key in gate.keys] or [WITHOUT_KEY]),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/v1/models", routes.models, methods=["GET"]),
            Route("/v1/models/{id}", routes.model, methods=["GET"]),
            Route("/healthz", routes.health, methods=["GET"]),
            Route("/readyz", routes.readiness, methods=["GET"]),
            Route("/metrics", routes.metrics, methods=["GET"]),
            Route("/openapi.json", routes.openapi, methods=["GET"]),
        ],
        middleware=middleware,
        exception_handlers={
            ApiError: _on_api_error,
            ConsoleError: on_console_error,
            HTTPException: _on_router_error,
        },
    )


async def _on_api_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError) or request.scope["type"] != "http":
        # `RequestMiddleware` refuses a WebSocket.
        raise error
    return error_response(error, request.scope["path"])


async def _on_router_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    # `request.url` would decode the query as well, which need not be valid text.
    path = request.scope["path"]
    message = (
        f"{request.method} is not for {path}."
        if status == 405  # noqa: PLR2004 - as HTTP says it
        else f"There is nothing at {path}. The paths of the API begin with /v1: `GET /openapi.json` lists them."
    )
    if path.startswith(API_ROOT):
        return await on_console_error(request, ConsoleError(status, "not_found", message))
    kind: ErrorType = "not_found" if status == 404 else "invalid_request"  # noqa: PLR2004 - as HTTP says it
    response = error_response(ApiError(status, kind, message), path)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


class _Routes:
    def __init__(self, service: HttpService, *, has_console: bool) -> None:
        self._service = service
        self._has_console = has_console
        self._limit = service.serve.max_body_bytes

    # Responses.

    async def create(self, request: Request) -> Response:
        create = read_create(await self._body(request), request.headers)
        if not create.generates:
            raise bad_request("`generate` is for WebSockets.", param="generate")
        prepared = await until_disconnected(
            request.receive, self._service.prepare(create, client_of(request))
        )
        if prepared is None:
            return Response(status_code=_GONE)
        if create.is_background:
            return await self._in_background(prepared, request)
        if create.is_streamed:
            return await _streamed(self._answering(prepared, request), prepared, self._events)
        answer, response = await held_response(self._service, prepared, request.receive)
        if response is None:
            answer.delivered(whole=False)
            return Response(status_code=_GONE)
        return ConfirmedResponse(JsonResponse(response, headers=_headers(answer, prepared)), answer)

    async def _in_background(self, prepared: Prepared, request: Request) -> Response:
        started = await self._service.start(prepared)
        headers = _headers(None, prepared)
        if not prepared.create.is_streamed:
            return JsonResponse(started.so_far(), headers=headers)
        events = await self._service.background.events(started.id, started.entry, -1)
        return _followed(events, request, headers)

    async def _events(self, prepared: Prepared, answer: ResponseRun) -> AsyncIterator[bytes]:
        async for event in self._service.events(prepared, answer):
            yield framed(event)
        if not answer.is_cancelled:
            yield DONE

    async def compact(self, request: Request) -> Response:
        body = read_compact(await self._body(request))
        return JsonResponse(await self._service.compact(body, client_of(request)))

    async def input_tokens(self, request: Request) -> Response:
        create = read_create(await self._body(request), request.headers)
        count = await self._service.count_tokens(create, client_of(request))
        return JsonResponse({"object": "response.input_tokens", "input_tokens": count})

    async def retrieve(self, request: Request) -> Response:
        id_, query = request.path_params["id"], request.query_params
        connection = client_of(request).connection
        entry = await self._service.histories.find(id_, connection)
        after = _starting_after(query.get("starting_after"))
        if not _is_streamed(query.get("stream", "")):
            if after is not None:
                raise bad_request("`starting_after` is for `stream=true`.", param="starting_after")
            return JsonResponse(await self._service.background.current(id_, connection, entry))
        events = await self._service.background.events(id_, entry, -1 if after is None else after)
        return _followed(events, request, {})

    async def delete(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        await self._service.background.delete(id_, client_of(request).connection)
        self._service.files.forget(id_)
        return JsonResponse({"id": id_, "object": "response", "deleted": True})

    async def input_items(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        entry = await self._service.histories.find(id_, client_of(request).connection)
        return JsonResponse(listed(entry.items, id_, request.query_params))

    async def cancel(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        connection = client_of(request).connection
        entry = await self._service.histories.find(id_, connection)
        return JsonResponse(await self._service.background.cancel(id_, connection, entry))

    # Chat completions.

    async def chat(self, request: Request) -> Response:
        create, with_usage = read_chat(await self._body(request), request.headers)
        # Chat completions have no items. Only a permission request has another form here.
        client = replace(client_of(request), takes_activity=False, has_items=False)
        prepared = await until_disconnected(request.receive, self._service.prepare(create, client))
        if prepared is None:
            return Response(status_code=_GONE)
        stream = ChatStream(
            new_id("chatcmpl"),
            create.model,
            prepared.created_at,
            prepared.ignored,
            approves_items=client.approves_items,
            renders_markdown=client.renders_markdown,
        )
        run = self._answering(prepared, request)
        if create.is_streamed:
            return await _streamed(run, prepared, partial(_chunks, stream, with_usage=with_usage))
        async with run as answer:
            await answer.begun(None)
            stream.is_of_agent = answer.place is not None
            try:
                async for part in answer.parts():
                    for _ in stream.take(part):
                        pass
            except ApiError as error:
                # The agent may have acted already, so a client must not repeat the request automatically.
                headers = {**error.headers, **_headers(answer, prepared), "x-should-retry": "false"}
                return ConfirmedResponse(JsonResponse(stream.failed(error), error.status, headers), answer)
            if answer.is_cancelled:
                answer.delivered(whole=False)
                return Response(status_code=_GONE)
            answer.outcome = "completed"
            headers = _headers(answer, prepared)
            return ConfirmedResponse(JsonResponse(stream.whole(answer.usage), headers=headers), answer)

    # Everything else.

    async def front_page(self, _request: Request) -> Response:
        return HTMLResponse(FRONT_PAGE, headers={"content-security-policy": "default-src 'none'"})

    async def models(self, request: Request) -> Response:
        client = client_of(request)
        await self._service.models.learn()
        listed = [_listed(info) for info in self._service.models.infos() if client.allows(info.id)]
        return JsonResponse({"object": "list", "data": listed})

    async def model(self, request: Request) -> Response:
        return JsonResponse(_listed(self._service.model(request.path_params["id"], client_of(request)).info))

    async def health(self, _request: Request) -> Response:
        return JsonResponse({"status": "ok"})

    async def readiness(self, _request: Request) -> Response:
        why = self._service.why_not_ready()
        if why is None:
            return JsonResponse({"status": "ok"})
        return JsonResponse({"status": "unavailable", "reason": why}, 503)

    async def metrics(self, _request: Request) -> Response:
        return PlainTextResponse(
            self._service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    async def openapi(self, _request: Request) -> Response:
        return JsonResponse(description(has_console=self._has_console))

    async def _body(self, request: Request) -> JsonObject:
        return object_of(await read_body(request, self._limit))

    @asynccontextmanager
    async def _answering(self, prepared: Prepared, request: Request) -> AsyncIterator[ResponseRun]:
        """Run a response within the block, and cancel it when the client disconnects."""
        async with (
            self._service.answering(prepared) as answer,
            while_connected(request.receive, answer.cancel),
        ):
            yield answer


async def _streamed(
    run: AbstractAsyncContextManager[ResponseRun],
    prepared: Prepared,
    frames: Callable[[Prepared, ResponseRun], AsyncIterator[bytes]],
) -> Response:
    """Send a response as server-sent events. The stream starts with the first part, or after a time limit."""
    stack = AsyncExitStack()
    answer = await stack.enter_async_context(run)
    try:
        await answer.begun()
    except BaseException:
        await stack.aclose()
        raise

    async def write(put: WriteEvent) -> None:
        async with stack:
            async for frame in frames(prepared, answer):
                await put(frame, more=answer.has_many)

    return ConfirmedResponse(EventStream(write, _headers(answer, prepared)), answer)


def _followed(events: AsyncIterator[JsonObject], request: Request, headers: dict[str, str]) -> Response:
    """Send the events of a background response. If the client disconnects, only the sending ends."""

    async def write(put: WriteEvent) -> None:
        async def send() -> None:
            try:
                async for event in events:
                    await put(framed(event))
            except ApiError as error:
                # The events are not available, or not now.
                await put(framed({"type": "error", **error.body}))
                return
            await put(DONE)

        await until_disconnected(request.receive, send())

    return EventStream(write, headers)


async def _chunks(
    stream: ChatStream, _prepared: Prepared, answer: ResponseRun, *, with_usage: bool
) -> AsyncIterator[bytes]:
    yield _data(stream.begin())
    try:
        async for part in answer.parts():
            stream.is_of_agent = answer.place is not None
            for chunk in stream.take(part):
                yield _data(chunk)
    except ApiError as error:
        yield _data(error.openai_body)
        return
    if answer.is_cancelled:
        return
    for chunk in stream.end(answer.usage, with_usage=with_usage):
        yield _data(chunk)
    answer.outcome = "completed"
    yield DONE


def _headers(answer: ResponseRun | None, prepared: Prepared) -> dict[str, str]:
    headers: dict[str, str] = {}
    if answer is not None and answer.place is not None:
        headers["x-dragoman-conversation"] = answer.place.header
    ignored = (*prepared.ignored, *(() if answer is None else answer.ignored))
    if ignored:
        headers["x-dragoman-ignored"] = printable(ignored)
    if (folder := prepared.folder(None if answer is None else answer.workspace)) is not None:
        headers[WORKSPACE_HEADER] = header_text(folder)
    return headers


def _is_streamed(given: str) -> bool:
    match given.lower():
        case "true" | "1":
            return True
        case "false" | "0" | "":
            return False
        case _:
            raise bad_request("`stream` is `true` or `false`.", param="stream")


def _starting_after(given: str | None) -> int | None:
    number = None if given is None else whole_number(given)
    if given is not None and number is None:
        raise bad_request("`starting_after` is the `sequence_number` of an event.", param="starting_after")
    return number


def _data(value: JsonObject) -> bytes:
    return b"data: %s\n\n" % encode(value)


def _listed(info: ModelInfo) -> JsonObject:
    """Describe a model as OpenAI's list does, with the fields that gateways add and our own client reads."""
    tools = info.capabilities.tool_calling is not False
    return {
        "id": info.id,
        "object": "model",
        "created": 0,
        "owned_by": "dragoman",
        "name": info.name,
        "context_window": info.max_input_tokens,
        "max_tokens": info.max_output_tokens,
        "input_modalities": ["text", *(["image"] if info.capabilities.image_input else [])],
        "supported_parameters": [
            *(["tools"] if tools else []),
            *(["tool_choice"] if info.required_calls else []),
            *(["structured_outputs"] if info.takes_forms or info.takes_options else []),
        ],
    }
