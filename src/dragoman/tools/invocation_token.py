"""Invocations that belong together: the calls of one response of a model.

Our form of the editor's invocation token. When the request that the calls serve ends, those under way are cancelled
and later ones do not begin; when a person refuses one, those not yet asked about are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.lm import CancellationError, CancellationSource, CancellationToken

__all__ = ["InvocationToken"]


class InvocationToken:
    def __init__(self, *, skip_rest: bool = True) -> None:
        """`skip_rest` false: a refusal concerns one call only."""
        self._ended = CancellationSource()
        self._skip_rest = skip_rest
        self._refused = False

    def end(self) -> None:
        """End the request: cancel its running invocations, and let none begin."""
        self._ended.cancel()

    def refuse(self) -> None:
        """Note that the user refused a call: the rest is skipped, if that is the rule."""
        self._refused = self._skip_rest

    def check(self) -> None:
        """Whether an invocation may begin: `CancellationError` says why not."""
        self._ended.token.raise_if_cancelled()
        if self._refused:
            raise CancellationError("skipped")

    @contextmanager
    def joined(self, token: CancellationToken) -> Iterator[CancellationToken]:
        """A token that is cancelled when `token` is, or when the request ends."""
        either = CancellationSource()
        forget = [token.on_cancel(either.cancel), self._ended.token.on_cancel(either.cancel)]
        try:
            yield either.token
        finally:
            for each in forget:
                each()
