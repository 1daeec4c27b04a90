"""JSON values as the rest of the package sees them.

An object that came from outside is `JsonObject`: its values are `object`, so that nobody uses one without
looking at what it is.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from dragoman.lm.nesting import MOST_LEVELS, check_levels

__all__ = ["JsonObject", "canonical", "decode", "encode", "encode_text", "pretty", "without_orphans"]

JsonObject: TypeAlias = dict[str, object]

_encoder = msgspec.json.Encoder()
_sorting = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()
# The escapes of a JSON text, one by one, a surrogate pair as one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_ORPHAN = re.compile("[\ud800-\udfff]")


def encode(value: object) -> bytes:
    """One JSON value, without spaces or line breaks."""
    return _encoded(_encoder, value)


def encode_text(value: object) -> str:
    return encode(value).decode()


def _encoded(encoder: msgspec.json.Encoder, value: object) -> bytes:
    try:
        return encoder.encode(value)
    except UnicodeEncodeError:
        # The name of a file that is not UTF-8 has such characters. What cannot be sent must not keep the rest back.
        return encoder.encode(_whole(msgspec.to_builtins(value)))


def _whole(value: object) -> object:
    """A builtin value with U+FFFD for every half of a surrogate pair."""
    match value:
        case str():
            return _ORPHAN.sub("\ufffd", value)
        case list() | tuple():
            return [_whole(inner) for inner in value]
        case dict():
            return {_whole(key): _whole(inner) for key, inner in value.items()}
        case _:
            return value


def decode(data: bytes | str, levels: int = MOST_LEVELS) -> object:
    """The builtin value a JSON text stands for. `msgspec.DecodeError` if it stands for none or has more levels."""
    try:
        check_levels(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"), levels)
        return _decoded(data)
    except UnicodeError as error:
        raise msgspec.DecodeError(f"not UTF-8 text ({error})") from error


def _decoded(data: bytes | str) -> object:
    try:
        value: object = _decoder.decode(data)
    except msgspec.DecodeError:
        mended = without_orphans(data)
        if mended is None:
            raise
        value = _decoder.decode(mended)
    return value


def without_orphans(data: bytes | str) -> bytes | None:
    """The same text with U+FFFD for every half of a surrogate pair; None if there is none.

    A consumer in JavaScript that cuts a text in the middle of an emoji sends such a half.
    """
    text = data.encode() if isinstance(data, str) else data
    mended = _ESCAPE.sub(lambda escape: b"\\ufffd" if escape[1] else escape[0], text)
    return None if mended == text else mended


def canonical(value: object) -> str:
    """The one text that equal values share, whatever the order of their keys."""
    return _encoded(_sorting, value).decode()


def pretty(value: object) -> str:
    """For a person to read."""
    return msgspec.json.format(_encoded(_sorting, value), indent=2).decode()
