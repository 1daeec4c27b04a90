"""Records the messages to and from agents while a command runs: `--record FILE`.

There is one recording in a process, as there is one log. Code that connects to an agent calls `watch`, and gets None
when nothing is recorded; from then on a connection without one costs nothing.

Every frame is written at once, by one system call: the file has all messages of a process that is killed, and several
processes may write to the same file. A file that cannot be written, or has grown too large, ends only the recording.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec

from dragoman.cleaning import Cleaning
from dragoman.jsonrpc import Watch
from dragoman.jsonrpc.text import loads_tolerantly
from dragoman.logs import Redaction, open_private
from dragoman.traces.frames import Direction, Frame, encode_frame

__all__ = ["MAX_BYTES", "Recording", "recording_to", "watch"]

_log = logging.getLogger(__name__)

# Days of talk, or an hour of an agent that sends all of a long output again with every line of it.
MAX_BYTES = 512 * 1024 * 1024

_DIRECTIONS: Mapping[str, Direction] = {"out": "c2a", "in": "a2c"}
_recording: Recording | None = None


class Recording:
    """A recording. `write` takes a whole line; an `OSError` from it ends the recording."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        redaction: Redaction,
        *,
        now: Callable[[], float] = time.monotonic,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._write: Callable[[bytes], object] | None = write
        self._cleaning = Cleaning(redaction)
        self._now = now
        self._began = now()
        self._room = max_bytes
        self._numbers = count(1)

    def watch(self, name: str, environment: Mapping[str, str]) -> Watch:
        """The watch for one connection to an agent, which has this environment."""
        self._cleaning.add_environment(environment)
        # The process is in it, because runs follow each other in a file.
        connection = f"{name} {os.getpid()}.{next(self._numbers)}"
        return lambda way, line: self._note(connection, _DIRECTIONS[way], line)

    def _note(self, connection: str, direction: Direction, line: bytes) -> None:
        if self._write is None:
            return
        frame = encode_frame(self._frame(connection, direction, line))
        if len(frame) > self._room:
            self._end("it has grown too large")
            return
        try:
            self._write(frame)
        except OSError as error:
            self._end(error.strerror or str(error))
        else:
            self._room -= len(frame)

    def _frame(self, connection: str, direction: Direction, line: bytes) -> Frame:
        at = round(self._now() - self._began, 6)
        try:
            message = loads_tolerantly(line)
            if isinstance(message, dict):
                return Frame(at, direction, self._cleaning.message(message), connection)
        except (msgspec.DecodeError, RecursionError):
            # No JSON, or nested too deep.
            pass
        text = line.decode(errors="backslashreplace").rstrip("\r\n")
        return Frame(at, direction, None, connection, self._cleaning.text(text))

    def _end(self, reason: str) -> None:
        self._write = None
        _log.warning("nothing more is recorded: %s", reason)


@contextmanager
def recording_to(path: Path, redaction: Redaction) -> Iterator[None]:
    """Record in this block, appending to the file. OSError if it cannot be opened."""
    global _recording  # noqa: PLW0603 - one for the process, like its log
    descriptor = open_private(path)
    before, _recording = _recording, Recording(lambda line: _write_all(descriptor, line), redaction)
    try:
        yield
    finally:
        _recording = before
        os.close(descriptor)


def watch(name: str, environment: Mapping[str, str]) -> Watch | None:
    """The function that receives the lines of a new connection to an agent; None if nothing is recorded."""
    return None if _recording is None else _recording.watch(name, environment)


def _write_all(descriptor: int, line: bytes) -> None:
    while line:
        line = line[os.write(descriptor, line) :]
