"""The headers by which a client changes a response, or says which request and conversation it is. Values in, values out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from dragoman.frontends.http.errors import bad_request
from dragoman.visible import visible_line

__all__ = [
    "SwitchHeader",
    "client_behind",
    "conversation_hint",
    "hold_seconds",
    "idempotency_key",
    "is_repeated",
    "is_switched_on",
    "program_of",
    "renders_markdown",
    "takes_files",
    "unknown_headers",
]

SwitchHeader: TypeAlias = Literal[
    "x-dragoman-activity",
    "x-dragoman-approvals",
    "x-dragoman-aside",
    "x-dragoman-files",
    "x-dragoman-markdown",
    "x-dragoman-one-shot",
    "x-dragoman-paths",
]

_ON_OR_OFF = {"true": True, "1": True, "false": False, "0": False}
# The values of each header, and whether a value switches it on.
_VALUES: dict[SwitchHeader, dict[str, bool]] = {
    "x-dragoman-activity": {"items": True},
    "x-dragoman-approvals": {"items": True},
    "x-dragoman-aside": _ON_OR_OFF,
    "x-dragoman-files": {"links": True, "items": False, "data": False},
    "x-dragoman-markdown": _ON_OR_OFF,
    "x-dragoman-one-shot": _ON_OR_OFF,
    "x-dragoman-paths": {"hidden": True},
}

# The headers in which known clients name their conversation, with every request of it: Open WebUI; Codex, now and before;
# opencode. They were not made for us, so they are never a reason to refuse a request.
_CONVERSATION_HINTS = (
    "x-openwebui-chat-id",
    "thread-id",
    "conversation_id",
    "session_id",
    "x-session-affinity",
)
_LONGEST_HINT = 512

# Programs that are known to render Markdown: by a header that no other sends, and by their own names.
_MARKDOWN_HEADER = "x-openwebui-"
_MARKDOWN_PROGRAMS = ("opencode/",)

# Of a `User-Agent`: comments in parentheses, and as much as names the program.
_COMMENT = re.compile(r"\([^()]*\)?")
_PRODUCTS = 2
_LONGEST_PROGRAM = 60
_OURS = "x-dragoman-"
_CLIENT = "x-dragoman-client"
_HOLD = "x-dragoman-hold"
_KNOWN = frozenset({*_VALUES, _CLIENT, _HOLD, "x-dragoman-workspace"})
_CLIENT_NAME = re.compile(r"[0-9A-Za-z_-]{1,64}")
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


def program_of(headers: Mapping[str, str]) -> str:
    """Return the name that the client's program gives itself, on one line and short. It proves nothing."""
    named = _COMMENT.sub(" ", headers.get("user-agent", ""))
    return visible_line(" ".join(named.split()[:_PRODUCTS]))[:_LONGEST_PROGRAM]


def conversation_hint(headers: Mapping[str, str]) -> str | None:
    """Return the id that a known client gives its conversation."""
    given = (headers.get(name, "").strip() for name in _CONVERSATION_HINTS)
    return next((hint for hint in given if 0 < len(hint) <= _LONGEST_HINT), None)


def client_behind(headers: Mapping[str, str]) -> str:
    """Return the name of the client that another server sends this request for. Raise `ApiError` if it is none."""
    name = headers.get(_CLIENT, "").strip()
    if name and _CLIENT_NAME.fullmatch(name) is None:
        raise bad_request(
            f"The header {_CLIENT} has 1 to 64 letters, digits, `-` or `_`. Send such a name, or leave the header out.",
            param=_CLIENT,
            code="invalid_header",
        )
    return name


def hold_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long the client waits while a person decides. Raise `ApiError` if that is no time."""
    value = headers.get(_HOLD)
    if value is None:
        return None
    if _SECONDS.fullmatch(value.strip()) is None:
        raise bad_request(
            f"The header {_HOLD} has a number of seconds, such as 55. Send one, or leave the header out.",
            param=_HOLD,
            code="invalid_header",
        )
    return float(value)


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """Return the client's own name for this request, which its retries have as well."""
    return headers.get("idempotency-key", "").strip() or None


def is_repeated(headers: Mapping[str, str]) -> bool:
    """Return whether the client says that it sends the request again. OpenAI's own libraries count their attempts."""
    count = headers.get("x-stainless-retry-count", "").strip()
    return count.isdecimal() and int(count[:9]) > 0


def renders_markdown(headers: Mapping[str, str]) -> bool:
    """Return whether the client renders Markdown: it says so, or its program is known for it."""
    if "x-dragoman-markdown" in headers:
        return is_switched_on(headers, "x-dragoman-markdown")
    is_known = headers.get("user-agent", "").startswith(_MARKDOWN_PROGRAMS)
    return is_known or any(name.lower().startswith(_MARKDOWN_HEADER) for name in headers)


def takes_files(headers: Mapping[str, str]) -> bool:
    """Return whether the client takes every file as an item with its bytes."""
    return headers.get("x-dragoman-files", "").strip().lower() == "data"


def unknown_headers(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of headers that look like ours and have no effect: perhaps a slip of the pen."""
    return tuple(name for name in headers if name.startswith(_OURS) and name not in _KNOWN)


def is_switched_on(headers: Mapping[str, str], name: SwitchHeader) -> bool:
    """Return whether the request has this header with a value that switches it on. Raise `ApiError` for an unknown value."""
    value = headers.get(name)
    if value is None:
        return False
    values = _VALUES[name]
    is_on = values.get(value.strip().lower())
    if is_on is None:
        *others, last = (f"`{each}`" for each in values)
        known = f"the values {', '.join(others)} and {last}" if others else f"one value: {last}"
        send = "one of them" if others else "that"
        raise bad_request(
            f"The header {name} has {known}. Send {send}, or leave the header out.",
            param=name,
            code="invalid_header",
        )
    return is_on
