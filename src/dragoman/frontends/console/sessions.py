"""The paired browsers: sessions of the console, in memory only.

A session has two secrets, a cookie and a token, of which only hashes are stored. Sessions are never written to a file: an
agent runs as the same user, and could read or write it. So they end with the process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dragoman.lm import JsonObject

__all__ = [
    "ConsoleRole",
    "ConsoleScope",
    "ConsoleSession",
    "ConsoleSessions",
    "NewSession",
    "session_json",
]

# decide: may answer questions, stop, park, delete, and pair other devices. watch: may look.
ConsoleRole: TypeAlias = Literal["decide", "watch"]

# A session that was not used for so long ends.
_UNUSED_SECONDS = 30 * 24 * 3600.0
_MOST_SESSIONS = 64
_SECRET_BYTES = 32
_ID_BYTES = 9


@dataclass(frozen=True, slots=True)
class ConsoleScope:
    """Which conversations a session sees: all of them, or those of one key."""

    # The name of the key, for people; None: all conversations.
    key: str | None = None
    # The connection under which the key's conversations are stored.
    connection: str | None = None

    @property
    def sees_all(self) -> bool:
        return self.key is None

    def sees(self, connection: str) -> bool:
        return self.sees_all or connection == self.connection


@dataclass(slots=True)
class ConsoleSession:
    id: str
    # The name of the device, as the person who paired it gave it.
    name: str
    role: ConsoleRole
    scope: ConsoleScope
    since: float
    used_at: float

    @property
    def may_decide(self) -> bool:
        return self.role == "decide"


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session with its secrets, which are shown to the browser once."""

    session: ConsoleSession
    cookie: str
    token: str


@dataclass(slots=True)
class _Stored:
    session: ConsoleSession
    cookie: bytes
    token: bytes


@dataclass(slots=True)
class ConsoleSessions:
    """All sessions of this process. `on_change` is called when one begins or ends, `on_end` with each that has ended."""

    now: Callable[[], float] = time.time
    on_change: Callable[[], None] = lambda: None
    on_end: Callable[[ConsoleSession], None] = lambda _session: None
    _by_id: dict[str, _Stored] = field(default_factory=dict)

    def new(self, name: str, role: ConsoleRole, scope: ConsoleScope) -> NewSession:
        """Begin a session. Its secrets are new, whatever the browser sent."""
        cookie, token = secrets.token_urlsafe(_SECRET_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
        now = self.now()
        session = ConsoleSession(secrets.token_urlsafe(_ID_BYTES), name, role, scope, now, now)
        if len(self._by_id) >= _MOST_SESSIONS:
            self.end(min(self._by_id.values(), key=lambda each: each.session.used_at).session.id)
        self._by_id[session.id] = _Stored(session, _hashed(cookie), _hashed(token))
        self.on_change()
        return NewSession(session, cookie, token)

    def find(self, cookie: str, token: str) -> ConsoleSession | None:
        """The session that both secrets belong to. Notes that it is used."""
        given_cookie, given_token = _hashed(cookie), _hashed(token)
        found: _Stored | None = None
        for each in self._by_id.values():
            # Both are compared for each session, so that the time says nothing about either.
            is_cookie = hmac.compare_digest(each.cookie, given_cookie)
            is_token = hmac.compare_digest(each.token, given_token)
            if is_cookie and is_token:
                found = each
        if found is None:
            return None
        session = found.session
        if self.now() - session.used_at > _UNUSED_SECONDS:
            self.end(session.id)
            return None
        session.used_at = self.now()
        return session

    def all(self) -> tuple[ConsoleSession, ...]:
        return tuple(each.session for each in self._by_id.values())

    def end(self, id_: str) -> bool:
        """End a session. False if there is none of this id."""
        ended = self._by_id.pop(id_, None)
        if ended is None:
            return False
        self.on_end(ended.session)
        self.on_change()
        return True


def session_json(session: ConsoleSession, own: ConsoleSession) -> JsonObject:
    """A session as the page shows it to the session `own`."""
    return {
        "id": session.id,
        "name": session.name,
        "role": session.role,
        "key": session.scope.key,
        "paired_at": session.since,
        "seen_at": session.used_at,
        "is_self": session is own,
    }


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
