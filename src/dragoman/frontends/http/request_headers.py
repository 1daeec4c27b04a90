"""The headers by which a client changes the form or the kind of a response. Values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from dragoman.frontends.http.errors import bad_request

__all__ = ["SwitchHeader", "is_switched_on"]

SwitchHeader: TypeAlias = Literal["x-dragoman-activity", "x-dragoman-approvals", "x-dragoman-aside"]

# The values of each header, and whether a value switches it on.
_VALUES: dict[SwitchHeader, dict[str, bool]] = {
    "x-dragoman-activity": {"items": True},
    "x-dragoman-approvals": {"items": True},
    "x-dragoman-aside": {"true": True, "1": True, "false": False, "0": False},
}


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
