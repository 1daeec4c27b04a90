"""Reads a trace: its frames, and those of each connection."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dragoman.jsonrpc import Decoder
from dragoman.regular_file import read_regular
from dragoman.traces.frames import Frame

__all__ = ["TraceError", "connections", "is_reply", "is_request", "method_of", "parse_trace", "read_trace"]

# A day of an agent that talks without pause. Recordings are read whole.
MAX_TRACE_BYTES = 1024 * 1024 * 1024

_frame = Decoder(Frame)


class TraceError(Exception):
    """A file that is no trace, or none that could be played."""


def parse_trace(data: bytes, name: str = "trace") -> tuple[Frame, ...]:
    """The frames of a file. A last line without its end was being written when the writer was killed: it is left out."""
    frames = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        if not line.strip():
            continue
        try:
            frames.append(_frame.decode(line))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise TraceError(f"{name}:{number}: this is no frame: {error}") from error
    return tuple(frames)


def read_trace(path: Path) -> tuple[Frame, ...]:
    """Raises `TraceError`, also when it cannot be read."""
    try:
        return parse_trace(read_regular(path, MAX_TRACE_BYTES), path.name)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error


def connections(frames: Iterable[Frame]) -> dict[str, tuple[Frame, ...]]:
    """The frames of each connection, in the order in which these began."""
    found: dict[str, list[Frame]] = {}
    for frame in frames:
        found.setdefault(frame.connection, []).append(frame)
    return {name: tuple(each) for name, each in found.items()}


def is_request(frame: Frame) -> bool:
    return method_of(frame) is not None and "id" in (frame.message or {})


def is_reply(frame: Frame) -> bool:
    return frame.message is not None and "method" not in frame.message


def method_of(frame: Frame) -> str | None:
    method = (frame.message or {}).get("method")
    return method if isinstance(method, str) else None
