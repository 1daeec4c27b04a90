"""Errors as an HTTP status and the body that clients of this API expect.

The error types are those of the specification. It has none for a model that is busy or slow. Such an error has the usual
HTTP status and the type `server_error`. Chat completions and models are OpenAI's API: there the types are OpenAI's.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from dragoman.lm import ErrorKind, ErrorOrigin, JsonObject, LanguageModelError
from dragoman.lm.nesting import NestedTooDeeply

__all__ = [
    "ApiError",
    "ErrorType",
    "bad_request",
    "of_model",
    "storage_unavailable",
    "too_deep",
    "unexpected",
    "unknown_model",
]

ErrorType: TypeAlias = Literal[
    "server_error", "invalid_request", "not_found", "model_error", "too_many_requests"
]

_BY_KIND: dict[ErrorKind, tuple[int, ErrorType]] = {
    "not_found": (404, "not_found"),
    "bad_request": (400, "invalid_request"),
    # Not 401: the agent or endpoint refused its credentials, not the key of the client.
    "no_permissions": (403, "model_error"),
    "auth_required": (403, "model_error"),
    "blocked": (403, "model_error"),
    "rate_limited": (429, "too_many_requests"),
    "unavailable": (503, "server_error"),
    "timeout": (504, "server_error"),
    "agent_failed": (500, "model_error"),
    "internal": (500, "server_error"),
}
# The paths of the API that the specification describes, and of what belongs to it.
_SPECIFIED = ("/v1/responses", "/v1/conversations")
# OpenAI's types, for all other paths.
_OPENAI_TYPES: dict[ErrorType, str] = {
    "invalid_request": "invalid_request_error",
    "not_found": "invalid_request_error",
    "too_many_requests": "rate_limit_error",
    "model_error": "server_error",
    "server_error": "server_error",
}
_FORBIDDEN = 403
# Characters of a client's value that a message quotes.
_SHOWN = 128
_TRANSIENT = frozenset({429, 502, 503, 504, 529})
_FIRST_ERROR = 400
# Not those about our own access to an endpoint.
_OF_THE_REQUEST: frozenset[ErrorKind] = frozenset(
    {"bad_request", "rate_limited", "unavailable", "timeout", "agent_failed"}
)


class ApiError(Exception):
    """An error response to a request."""

    def __init__(
        self,
        status: int,
        kind: ErrorType,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind: ErrorType = kind
        self.message = message
        self.code = code or kind
        self.param = param
        self.retry_after = retry_after

    @property
    def payload(self) -> JsonObject:
        return {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}

    @property
    def body(self) -> JsonObject:
        return {"error": self.payload}

    @property
    def openai_body(self) -> JsonObject:
        """The body with the type that OpenAI's servers give to such an error."""
        kind = "permission_error" if self.status == _FORBIDDEN else _OPENAI_TYPES[self.kind]
        return {"error": {**self.payload, "type": kind}}

    def body_at(self, path: str) -> JsonObject:
        """The body for clients of this path."""
        return self.body if path.startswith(_SPECIFIED) else self.openai_body

    @property
    def headers(self) -> dict[str, str]:
        """Headers that limit retries. The official clients retry after most errors, also where it cannot help."""
        headers = {"x-should-retry": "true" if self.status in _TRANSIENT else "false"}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, round(self.retry_after)))
        return headers


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, "invalid_request", message, code=code, param=param)


def too_deep(error: NestedTooDeeply, where: str) -> ApiError:
    """Return the error for a JSON text with too many levels. `where` is its path in the request."""
    return bad_request(f"`{where}` cannot be read: {error}.", param=where, code="nested_too_deeply")


def of_model(error: LanguageModelError, *, sees_paths: bool) -> ApiError:
    """Return the error of a model, for a client that may or may not learn where the operator's files are."""
    status, kind = _BY_KIND[error.kind]
    code: str = "model_not_found" if error.kind == "not_found" else error.kind
    origin = error.origin or ErrorOrigin()
    if error.kind in _OF_THE_REQUEST:
        # An endpoint's own error, which the client can read as if it had asked the endpoint itself.
        status = origin.status if origin.status is not None and origin.status >= _FIRST_ERROR else status
        kind = next((each for each in get_args(ErrorType) if each == origin.type), _of_status(status, kind))
        code = origin.code or code
    param = origin.param or None
    sentence = error.sentence_for(sees_paths=sees_paths)
    return ApiError(status, kind, sentence, code=code, param=param, retry_after=error.retry_after)


def _of_status(status: int, otherwise: ErrorType) -> ErrorType:
    return "too_many_requests" if status == 429 else otherwise  # noqa: PLR2004 - as HTTP says it


def unknown_model(model_id: str) -> ApiError:
    message = f"There is no model {model_id[:_SHOWN]!r}. `GET /v1/models` lists those there are."
    return ApiError(404, "not_found", message, code="model_not_found")


def storage_unavailable() -> ApiError:
    """Return the error for a store that cannot be used now. What is stored may be there: the client must not go on without it.

    Only the log has the details.
    """
    return ApiError(
        503,
        "server_error",
        "The storage of this server cannot be reached now, so what is stored cannot be read or changed. "
        "Send the same request again in a moment.",
        code="storage_unavailable",
        retry_after=1,
    )


def unexpected() -> ApiError:
    """Return the error for a bug in the server. Only the log has the details."""
    return ApiError(500, "server_error", "This should not have happened; the server's log says more.")
