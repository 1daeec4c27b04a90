"""Values of requests that are read strictly: what is not exactly as it should be counts as wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["HostHeader", "header_values", "host_header", "whole_number"]

# A host, and perhaps a port. URL parsers accept much more: a user, a path, anything behind a bracket.
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+)(?::(?P<port>[0-9]{1,5}))?")
_LAST_PORT = 65_535
# No journal and no response has events with longer numbers.
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class HostHeader:
    # As it was sent.
    text: str
    # In lower case.
    name: str
    port: int | None


def header_values(headers: Mapping[str, str], name: str) -> list[str]:
    """Every value of a header. A request may repeat it, and `get` returns one of them."""
    return [value for each, value in headers.items() if each == name]


def host_header(headers: Mapping[str, str]) -> HostHeader | None:
    """What the request is addressed to. None if it does not say so exactly once, as a name and perhaps a port."""
    hosts = header_values(headers, "host")
    found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if found is None or not 0 < int(found["port"] or 1) <= _LAST_PORT:
        return None
    return HostHeader(found.string, found["name"].lower(), int(found["port"]) if found["port"] else None)


def whole_number(text: str) -> int | None:
    """The number that ASCII digits stand for; None for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None
