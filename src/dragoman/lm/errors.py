"""Errors of language models, by kind, each with a hint what to do."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["TRANSIENT_KINDS", "ErrorKind", "ErrorOrigin", "LanguageModelError"]

ErrorKind: TypeAlias = Literal[
    "not_found",
    "no_permissions",
    "blocked",
    "unavailable",
    "bad_request",
    "agent_failed",
    "auth_required",
    "timeout",
    "internal",
]

# The same request may well succeed in a moment.
TRANSIENT_KINDS: frozenset[ErrorKind] = frozenset({"unavailable", "timeout"})


class ErrorOrigin(NamedTuple):
    """An error as a server wrote it. Fields that it did not write are empty."""

    # None: it came in a stream.
    status: int | None = None
    type: str = ""
    code: str = ""
    param: str = ""


class LanguageModelError(Exception):
    """A request failed. The message names the cause, the hint what to do next."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        hint: str | None = None,
        retry_after: float | None = None,
        origin: ErrorOrigin | None = None,
    ) -> None:
        """`origin`: the server's error that this one reports."""
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.hint = hint
        self.retry_after = retry_after
        self.origin = origin

    @property
    def is_transient(self) -> bool:
        return self.kind in TRANSIENT_KINDS

    @property
    def sentence(self) -> str:
        """The cause and the next step as sentences."""
        cause = self.message if self.message.endswith((".", "!", "?", "…")) else f"{self.message}."
        return f"{cause} {self.hint}" if self.hint else cause
