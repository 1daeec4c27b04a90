"""Errors of language models, by kind, each with a hint what to do."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["ASK_OPERATOR", "TRANSIENT_KINDS", "ErrorKind", "ErrorOrigin", "LanguageModelError"]

ErrorKind: TypeAlias = Literal[
    "not_found",
    "no_permissions",
    "blocked",
    "rate_limited",
    "unavailable",
    "bad_request",
    "agent_failed",
    "auth_required",
    "timeout",
    "internal",
]

# The same request may well succeed in a moment.
TRANSIENT_KINDS: frozenset[ErrorKind] = frozenset({"unavailable", "timeout"})


# The next step of a public sentence: only the operator sees the rest.
ASK_OPERATOR = "Try again; if it stays so, ask the operator of this server."


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
        public: str | None = None,
    ) -> None:
        """`origin`: the server's error that this one reports.

        `public`: the sentence for a consumer that may not learn where the operator's files are. None: it has none of them.
        """
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.hint = hint
        self.retry_after = retry_after
        self.origin = origin
        self.public = public

    @property
    def is_transient(self) -> bool:
        # An endpoint's rate limit may end in a moment. An agent has retried long enough before it reports one.
        return self.kind in TRANSIENT_KINDS or (self.kind == "rate_limited" and self.origin is not None)

    @property
    def sentence(self) -> str:
        """The cause and the next step as sentences."""
        cause = self.message if self.message.endswith((".", "!", "?", "…")) else f"{self.message}."
        return f"{cause} {self.hint}" if self.hint else cause

    def sentence_for(self, *, sees_paths: bool) -> str:
        """The sentence for a consumer, by its `sees_paths`."""
        return self.sentence if sees_paths or self.public is None else self.public
