"""One line of a trace: a message, who sent it, and when.

    {"t": 0.301, "dir": "c2a", "msg": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {…}}, "conn": "claude 7.1"}

`t` is in seconds since the recording began. `dir` is `c2a`, from the client to the agent, or `a2c`. `conn` tells the
connections of one file apart; a trace of a single one may leave it out. A line of the wire that is no JSON object has
`text` instead of `msg`. Fields that are not known are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from dragoman.jsonrpc import Decoder
from dragoman.lm import JsonObject
from dragoman.regular_file import read_regular

__all__ = ["Direction", "Frame", "TraceError", "connections", "encode_frame", "parse_trace", "read_trace"]

# A day of an agent that talks without pause. Recordings are read whole.
MAX_TRACE_BYTES = 1024 * 1024 * 1024

Direction: TypeAlias = Literal["c2a", "a2c"]


class TraceError(Exception):
    """A file that is no trace, or none that could be played."""


class Frame(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"at": "t", "direction": "dir", "message": "msg", "connection": "conn"},
):
    at: float
    direction: Direction
    message: JsonObject | None = None
    connection: str = ""
    text: str = ""

    @property
    def is_request(self) -> bool:
        return self.method is not None and "id" in (self.message or {})

    @property
    def is_reply(self) -> bool:
        return self.message is not None and "method" not in self.message

    @property
    def method(self) -> str | None:
        method = (self.message or {}).get("method")
        return method if isinstance(method, str) else None


_frame = Decoder(Frame)


def encode_frame(frame: Frame) -> bytes:
    """Its line. Halves of characters stay what they are, as escapes: how an agent cuts its text is worth keeping."""
    try:
        line = msgspec.json.encode(frame)
    except UnicodeEncodeError:
        line = json.dumps(msgspec.to_builtins(frame), separators=(",", ":")).encode()
    return line + b"\n"


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
