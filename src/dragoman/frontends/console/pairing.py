"""Pairing codes: what a person types into a browser to make it a session of the console.

A code is valid for two minutes and once. Memory has only a hash of it, with a salt of this process. Attempts are limited,
right ones and wrong ones alike: a limit that a right code could pass would not slow a guesser down. With 40 bits, two
attempts per second and four codes at most, a guess within two minutes has a chance of one in a thousand million.

There is no I/O here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dragoman.frontends.console.sessions import ConsoleRole, ConsoleScope

__all__ = [
    "ALPHABET",
    "ATTEMPTS_AT_ONCE",
    "ATTEMPTS_PER_SECOND",
    "CODE_SECONDS",
    "MOST_CODES",
    "NewCode",
    "Pairing",
    "PairingCodes",
    "TooManyAttempts",
    "WrongCode",
]

# No 0 and O, no 1 and I: a person reads the code from one screen and types it at another.
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
CODE_SECONDS = 120.0
# One for this person, some for other devices. A further one takes the place of the oldest.
MOST_CODES = 4
# A person mistypes a few times. More comes from a program.
ATTEMPTS_AT_ONCE = 20
ATTEMPTS_PER_SECOND = 2.0

_LENGTH = 8
# Blanks and dashes, also those that a telephone's keyboard puts in their place.
_IGNORED = dict.fromkeys(map(ord, " \t\r\n\u00a0\u202f-\u2010\u2011\u2012\u2013\u2014\u2212"))
_SALT_BYTES = 32
# What a longer text would cost to read.
_LONGEST = 64


class WrongCode(Exception):
    """No such code is valid: it is mistyped, used, or too old."""


class TooManyAttempts(Exception):
    """Too many codes were tried. `seconds` says when the next attempt is possible."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too many attempts")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Pairing:
    """What the session that a code is exchanged for may do."""

    role: ConsoleRole
    scope: ConsoleScope
    # The id of the session that made the code; None: it was made in the server's terminal.
    maker: str | None = None


@dataclass(frozen=True, slots=True)
class NewCode:
    """A code, which is shown to a person once."""

    # With the dash: `K7QF-3MPT`.
    text: str
    pairing: Pairing
    seconds: float = CODE_SECONDS

    def __repr__(self) -> str:
        """Without the code: a log must not have it."""
        return f"NewCode(pairing={self.pairing!r})"


@dataclass(frozen=True, slots=True)
class _Outstanding:
    digest: bytes
    pairing: Pairing
    expires_at: float


@dataclass(slots=True)
class PairingCodes:
    """The codes of this process that are valid now."""

    # A clock that only goes forward: setting the time of day must not make a code valid for longer.
    now: Callable[[], float] = time.monotonic
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(_SALT_BYTES), repr=False)
    _outstanding: list[_Outstanding] = field(default_factory=list, repr=False)
    # Attempts that are possible at once, as of `_counted_at`.
    _attempts: float = ATTEMPTS_AT_ONCE
    _counted_at: float | None = None

    def __len__(self) -> int:
        self._drop_expired()
        return len(self._outstanding)

    def new(self, pairing: Pairing) -> NewCode:
        """Make a code. If there are too many already, the oldest ends."""
        self._drop_expired()
        del self._outstanding[: max(0, len(self._outstanding) - MOST_CODES + 1)]
        code = "".join(secrets.choice(ALPHABET) for _ in range(_LENGTH))
        self._outstanding.append(_Outstanding(self._digest(code), pairing, self.now() + CODE_SECONDS))
        return NewCode(f"{code[:4]}-{code[4:]}", pairing)

    def take(self, given: str) -> Pairing:
        """Use a code up. Raises `WrongCode` or `TooManyAttempts`."""
        self._count_attempt()
        self._drop_expired()
        digest = self._digest(given[:_LONGEST].translate(_IGNORED).upper())
        # All are compared, so that the time says nothing about any.
        matches = [hmac.compare_digest(each.digest, digest) for each in self._outstanding]
        for index, is_match in enumerate(matches):
            if is_match:
                return self._outstanding.pop(index).pairing
        raise WrongCode

    def end_codes_of(self, maker: str) -> None:
        """The codes of a session that has ended are not valid any longer."""
        self._outstanding = [each for each in self._outstanding if each.pairing.maker != maker]

    def clear(self) -> None:
        """No code is valid any longer."""
        self._outstanding.clear()

    def _count_attempt(self) -> None:
        now = self.now()
        passed = 0.0 if self._counted_at is None else max(0.0, now - self._counted_at)
        self._attempts = min(ATTEMPTS_AT_ONCE, self._attempts + passed * ATTEMPTS_PER_SECOND)
        self._counted_at = now
        if self._attempts < 1:
            raise TooManyAttempts((1 - self._attempts) / ATTEMPTS_PER_SECOND)
        self._attempts -= 1

    def _drop_expired(self) -> None:
        now = self.now()
        self._outstanding = [each for each in self._outstanding if now < each.expires_at]

    def _digest(self, code: str) -> bytes:
        return hashlib.blake2b(code.encode("utf-8", "surrogatepass"), key=self._salt).digest()
