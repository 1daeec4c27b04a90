"""Logs: one line for each record, to standard error or to a file that only its owner can read.

Quiet unless asked. Standard error is read by people, so a traceback appears there only at the level debug; the file
always has it. Values that the configuration calls secret are taken out of every record, also out of tracebacks.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from dragoman.visible import hides

__all__ = [
    "DEFAULT_LEVEL",
    "LEVELS",
    "LEVEL_VARIABLE",
    "REDACTED",
    "Redaction",
    "logging_to",
    "one_line",
    "open_private",
]

LEVELS = ("error", "warning", "info", "debug")
DEFAULT_LEVEL = "warning"
LEVEL_VARIABLE = "DRAGOMAN_LOG"

_PRIVATE_FILE = 0o600
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What is shorter guards nothing, and taking every "1" or "true" out of a log leaves none.
_SHORTEST_SECRET = 6
# What stands in the place of a secret.
REDACTED = "[redacted]"


class Redaction:
    """Takes secrets out of text."""

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] = ()

    def add(self, secrets: Iterable[str]) -> None:
        secrets = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
        # A key of several lines is logged on one, and inside other values as Python writes it.
        known = {
            *self._secrets,
            *secrets,
            *map(one_line, secrets),
            *(repr(secret)[1:-1] for secret in secrets),
        }
        # The longest first: a secret may contain another.
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def redacted(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text


@contextmanager
def logging_to(file: Path | None, level: str) -> Iterator[Redaction]:
    """Log to `file`, or to standard error, in this block. OSError if it cannot be written."""
    redaction = Redaction()
    handler = _ToStandardError() if file is None else _ToPrivateFile(file)
    handler.setFormatter(_OneLine(redaction, with_traceback=file is not None or level == "debug"))
    root = logging.getLogger()
    before = root.level, logging.raiseExceptions
    root.addHandler(handler)
    root.setLevel(level.upper())
    # A record that cannot be formatted is our mistake and not for a user to see.
    logging.raiseExceptions = level == "debug"
    try:
        yield redaction
    finally:
        root.removeHandler(handler)
        root.setLevel(before[0])
        logging.raiseExceptions = before[1]
        handler.close()


class _OneLine(logging.Formatter):
    """Line breaks in a message are shown as such, and so is whatever a terminal would obey.

    Secrets go last, out of the finished text: whatever a record is made of, they are not in it.
    """

    def __init__(self, redaction: Redaction, *, with_traceback: bool) -> None:
        super().__init__(_FORMAT)
        self._redaction = redaction
        self._with_traceback = with_traceback

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        line = one_line(self.formatMessage(record))
        if record.exc_info:
            kind, error, _ = record.exc_info
            if self._with_traceback:
                # Here already: a secret of several lines would no longer be found.
                traceback = self._redaction.redacted(self.formatException(record.exc_info)).split("\n")
                line = "\n  ".join([line, *map(one_line, traceback)])
            elif kind is not None:
                line += one_line(f" ({kind.__name__}: {error})")
        return self._redaction.redacted(line)


class _ToStandardError(logging.Handler):
    """A handler for the current `sys.stderr`, which a prompt on the screen may replace."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201 - this is where logs go
        except Exception:
            self.handleError(record)


class _ToPrivateFile(logging.FileHandler):
    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> TextIOWrapper:
        descriptor = open_private(self.baseFilename)
        return os.fdopen(descriptor, "w", encoding=self.encoding, errors=self.errors)


def open_private(path: str | Path) -> int:
    """A file to append to, as a descriptor, that only its owner can read. OSError if it cannot be written."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(path, flags, _PRIVATE_FILE)
    # One that was there before is closed to others too; a terminal or a pipe is not ours to change.
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, _PRIVATE_FILE)
    return descriptor


def one_line(text: str) -> str:
    """`text` on one line, with nothing in it that acts or hides: that is shown as in a Python string."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode() if hides(c) else c for c in text)
