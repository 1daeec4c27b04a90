"""Messages to the address of `[console] webhook`: that a question waits, and that it has ended.

A message says what is needed to find the question, and nothing of what the agent wants, unless `webhook_content` is set. It
is signed: `x-dragoman-signature: t=SECONDS,v1=HEX` has the HMAC-SHA-256 of `SECONDS.BODY` with `webhook_secret`. The time is
that of the attempt, so a receiver can refuse old messages. `x-dragoman-delivery` is the same for all attempts.

Messages are sent one after the other, in order. The request goes to the address itself: no redirection is followed, and
neither the proxies nor the `.netrc` of the environment are used, because they would carry the message elsewhere. The path
of the address may be a secret, so no log has it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dragoman import __version__
from dragoman.lm import JsonObject
from dragoman.lm.json import encode
from dragoman.permissions.inbox import InboxOutcome, InboxQuestion
from dragoman.permissions.layout import in_short, on_one_line
from dragoman.permissions.question import question_about

if TYPE_CHECKING:
    import httpx2

__all__ = ["Webhook", "signature"]

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
# Before the second and the third attempt.
_PAUSES = (1.0, 5.0)
_MOST_WAITING = 100
# Other answers will not change: the address is wrong, or the receiver refuses the message.
_WORTH_A_RETRY = frozenset({408, 425, 429})
_SERVER_ERROR = 500
_LONGEST = 400
_MOST_PATHS = 10
_ID_BYTES = 12


def signature(secret: str, body: bytes, at: int) -> str:
    """The value of the header that proves who sent a message."""
    digest = hmac.new(secret.encode("utf-8", "surrogatepass"), b"%d.%s" % (at, body), hashlib.sha256)
    return f"t={at},v1={digest.hexdigest()}"


class Webhook:
    """Sends messages about questions. It works in a task of its own, from the first message until `close`."""

    def __init__(
        self,
        url: str,
        secret: str,
        address: str,
        *,
        has_content: bool = False,
        now: Callable[[], float] = time.time,
        pauses: tuple[float, ...] = _PAUSES,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        """`address` is that of the console, for people."""
        self._url = url
        self._host = urlsplit(url).hostname or ""
        self._secret = secret
        self._address = address
        self._has_content = has_content
        self._now = now
        self._pauses = pauses
        self._timeout_seconds = timeout_seconds
        self._waiting: asyncio.Queue[JsonObject] = asyncio.Queue(_MOST_WAITING)
        self._sending: asyncio.Task[None] | None = None

    def asked(self, question: InboxQuestion) -> None:
        """A question waits."""
        message = self._about("question.asked", question)
        message |= {"asked_at": question.asked_at, "expires_at": question.expires_at}
        if self._has_content:
            action = question.action
            message["title"] = question_about(action, question.ask).title
            message["command"] = None if action.command is None else in_short(action.command, _LONGEST)
            message["paths"] = [in_short(path, _LONGEST) for path in action.paths[:_MOST_PATHS]]
            message["folder"] = on_one_line(action.folder)
        self._add(message)

    def closed(self, question: InboxQuestion, outcome: InboxOutcome) -> None:
        """A question has ended."""
        self._add(self._about("question.closed", question) | {"state": outcome.state, "at": outcome.at})

    async def close(self) -> None:
        """Send nothing more."""
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            await asyncio.wait({sending})

    def _about(self, kind: str, question: InboxQuestion) -> JsonObject:
        return {
            "type": kind,
            "id": question.id,
            "address": self._address,
            "model": question.action.agent,
            "conversation": question.conversation,
        }

    def _add(self, message: JsonObject) -> None:
        try:
            self._waiting.put_nowait(message)
        except asyncio.QueueFull:
            _log.warning(
                "a message to the webhook at %s is dropped: %d wait already", self._host, _MOST_WAITING
            )
            return
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        import httpx2  # noqa: PLC0415 - takes a while to import, and few have a webhook

        # The transport alone: a client would log the address, and look into the environment.
        async with httpx2.AsyncHTTPTransport(trust_env=False) as transport:
            while True:
                message = await self._waiting.get()
                try:
                    await self._deliver(transport, encode(message))
                except Exception as error:
                    # The words of an error may have the address in them.
                    _log.error("a message to the webhook at %s failed: %s", self._host, type(error).__name__)

    async def _deliver(self, transport: httpx2.AsyncHTTPTransport, body: bytes) -> None:
        delivery = secrets.token_hex(_ID_BYTES)
        trouble = ""
        for pause in (0.0, *self._pauses):
            await asyncio.sleep(pause)
            is_final, trouble = await self._attempt(transport, body, delivery)
            if is_final:
                break
        if trouble:
            _log.warning("the webhook at %s did not take a message: %s", self._host, trouble)

    async def _attempt(
        self, transport: httpx2.AsyncHTTPTransport, body: bytes, delivery: str
    ) -> tuple[bool, str]:
        """Send a message once. Returns whether another attempt is of no use, and what went wrong."""
        import httpx2  # noqa: PLC0415 - as above

        headers = {
            "content-type": "application/json",
            "user-agent": f"dragoman/{__version__}",
            "x-dragoman-delivery": delivery,
            "x-dragoman-signature": signature(self._secret, body, int(self._now())),
        }
        request = httpx2.Request("POST", self._url, headers=headers, content=body)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await transport.handle_async_request(request)
                await response.aclose()
        except TimeoutError:
            return False, f"no answer within {self._timeout_seconds:g} seconds"
        except httpx2.TransportError as error:
            return False, type(error).__name__
        status = response.status_code
        if response.is_success:
            return True, ""
        return status < _SERVER_ERROR and status not in _WORTH_A_RETRY, f"HTTP status {status}"
