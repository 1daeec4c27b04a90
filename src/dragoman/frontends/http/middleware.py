"""The outermost layer: checks access, counts requests, and turns exceptions into error responses."""

from __future__ import annotations

import logging

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.config import ClientKey
from dragoman.frontends.console.access import ConsoleAccess, is_console_path
from dragoman.frontends.console.wire import ConsoleError, error_response as console_error_response
from dragoman.frontends.http.auth import WITHOUT_KEY, AccessCheck
from dragoman.frontends.http.client import HttpClient
from dragoman.frontends.http.errors import ApiError, unexpected
from dragoman.frontends.http.file_links import FILES_PATH
from dragoman.frontends.http.metrics import Metrics
from dragoman.frontends.http.request_headers import (
    client_behind,
    hold_seconds,
    idempotency_key,
    is_repeated,
    is_switched_on,
    program_of,
    renders_markdown,
    takes_files,
    unknown_headers,
)
from dragoman.frontends.http.wire import error_response
from dragoman.frontends.http.workspace_choice import named_folder
from dragoman.frontends.request_values import host_header
from dragoman.lm.json import encode

__all__ = ["HEADER_BYTES", "ApiCorsMiddleware", "RequestMiddleware", "client_of"]

_log = logging.getLogger(__name__)

# The name of the scope's entry that has the client's API key.
_KEY = "dragoman.key"
# The limit of all headers together: a key, an id or two, and what browsers add.
HEADER_BYTES = 64 * 1024
# Paths that need no key: for process monitors, and for users who have no key yet.
_OPEN_TO_ALL = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})


def _is_open(path: str, headers: Headers) -> bool:
    """Whether a request needs no key."""
    return path in _OPEN_TO_ALL or _is_link(path, headers)


def _is_link(path: str, headers: Headers) -> bool:
    """Whether a request follows a link to a file. The id in the address is the credential."""
    return path.startswith(FILES_PATH) and "authorization" not in headers


def client_of(incoming: HTTPConnection) -> HttpClient:
    """Return the client of a request, with what its headers ask for."""
    headers = incoming.headers
    key: ClientKey | None = incoming.scope[_KEY]
    # A WebSocket has many requests, and the headers of one.
    is_one_request = incoming.scope["type"] == "http"
    return HttpClient(
        WITHOUT_KEY if key is None else key.connection,
        key=key,
        client=client_behind(headers),
        hides_paths=is_switched_on(headers, "x-dragoman-paths"),
        hold_seconds=hold_seconds(headers),
        approves_items=is_switched_on(headers, "x-dragoman-approvals"),
        takes_activity=is_switched_on(headers, "x-dragoman-activity"),
        is_aside=is_switched_on(headers, "x-dragoman-aside"),
        idempotency_key=idempotency_key(headers) if is_one_request else None,
        is_repeated=is_one_request and is_repeated(headers),
        program=program_of(headers),
        workspace=named_folder(headers),
        links_files=is_switched_on(headers, "x-dragoman-files"),
        takes_files=takes_files(headers),
        origin=_origin_of(incoming),
        renders_markdown=renders_markdown(headers),
        is_one_shot=is_switched_on(headers, "x-dragoman-one-shot"),
        unknown_headers=unknown_headers(headers),
    )


def _origin_of(incoming: HTTPConnection) -> str:
    """The address by which the client reached the server."""
    host = host_header(incoming.headers)
    scheme = "https" if incoming.scope.get("scheme") in ("https", "wss") else "http"
    return f"{scheme}://{host.text}" if host is not None else ""


class RequestMiddleware:
    """Checks access to every request, counts it, and answers exceptions.

    The paths of the console need no key. They have checks of their own, of which the first is here, so that it holds for all of
    them.
    """

    def __init__(
        self, app: ASGIApp, gate: AccessCheck, metrics: Metrics, console_access: ConsoleAccess | None = None
    ) -> None:
        self._app = app
        self._gate = gate
        self._metrics = metrics
        self._console_access = console_access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        tracked = _StatusSend(send, scope["type"])
        try:
            _refuse_long_headers(scope)
            headers = Headers(scope=scope)
            if self._console_access is not None and is_console_path(scope["path"]):
                self._console_access.check_host(headers)
            elif not self._is_link_to_own_host(scope["path"], headers):
                self._gate.check_host_and_origin(headers)
                if not _is_open(scope["path"], headers):
                    scope[_KEY] = self._gate.key(headers)
            await self._app(scope, receive, tracked)
        except ApiError as error:
            await _refuse(error, scope, receive, tracked)
        except ConsoleError as error:
            if scope["type"] == "http":
                await console_error_response(error, scope["path"])(scope, receive, tracked)
            else:
                refused = ApiError(error.status, "invalid_request", error.message, code=error.code)
                await _refuse(refused, scope, receive, tracked)
        except ClientDisconnect:
            # There is no client to answer.
            _log.debug("a client disconnected before its request was complete")
        except Exception:
            _log.exception("%s %s failed", scope.get("method", "WEBSOCKET"), scope["path"])
            if tracked.status is not None:
                raise
            await _refuse(unexpected(), scope, receive, tracked)
        finally:
            path = getattr(scope.get("route"), "path", None)
            self._metrics.request(path, tracked.status if tracked.status is not None else 499)

    def _is_link_to_own_host(self, path: str, headers: Headers) -> bool:
        """Links to files begin with `[console] url`, and must work there also without keys."""
        access = self._console_access
        return access is not None and _is_link(path, headers) and access.is_own_host(headers)


class ApiCorsMiddleware(CORSMiddleware):
    """CORS for the API. Pages of other origins have no access to the console, so its paths get no such headers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_console_path(scope["path"]):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class _StatusSend:
    """Passes messages on to `send`, and remembers the status of the response."""

    def __init__(self, send: Send, kind: str) -> None:
        self._send = send
        self._kind = kind
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self.status = message["status"]
            case "websocket.accept":
                self.status = 101
            case _:
                pass
        await self._send(message)


def _refuse_long_headers(scope: Scope) -> None:
    """Refuse headers beyond the limit. The parser limits only headers that arrive in several pieces."""
    if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES:
        raise ApiError(431, "invalid_request", f"The headers have more than {HEADER_BYTES:,} bytes.")


async def _refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await error_response(error, scope["path"])(scope, receive, send)
        return
    await receive()
    if "websocket.http.response" in scope.get("extensions", {}):
        headers = [(b"content-type", b"application/json")]
        await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": encode(error.body_at(scope["path"]))})
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
