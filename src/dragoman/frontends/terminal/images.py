"""Pictures, in terminals that can show them.

Two ways to send one: kitty's graphics protocol, which takes PNG as it is, and iTerm2's inline files, which take what
the terminal can decode. The environment says which of them a terminal knows, because asking it would mean
reading its answer from among what the person types.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Literal, TypeAlias

from dragoman.lm import DataPart

__all__ = ["Protocol", "picture", "protocol_of"]

Protocol: TypeAlias = Literal["kitty", "iterm2"]

# A picture travels through the terminal's input parser; more than this makes it stutter.
_LARGEST = 4 * 1024 * 1024
# kitty's own limit for one piece of a transmission.
_PIECE = 4096
# Wide enough to see, narrow enough to leave the conversation in view.
_COLUMNS = 60
# About the width of a cell: a small picture is not blown up.
_PIXELS_A_COLUMN = 8

_PNG = b"\x89PNG\r\n\x1a\n"
_ITERM2_TYPES = frozenset({"image/png", "image/jpeg", "image/gif"})


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """How pictures are sent to the terminal with this environment, if at all."""
    if "TMUX" in environment or environment.get("TERM", "").startswith(("screen", "tmux")):
        # A multiplexer is between us and the terminal, and does not pass pictures on by itself.
        return None
    if environment.get("TERM_PROGRAM") in {"iTerm.app", "WezTerm"}:
        return "iterm2"
    if (
        environment.get("TERM") in {"xterm-kitty", "xterm-ghostty"}
        or environment.get("TERM_PROGRAM") == "ghostty"
        or "KITTY_WINDOW_ID" in environment
        or "KONSOLE_VERSION" in environment
    ):
        return "kitty"
    return None


def picture(part: DataPart, protocol: Protocol, *, width: int) -> str | None:
    """What to send to the terminal to show an image; None if it should not or cannot be shown."""
    if not part.mime_type.startswith("image/") or not 0 < len(part.data) <= _LARGEST:
        return None
    columns = max(1, min(_COLUMNS, width - 2, _columns(part.data)))
    if protocol == "kitty":
        return _kitty(part.data, columns) if part.data.startswith(_PNG) else None
    return _iterm2(part.data, columns) if part.mime_type in _ITERM2_TYPES else None


def _columns(data: bytes) -> int:
    """How many columns a PNG takes at its own size; as many as there may be, for other kinds."""
    if not data.startswith(_PNG):
        return _COLUMNS
    return -(-int.from_bytes(data[16:20]) // _PIXELS_A_COLUMN)


def _kitty(data: bytes, columns: int) -> str:
    text = base64.b64encode(data).decode()
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    sequence: list[str] = []
    for index, piece in enumerate(pieces):
        # q=2: no answer, which would arrive as if it had been typed.
        control = f"a=T,f=100,q=2,c={columns}," if index == 0 else ""
        more = int(index < len(pieces) - 1)
        sequence.append(f"\x1b_G{control}m={more};{piece}\x1b\\")
    return "".join(sequence)


def _iterm2(data: bytes, columns: int) -> str:
    text = base64.b64encode(data).decode()
    return f"\x1b]1337;File=inline=1;size={len(data)};width={columns};preserveAspectRatio=1:{text}\x07"
