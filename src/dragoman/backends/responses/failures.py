"""What an endpoint's errors mean to the caller.

Endpoints report failures by a status, by an `error` event, nested or flat, or by a response that has failed. All of
them have a message for people; some have a code, which is more reliable than the message. Keys are redacted: endpoints
often repeat the one they refuse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

import msgspec

from dragoman.lm import ErrorKind, ErrorOrigin, JsonObject, LanguageModelError
from dragoman.lm.json import decode

__all__ = [
    "Address",
    "EndpointComplaint",
    "complaint_of_body",
    "complaint_of_event",
    "failure",
    "http_failure",
]

# Longer ones are pages of HTML or whole prompts.
_MESSAGE_SHOWN = 500

_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "quota_exceeded", "payment_required"})
_BLOCKED = frozenset({"content_filter", "content_policy_violation", "cyber_policy_violation", "bio_policy"})
_RATE_LIMITED = frozenset({"rate_limit_exceeded", "rate_limit_error", "too_many_requests", "slow_down"})
_BUSY = frozenset(
    {
        "overloaded",
        "overloaded_error",
        "server_is_overloaded",
        "server_error",
        "model_error",
        "internal_error",
        "vector_store_timeout",
    }
)
_KEY = frozenset({"invalid_api_key", "authentication_error", "invalid_authentication", "unauthorized"})
# A server of ours has the kind of an error as its code. In a stream, no status says more.
_OUR_KINDS: dict[str, ErrorKind] = {kind: kind for kind in get_args(ErrorKind)}
_TOO_LONG_CODES = frozenset({"context_length_exceeded", "string_above_max_length", "request_too_large"})
_TOO_LONG = re.compile(
    r"context (?:length|window|size)|maximum (?:context|input|model) length|too many (?:input )?tokens|prompt is too long",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class EndpointComplaint:
    """What an endpoint says is wrong."""

    message: str = ""
    # The code, else the type of the error.
    code: str = ""
    param: str = ""
    type: str = ""

    def origin(self, status: int | None = None) -> ErrorOrigin:
        return ErrorOrigin(status, self.type, self.code, self.param)

    @property
    def text(self) -> str:
        """The message to show, cut to a limit."""
        text = self.message.strip() or self.code
        return text if len(text) <= _MESSAGE_SHOWN else f"{text[:_MESSAGE_SHOWN]}…"


def complaint_of_event(event: JsonObject) -> EndpointComplaint:
    """The complaint in an `error` event (nested by the specification, flat by OpenAI), or of a response that has failed."""
    match event:
        case {"error": dict() as error}:
            return _complaint(error)
        case {"response": {"error": dict() as error}}:
            return _complaint(error)
        case {"error": str(message)}:
            return EndpointComplaint(message)
        case _:
            return _complaint({key: value for key, value in event.items() if key != "type"})


def complaint_of_body(body: bytes) -> EndpointComplaint:
    """The complaint in the body of an HTTP error: the specification's form, those of other frameworks, or whatever text there is."""
    try:
        value = decode(body)
    except msgspec.DecodeError:
        text = " ".join(_TAG.sub(" ", body.decode("utf-8", "replace")).split())
        return EndpointComplaint(text)
    match value:
        case dict() if "error" in value or "message" in value:
            return complaint_of_event(value)
        case {"detail": str(message)}:
            return EndpointComplaint(message)
        case [dict() as first, *_]:
            return complaint_of_event(first)
        case _:
            return EndpointComplaint()


def _complaint(error: JsonObject) -> EndpointComplaint:
    code = error.get("code")
    kind = error.get("type")
    message, param = error.get("message"), error.get("param")
    return EndpointComplaint(
        message if isinstance(message, str) else "",
        code if isinstance(code, str) and code else kind if isinstance(kind, str) else "",
        param if isinstance(param, str) else "",
        kind if isinstance(kind, str) else "",
    )


def failure(complaint: EndpointComplaint, name: str) -> LanguageModelError:
    """The error for a complaint, by its code and its words."""
    kind, hint = _by_code(complaint) or (_OUR_KINDS.get(complaint.code, "unavailable"), None)
    if hint is None and kind in {"unavailable", "rate_limited"}:
        hint = "Try again in a moment."
    text = complaint.text or "it gives no reason"
    return LanguageModelError(kind, f"{name} failed: {text}", hint=hint, origin=complaint.origin())


def _by_code(complaint: EndpointComplaint) -> tuple[ErrorKind, str | None] | None:
    code = complaint.code
    if code in _TOO_LONG_CODES or _TOO_LONG.search(complaint.message):
        return "bad_request", "Shorten the conversation, or begin a new one."
    if code in _QUOTA:
        return "blocked", "The account has no credit left, or has reached its limit: see the provider's page."
    if code in _BLOCKED:
        return "blocked", "The provider does not answer this. Say it in other words."
    if code in _KEY:
        return "no_permissions", None
    if code in _RATE_LIMITED:
        return "rate_limited", None
    if code in _BUSY:
        return "unavailable", None
    if code == "model_not_found":
        return "not_found", None
    if code == "agent_failed":
        return "agent_failed", None
    if code in {"invalid_request_error", "invalid_request", "invalid_prompt", "invalid_image"}:
        return "bad_request", None
    return None


_KINDS: dict[int, ErrorKind] = {
    400: "bad_request",
    401: "no_permissions",
    402: "blocked",
    403: "no_permissions",
    404: "not_found",
    405: "not_found",
    408: "timeout",
    413: "bad_request",
    422: "bad_request",
    429: "rate_limited",
    451: "blocked",
}
_VAGUE = frozenset({400, 413, 422})
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Address:
    """The settings that an error names, so that the user can correct them."""

    name: str
    url: str
    model: str
    # Where the key stands, in words: `the environment variable NAME`.
    key: str | None


def http_failure(
    status: int, complaint: EndpointComplaint, address: Address, *, retry_after: float | None = None
) -> LanguageModelError:
    """The error for a status that is not 200."""
    otherwise = _KINDS.get(status, "unavailable" if status >= _SERVER_ERROR else "bad_request")
    # Most statuses say more than a type that is the same for all of a kind.
    is_vague = status in _VAGUE or status >= _SERVER_ERROR or complaint.code in _QUOTA
    by_code = _by_code(complaint) if is_vague else None
    kind, hint = by_code or (otherwise, None)
    message = f"{address.name} answered with status {status}"
    if complaint.text:
        message += f": {complaint.text}"
    return LanguageModelError(
        kind,
        message,
        hint=hint or _what_next(status, kind, complaint, address),
        retry_after=retry_after,
        origin=complaint.origin(status),
    )


def _what_next(status: int, kind: ErrorKind, complaint: EndpointComplaint, address: Address) -> str | None:
    match kind:
        case "no_permissions" if address.key is None:
            return "No key is configured: add `api_key` to the model."
        case "no_permissions":
            return f"Check {address.key}: is it right, and may it use {address.model}?"
        case "not_found" if complaint.code == "model_not_found" or address.model in complaint.message:
            return f"Check `model`: the endpoint does not know {address.model}."
        case "not_found":
            return f"Check `base_url`: is there an Open Responses endpoint at {address.url}?"
        case "rate_limited" | "unavailable" | "timeout":
            return "Try again in a moment."
        case _ if status // 100 == 3:  # noqa: PLR2004 - the class of a status
            return f"Check `base_url`: {address.url} leads elsewhere, and a key is not carried there."
        case _ if complaint.param:
            return f"The endpoint does not take {complaint.param!r} as it is."
        case _:
            return None
