"""Sends log records to the editor, for its own log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dragoman.jsonrpc import ConnectionClosed, Peer
from dragoman.logs import one_line

__all__ = ["logging_to_editor", "set_level"]

_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning"}


@contextmanager
def logging_to_editor(peer: Peer, redacted: Callable[[str], str]) -> Iterator[None]:
    """Send every log record of the block to the editor as well."""
    handler = _ToEditor(peer, redacted)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def set_level(level: str) -> None:
    """Log records of this level and above from now on: to the editor, and to standard error or the file."""
    logging.getLogger().setLevel(level.upper())


class _ToEditor(logging.Handler):
    def __init__(self, peer: Peer, redacted: Callable[[str], str]) -> None:
        super().__init__()
        self._peer = peer
        self._redacted = redacted
        # Sending a record may log another one, which is not sent.
        self._is_sending = False

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_sending:
            return
        self._is_sending = True
        try:
            message = self._redacted(one_line(record.getMessage()))
            # An editor that is gone needs no log.
            with suppress(ConnectionClosed):
                self._peer.notify("log", {"level": _LEVELS.get(record.levelno, "error"), "message": message})
        except Exception:
            self.handleError(record)
        finally:
            self._is_sending = False
