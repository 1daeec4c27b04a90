"""An incoming request that waits for our response."""

from __future__ import annotations

import logging
from collections.abc import Callable

from dragoman.jsonrpc.messages import ErrorObject, RequestId, RpcRequest, encode_error, encode_response
from dragoman.lm.cancellation import CancellationSource, CancellationToken

__all__ = ["Incoming"]

_log = logging.getLogger(__name__)


class Incoming:
    """An incoming request, to be answered exactly once, with `reply` or `fail`, at any time.

    `token` is cancelled when the other side withdraws the request, or is gone. Even then the request is answered: ACP
    has every cancelled request end with a result or with the error -32800.
    """

    def __init__(self, request: RpcRequest, send: Callable[[Incoming, bytes], None]) -> None:
        self._request = request
        self._send = send
        self._source = CancellationSource()
        self._answered = False

    @property
    def id(self) -> RequestId:
        return self._request.id

    @property
    def method(self) -> str:
        return self._request.method

    @property
    def params(self) -> bytes:
        """The parameters as JSON; an empty object if there were none."""
        return self._request.params

    @property
    def token(self) -> CancellationToken:
        return self._source.token

    @property
    def answered(self) -> bool:
        return self._answered

    def reply(self, result: object = None) -> None:
        self._answer(encode_response(self.id, result))

    def fail(self, code: int, message: str, data: object = None) -> None:
        self._answer(encode_error(self.id, ErrorObject(code, message, data)))

    def cancel(self) -> None:
        """Cancel the token. The peer calls this when the request is withdrawn."""
        self._source.cancel()

    def _answer(self, line: bytes) -> None:
        if self._answered:
            _log.error("request %r (%s) was answered a second time; ignored", self.id, self.method)
            return
        self._answered = True
        self._send(self, line)

    def __repr__(self) -> str:
        return f"<Incoming {self.id!r} {self.method}>"
