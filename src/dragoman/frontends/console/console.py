"""The console of one server: its sessions, its pairing codes, its address, and the inbox it is for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from dragoman.config import ConsoleConfig
from dragoman.frontends.console.access import ConsoleAccess
from dragoman.frontends.console.pairing import NewCode, Pairing, PairingCodes
from dragoman.frontends.console.sessions import (
    ConsoleRole,
    ConsoleScope,
    ConsoleSession,
    ConsoleSessions,
    NewSession,
)
from dragoman.loopback import is_loopback
from dragoman.permissions.inbox import Inbox

__all__ = ["Console", "ConsoleKey"]

_log = logging.getLogger(__name__)

# Longer names are cut: they stand in a list, and beside each decision.
_NAME_LENGTH = 60
_NAMELESS = "a browser"
_OPEN_IT = "No person is at the console. Open {address}, pair the browser, and try again."
_NEEDS_TLS = (
    "No browser can use the console here: this address is not of this machine and has no TLS. Set `url` in "
    "[console] of the server's configuration."
)


@dataclass(frozen=True, slots=True)
class ConsoleKey:
    """An API key by its name, and the connection under which its conversations are stored."""

    name: str
    connection: str
    # Of an administrator: its sessions see the conversations of all keys.
    sees_all: bool = False
    # None: all models.
    models: frozenset[str] | None = None


@dataclass(slots=True)
class Console:
    """All that the console's routes share. Making one connects it to the inbox."""

    config: ConsoleConfig
    keys: Sequence[ConsoleKey]
    inbox: Inbox
    # The server's address as seen from this machine: `http://127.0.0.1:8427/`.
    local_address: str
    sessions: ConsoleSessions = field(default_factory=ConsoleSessions)
    codes: PairingCodes = field(default_factory=PairingCodes)
    # Called with each session that a pairing code was exchanged for, and with each that has ended.
    on_paired: Callable[[ConsoleSession], None] = lambda _session: None
    on_ended: Callable[[ConsoleSession], None] = lambda _session: None
    access: ConsoleAccess = field(init=False)

    def __post_init__(self) -> None:
        self.access = ConsoleAccess(self.sessions, self.config.url)
        self.inbox.address = self.address if self.is_open else ""
        self.inbox.advice = _OPEN_IT.format(address=self.address) if self.is_open else _NEEDS_TLS
        self.inbox.question_seconds = self.config.decide_minutes * 60
        self.inbox.is_reachable = self.is_reachable
        self.sessions.on_end = self._ended

    @property
    def address(self) -> str:
        """The address for people, with a slash at its end."""
        return self.local_address if self.config.url is None else self.config.url.rstrip("/") + "/"

    @property
    def is_open(self) -> bool:
        """Whether a browser can use the console at its address: one of this machine, or one with TLS."""
        return self.config.url is not None or is_loopback(urlsplit(self.local_address).hostname or "")

    def link(self, code: NewCode) -> str:
        """An address that fills the code in. What follows `#` is sent to no server and is in no log of a proxy."""
        return f"{self.address}#pair={code.text}"

    def is_reachable(self, connection: str) -> bool:
        """Whether a person can be reached who may decide about this connection's conversations."""
        return self.is_open and (self.config.webhook is not None or self.sessions.is_reachable(connection))

    def scope(self, key: str | None) -> ConsoleScope | None:
        """What a holder of the key with this name sees; without a key, everything. None if there is no such key."""
        if key is None:
            return ConsoleScope()
        found = next((each for each in self.keys if each.name == key), None)
        if found is None:
            return None
        return ConsoleScope() if found.sees_all else ConsoleScope(found.name, found.connection)

    def new_code(self, role: ConsoleRole, scope: ConsoleScope, maker: str | None = None) -> NewCode:
        """Make a code. `maker` is the id of the session that wants it; without one, it is for the server's terminal."""
        return self.codes.new(Pairing(role, scope, maker))

    def pair(self, code: str, name: str) -> NewSession:
        """Exchange a code for a session. Raises `WrongCode` or `TooManyAttempts`."""
        pairing = self.codes.take(code)
        # Characters without a mark of their own are left out: a name is shown in many places.
        shown = "".join(each for each in name if each.isprintable())[:_NAME_LENGTH].strip() or _NAMELESS
        new = self.sessions.new(shown, pairing.role, pairing.scope)
        _log.info("paired: %s (%s)", shown, pairing.role)
        self.on_paired(new.session)
        return new

    def _ended(self, session: ConsoleSession) -> None:
        self.codes.end_codes_of(session.id)
        self.on_ended(session)

    def revoke_all(self) -> int:
        """End every session and every code. Returns how many sessions there were."""
        ended = self.sessions.all()
        for session in ended:
            self.sessions.end(session.id)
        self.codes.clear()
        return len(ended)
