"""One line of a trace: a message, who sent it, and when.

    {"t": 0.301, "dir": "c2a", "msg": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {…}}, "conn": "claude 7.1"}

`t` is in seconds since the recording began. `dir` is `c2a`, from the client to the agent, or `a2c`. `conn` tells the
connections of one file apart; a trace of a single one may leave it out. A line of the wire that is no JSON object has
`text` instead of `msg`. Fields that are not known are ignored.
"""

from __future__ import annotations

import json
from typing import Literal, TypeAlias

import msgspec

from dragoman.lm import JsonObject

__all__ = ["Direction", "Frame", "encode_frame"]

Direction: TypeAlias = Literal["c2a", "a2c"]


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


def encode_frame(frame: Frame) -> bytes:
    """Its line. Halves of characters stay what they are, as escapes: how an agent cuts its text is worth keeping."""
    try:
        line = msgspec.json.encode(frame)
    except UnicodeEncodeError:
        line = json.dumps(msgspec.to_builtins(frame), separators=(",", ":")).encode()
    return line + b"\n"
