"""Who may use the console: the checks of a request's headers, and the session that it belongs to.

A page of another site, and a program on another port of this machine, can make a browser send requests to the console.
Several checks refuse them, each by itself:

- `Host` is a loopback name or the host of `[console] url`, also where API keys exist. A name that a stranger's DNS resolves
  to this machine is neither.
- `Origin` is the console's own. Every request that is not a GET must have it.
- `Sec-Fetch-Site`, where the browser sends it, says `same-origin`.
- A call of the API has the header `x-dragoman-console`, which a form cannot send and which another origin would have to ask
  for in a preflight request. The console never answers those.
- The session has two secrets. A cookie belongs to a host with all its ports, so another program could get it. The token is
  in the storage of this one origin.

There is no I/O here.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from dragoman.frontends.console.sessions import ConsoleSession, ConsoleSessions
from dragoman.frontends.console.wire import ConsoleError
from dragoman.frontends.request_values import HostHeader, header_values, host_header
from dragoman.loopback import is_loopback

__all__ = ["COOKIE_SECONDS", "TOKEN_HEADER", "ConsoleAccess", "is_console_path"]

TOKEN_HEADER = "x-dragoman-console"  # noqa: S105 - a header's name
COOKIE_SECONDS = 30 * 24 * 3600
# The prefix `__Host-` makes browsers refuse such a cookie from any other host and from plain HTTP.
_SECURE_COOKIE = "__Host-dragoman"
# Browsers send the cookies of all ports of a host. With the port in its name, two servers on one machine do not sign each
# other's pages out.
_PLAIN_COOKIE = "dragoman-console"

_SAFE_METHODS = frozenset({"GET", "HEAD"})


def is_console_path(path: str) -> bool:
    """Whether the console answers at this path, with its own checks instead of those of the API."""
    return path in ("/", "/console") or path.startswith("/console/")


class ConsoleAccess:
    """Checks the headers of requests. Header names are in lower case, and `items` gives repeated ones."""

    def __init__(self, sessions: ConsoleSessions, url: str | None = None) -> None:
        """`url` is that of `[console]`."""
        self.sessions = sessions
        self._own_host: str | None = None
        self._own_origin: str | None = None
        if url is not None:
            self._own_host, self._own_origin = _host_and_origin(url)

    def check_host(self, headers: Mapping[str, str]) -> HostHeader:
        """The `Host` of the request. Raises if it is not one of the console's."""
        host = host_header(headers)
        if host is None or not (is_loopback(host.name) or host.name == self._own_host):
            raise _other_host()
        return host

    def is_own_host(self, headers: Mapping[str, str]) -> bool:
        """Whether the request came to the address that `[console] url` names."""
        host = host_header(headers)
        return host is not None and host.name == self._own_host

    def check_page(self, headers: Mapping[str, str], *, is_document: bool) -> None:
        """Check a request for the page or one of its files. The files say nothing that is not public.

        A link may lead to the document from any site: the person sees that they are elsewhere, and the page cannot be framed.
        """
        self.check_host(headers)
        site = _one(headers, "sec-fetch-site")
        is_visit = is_document and _one(headers, "sec-fetch-mode") in (None, "navigate")
        if site not in (None, "same-origin", "none") and not is_visit:
            raise _other_site()

    def check_call(self, method: str, headers: Mapping[str, str]) -> str:
        """Check a call of the API, apart from its session. Returns the token that it has."""
        host = self.check_host(headers)
        origins = header_values(headers, "origin")
        if len(origins) > 1 or any(not self._is_own_origin(each, host) for each in origins):
            raise _other_site()
        if not origins and method not in _SAFE_METHODS:
            raise ConsoleError(
                403, "forbidden_origin", "A change needs the header Origin, as a browser sends it."
            )
        if header_values(headers, "sec-fetch-site") not in ([], ["same-origin"]):
            raise _other_site()
        tokens = header_values(headers, TOKEN_HEADER)
        if len(tokens) != 1 or not tokens[0]:
            raise ConsoleError(
                403, "no_header", f"A call of the console needs the header {TOKEN_HEADER}, once."
            )
        return tokens[0]

    def session(self, method: str, headers: Mapping[str, str], *, change: bool) -> ConsoleSession:
        """The session of a call of the API. Raises `ConsoleError` if the request may not do that.

        `change`: the call changes something, so the session must have the role *decide*. Requests that are not GET need the
        console's own `Origin` in any case.
        """
        token = self.check_call(method, headers)
        cookies = self._cookies(headers)
        # If there are several, another program may have set one of them. Then none counts.
        found = self.sessions.find(cookies[0], token) if len(cookies) == 1 else None
        if found is None:
            raise ConsoleError(401, "signed_out", "This browser is not paired, or no longer. Pair it again.")
        if change and not found.may_decide:
            raise ConsoleError(403, "watch_only", "This device may only watch.")
        return found

    def check_pairing(self, method: str, headers: Mapping[str, str]) -> ConsoleSession | None:
        """Check a call that exchanges a pairing code for a session. Returns the session that the browser has already."""
        token = self.check_call(method, headers)
        cookies = self._cookies(headers)
        if len(cookies) > 1:
            # The browser would go on sending them all, and the new session would not be recognised.
            raise ConsoleError(
                409,
                "many_cookies",
                "The browser has several cookies for the console, and one may be another program's. "
                "Delete the cookies of this site, then pair again.",
            )
        return self.sessions.find(cookies[0], token) if cookies else None

    def cookie_headers(self, headers: Mapping[str, str], value: str | None) -> list[str]:
        """The values of `Set-Cookie` for a session that begins, or that ends if `value` is None.

        Only one of the two names stays in the browser: with both, no session would be recognised.
        """
        plain = self._plain_name(headers)
        origin = _one(headers, "origin")
        is_secure = origin is not None and origin.startswith("https://")
        if value is None or is_secure:
            return [_cookie(plain, None, is_secure=False), _cookie(_SECURE_COOKIE, value, is_secure=True)]
        return [_cookie(plain, value, is_secure=False)]

    def _is_own_origin(self, origin: str, host: HostHeader) -> bool:
        if origin == self._own_origin:
            # Also with a loopback host: a proxy may put that in the place of the name it was called by.
            return True
        return is_loopback(host.name) and origin == f"http://{host.text.lower()}"

    def _plain_name(self, headers: Mapping[str, str]) -> str:
        return f"{_PLAIN_COOKIE}-{self.check_host(headers).port or 80}"

    def _cookies(self, headers: Mapping[str, str]) -> list[str]:
        """Every value that is sent as the console's cookie, under either name."""
        names = (_SECURE_COOKIE, self._plain_name(headers))
        found: list[str] = []
        for header in header_values(headers, "cookie"):
            for pair in header.split(";"):
                name, is_pair, value = pair.strip(" \t").partition("=")
                if is_pair and name in names:
                    found.append(value)
        return found


def _cookie(name: str, value: str | None, *, is_secure: bool) -> str:
    """A cookie of this machine's own browser has no age: browsers do not write such a cookie to their files.

    An agent of the same user could read those. Other devices, which need TLS, have the cookie for longer.
    """
    age = "; Max-Age=0" if value is None else f"; Max-Age={COOKIE_SECONDS}" if is_secure else ""
    secure = "; Secure" if is_secure else ""
    return f"{name}={value or ''}; Path=/{age}; HttpOnly; SameSite=Strict{secure}"


def _host_and_origin(url: str) -> tuple[str, str]:
    """Name and origin of an address, as browsers write them."""
    parts = urlsplit(url)
    name = (parts.hostname or "").lower()
    if not name.isascii():
        import idna  # noqa: PLC0415 - large tables, for the few hosts that need them

        name = idna.encode(name, uts46=True).decode("ascii")
    if ":" in name:
        name = f"[{name}]"
    is_default = parts.port in (None, 443)
    return name, f"{parts.scheme}://{name}" if is_default else f"{parts.scheme}://{name}:{parts.port}"


def _one(headers: Mapping[str, str], name: str) -> str | None:
    values = header_values(headers, name)
    return ", ".join(values) if values else None


def _other_host() -> ConsoleError:
    return ConsoleError(
        403,
        "forbidden_host",
        "The console is not served at this address. Without TLS only this machine can use it: open it at "
        "localhost there. For other devices, put a proxy with TLS before it and set `url` in [console] of the "
        'configuration to its address, for example url = "https://console.example.org". Or use an SSH tunnel: '
        "ssh -N -L PORT:127.0.0.1:PORT YOU@THIS-MACHINE",
    )


def _other_site() -> ConsoleError:
    return ConsoleError(
        403,
        "forbidden_origin",
        "A page of another origin may not use the console. Behind a proxy, set `url` in [console] of the "
        "configuration to the address that the browser shows.",
    )
