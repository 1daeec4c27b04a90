"""Addresses, and patterns for them, compared by what they mean and not by how they are written.

A `Url` is an http or https address, parsed once and strictly. Callers contact the text made of its parts, so that the
checked address is the fetched one. Where programs are known to read an address differently (a user name, a backslash
before the path, a host in hexadecimal), parsing fails.

A pattern is `scheme://host[:port][/path]`:

    scheme  `http`, `https`, or `*` for either
    host    a name or an address: exactly that one; `*.name`: the names below it, not itself; `*`: any
    port    exactly that one, or `*` for any; left out: the scheme's own
    path    with `*` for any run of characters, also none and also with slashes; left out: any path

Query and fragment are not looked at. A wildcard in the host never stands for this machine or the local network: not
for `localhost`, a name without a dot, or a private address. Those are matched only by a pattern that names them.

A path is compared after its dots are resolved, its escapes decoded and its double slashes joined. One that a server
might read as something else (an escaped slash, an escape of an escape) matches no pattern at all.

Of two patterns that match, the more specific decides: the one with the more exact host (a name before `*.name` before
`*`, a longer name before a shorter), then the one with more of the path written out, then the one that names its
scheme, then the one that names its port.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote_to_bytes

__all__ = ["MAX_URL_LENGTH", "Url", "UrlError", "UrlPattern", "UrlPatternError", "is_local_address"]

# Longer than what browsers and servers take; what is longer carries a load, not an address.
MAX_URL_LENGTH = 8_192

Scheme: TypeAlias = Literal["http", "https"]
HostWildcard: TypeAlias = Literal["", "*.", "*"]

_DEFAULT_PORT: dict[Scheme, int] = {"http": 80, "https": 443}
_MAX_PORT = 65_535

_PARTS = re.compile(
    r"(?P<scheme>[^:/?#]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?", re.DOTALL
)
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:]*)(?::(?P<port>[0-9]*|\*))?")
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
_MAX_NAME_LENGTH = 253
# A name whose last label looks like a number is read as an IPv4 address, in any of a dozen notations.
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
# Renderers and browsers drop these; no address needs them.
_DROPPED = re.compile(r"[\t\r\n]")
# An escaped slash, backslash or NUL, and an escape of an escape: servers differ on what these mean.
_UNCLEAR = re.compile(r"%(?:2f|5c|00|25(?=[0-9a-f]{2}))", re.IGNORECASE)
# `/a/..;x/b` climbs in some servers.
_DOTS_WITH_PARAMETER = re.compile(r"/\.{1,2};")

_IN_PATH = "/%:@!$&'()*+,;=-._~"
_IN_QUERY = _IN_PATH + "?[]"

# Names that no public registry has or will have: they lead to this machine or the network around it.
_LOCAL_SUFFIXES = frozenset(
    {"localhost", "local", "localdomain", "internal", "intranet", "private", "corp", "home", "lan", "test"}
)
# Blocks in which an IPv6 address stands for an IPv4 one that may be local.
_TRANSLATED = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48")))


class UrlError(ValueError):
    """An address that cannot be used, and why."""


class UrlPatternError(ValueError):
    """A pattern that is none: what is wrong with it, and how to write it."""


@dataclass(frozen=True, slots=True)
class Url:
    """An http or https address. The host is in ASCII and lower case, without a final dot; IPv6 is without brackets."""

    scheme: Scheme
    host: str
    port: int
    path: str
    query: str | None = None

    @classmethod
    def parse(cls, text: str) -> Url:
        _check_length(text)
        parts = _PARTS.fullmatch(text.strip())
        if parts is None:
            raise UrlError(f"{text!r} is no full address. Write it as https://host/path.")
        scheme = _scheme(parts["scheme"])
        if scheme is None:
            raise UrlError(f"The scheme of {text!r} is neither http nor https.")
        host, port = _split_authority(parts["authority"])
        if port == "*":
            raise UrlError(f"The port of {text!r} is not a number.")
        url = cls(
            scheme=scheme,
            host=_host(host),
            port=_port(port) if port else _DEFAULT_PORT[scheme],
            path=_path(parts["path"]),
            query=None if parts["query"] is None else _escaped(_DROPPED.sub("", parts["query"]), _IN_QUERY),
        )
        # What is fetched may have become longer by its escapes.
        _check_length(str(url))
        return url

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORT[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine or on the local network, judged by its name."""
        address = _address(self.host)
        if address is not None:
            return is_local_address(address)
        suffix = self.host.rpartition(".")[2]
        return "." not in self.host or suffix in _LOCAL_SUFFIXES or self.host.endswith(".home.arpa")

    def __str__(self) -> str:
        query = "" if self.query is None else f"?{self.query}"
        return f"{self.origin}{self.path}{query}"


@dataclass(frozen=True, slots=True)
class UrlPattern:
    text: str
    # None: either.
    scheme: Scheme | None
    wildcard: HostWildcard
    host: str
    # None: the scheme's own.
    port: int | Literal["*"] | None
    # What stands between the stars of the path.
    pieces: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> UrlPattern:
        try:
            return _read_pattern(text)
        except UrlError as error:
            raise UrlPatternError(
                f"{text!r} is no pattern for addresses. {error}"
                " Patterns look like 'https://docs.example/guide/*' or 'https://*.example'."
            ) from error

    def matches(self, url: Url) -> bool:
        if self.scheme not in (None, url.scheme):
            return False
        if not self._matches_host(url):
            return False
        if self.port != "*" and url.port != (self.port or _DEFAULT_PORT[url.scheme]):
            return False
        path = _compared(url.path)
        return path is not None and _matches_pieces(self.pieces, path)

    def _matches_host(self, url: Url) -> bool:
        match self.wildcard:
            case "":
                return url.host == self.host
            case "*.":
                return url.host.endswith(f".{self.host}") and not url.is_local
            case _:
                return not url.is_local

    @property
    def specificity(self) -> tuple[int, int, int, bool, bool]:
        """Of two patterns that match an address, the one with the greater value decides."""
        exactness = ("*", "*.", "").index(self.wildcard)
        written_out = sum(map(len, self.pieces))
        return (exactness, len(self.host), written_out, self.scheme is not None, self.port != "*")


def _check_length(text: str) -> None:
    if len(text) > MAX_URL_LENGTH:
        raise UrlError(f"The address has {len(text):,} characters; at most {MAX_URL_LENGTH:,} are taken.")


def is_local_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is not on the public internet, or might not be."""
    if isinstance(address, ipaddress.IPv6Address):
        stands_for_another = address.ipv4_mapped or address.sixtofour or address.teredo
        if stands_for_another or any(address in block for block in _TRANSLATED):
            return True
    return not address.is_global or address.is_multicast


# A handful of patterns is matched with every call.
@lru_cache(maxsize=256)
def _read_pattern(text: str) -> UrlPattern:
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise UrlError("It has no scheme.")
    if parts["query"] is not None or "#" in text:
        raise UrlError("Queries and fragments are not looked at: leave them out.")
    scheme = _scheme(parts["scheme"])
    if scheme is None and parts["scheme"] != "*":
        raise UrlError("The scheme is http, https, or * for either.")
    host, port = _split_authority(parts["authority"])
    wildcard: HostWildcard = "*" if host == "*" else "*." if host.startswith("*.") else ""
    name = "" if wildcard == "*" else _host(host.removeprefix("*."))
    if wildcard == "*." and _address(name) is not None:
        raise UrlError(f"There are no names below the address {name}.")
    return UrlPattern(
        text=text,
        scheme=scheme,
        wildcard=wildcard,
        host=name,
        port="*" if port == "*" else _port(port) if port else None,
        pieces=_pattern_pieces(parts["path"] or "/*"),
    )


def _pattern_pieces(path: str) -> tuple[str, ...]:
    """What stands between the stars of a pattern's path, in the form that paths are compared in."""
    if "\\" in path or any(_climb(segment) is not None for segment in path.split("/")):
        raise UrlError("The path has '.', '..' or a backslash in it.")
    pieces = []
    for piece in path.split("*"):
        compared = _compared(_escaped(piece, _IN_PATH))
        if compared is None:
            raise UrlError("The path has an escape in it that means different things to different servers.")
        pieces.append(compared)
    return tuple(pieces)


def _matches_pieces(pieces: tuple[str, ...], path: str) -> bool:
    first, *rest = pieces
    if not rest:
        return path == first
    *middle, last = rest
    if not (path.startswith(first) and path.endswith(last) and len(path) >= len(first) + len(last)):
        return False
    # Taking each piece where it first occurs leaves the most room for the others: no need to try again, whatever the
    # number of stars.
    position, end = len(first), len(path) - len(last)
    for piece in middle:
        found = path.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def _scheme(text: str) -> Scheme | None:
    match text.lower():
        case "http":
            return "http"
        case "https":
            return "https"
        case _:
            return None


def _split_authority(authority: str) -> tuple[str, str]:
    """Host and port as they are written; the port is empty where none is."""
    if "@" in authority:
        raise UrlError("Addresses with a user name or password are not taken.")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise UrlError(f"{authority!r} is no host and port.")
    return parts["host"], parts["port"] or ""


def _port(text: str) -> int:
    # Five digits are enough for any port; int() of a million digits is slow.
    number = int(text) if len(text) <= len(str(_MAX_PORT)) else 0
    if not 0 < number <= _MAX_PORT:
        raise UrlError(f"{text!r} is no port; ports go from 1 to {_MAX_PORT}.")
    return number


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            # A zone (`fe80::1%eth0`) names a network card of this machine: no address to share.
            return _ipv6(text[1:-1])
        except ValueError as error:
            raise UrlError(f"{text!r} is no IPv6 address.") from error
    name = _ascii(text).lower().removesuffix(".")
    if len(name) > _MAX_NAME_LENGTH or _NAME.fullmatch(name) is None:
        raise UrlError(f"{text!r} is no host name.")
    if _NUMERIC.fullmatch(name):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError as error:
            raise UrlError(f"{text!r} is no IPv4 address. Write it as four decimal numbers.") from error
    return name


def _ipv6(text: str) -> str:
    address = ipaddress.IPv6Address(text)
    if address.scope_id is not None:
        raise ValueError(text)
    return str(address)


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    import idna  # noqa: PLC0415 - large tables, for the few hosts that need them

    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    except idna.IDNAError as error:
        raise UrlError(f"{host!r} is no host name ({error}).") from error


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _path(text: str) -> str:
    """A path as it is sent: whole, with `.` and `..` resolved, with nothing in it that needs an escape."""
    text = _DROPPED.sub("", text).replace("\\", "/")
    resolved: list[str] = []
    segments = text.split("/")[1:] or [""]
    for segment in segments:
        climb = _climb(segment)
        if climb is None:
            resolved.append(segment)
        else:
            del resolved[len(resolved) - climb :]
    if _climb(segments[-1]) is not None:
        resolved.append("")
    return _escaped("/" + "/".join(resolved), _IN_PATH)


def _climb(segment: str) -> int | None:
    """How far up a segment of dots leads; None for any other segment."""
    return {".": 0, "..": 1}.get(segment.lower().replace("%2e", "."))


def _escaped(text: str, safe: str) -> str:
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError as error:
        raise UrlError("The address has characters that cannot be written as UTF-8.") from error


def _compared(path: str) -> str | None:
    """The one form of all paths that mean the same; None where servers differ on what a path means."""
    if _UNCLEAR.search(path):
        return None
    decoded = quote(unquote_to_bytes(path), safe=_IN_PATH.replace("%", ""))
    if _DOTS_WITH_PARAMETER.search(decoded):
        return None
    return re.sub("/{2,}", "/", decoded)
