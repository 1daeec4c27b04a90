"""Checks the schemas that clients send. A check ends with its request, and with the server."""

from __future__ import annotations

import asyncio

from dragoman.forms.checking import schema_fault
from dragoman.forms.turns import TooManyWait
from dragoman.frontends.http.errors import ApiError
from dragoman.lm import AnswerForm

__all__ = ["SchemaChecks"]

# Of one key. A client that sends more at once can wait itself.
_MOST_WAITING = 16


class SchemaChecks:
    """The checks that run now."""

    def __init__(self) -> None:
        self._checks: set[asyncio.Task[str | None]] = set()
        self._has_ended = False

    async def fault(self, form: AnswerForm, connection: str) -> str | None:
        """What is wrong with the schema of a form; None if it can be used. Raise `ApiError` if it is not checked."""
        check = asyncio.create_task(schema_fault(form, connection, most_waiting=_MOST_WAITING))
        self._checks.add(check)
        if self._has_ended:
            check.cancel()
        try:
            await asyncio.wait({check})
        finally:
            check.cancel()
            # It ends its process first.
            await asyncio.wait({check})
            self._checks.discard(check)
        if check.cancelled():
            raise ApiError(503, "server_error", "The server is stopping. Try again later.", retry_after=1)
        try:
            return check.result()
        except TooManyWait:
            raise ApiError(
                429,
                "too_many_requests",
                f"{_MOST_WAITING} schemas of this key wait for their check already. Try again later.",
                retry_after=1,
            ) from None

    def end(self) -> None:
        """End all checks, because the server stops."""
        self._has_ended = True
        for check in self._checks:
            check.cancel()
