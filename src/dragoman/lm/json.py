"""JSON values as the rest of the package sees them.

An object from outside is a `JsonObject`: its values are `object`, so that the type checker demands a check of each.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.lm.nesting import MOST_LEVELS, check_levels
from dragoman.lm.surrogates import mended_json, mended_value

__all__ = ["JsonObject", "canonical", "decode", "encode", "encode_text", "pretty"]

JsonObject: TypeAlias = dict[str, object]

_encoder = msgspec.json.Encoder()
_sorting = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()


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
        return encoder.encode(mended_value(msgspec.to_builtins(value)))


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
        value = _decoder.decode(mended_json(data.encode() if isinstance(data, str) else data))
    return value


def canonical(value: object) -> str:
    """The one text that equal values share, whatever the order of their keys."""
    return _encoded(_sorting, value).decode()


def pretty(value: object) -> str:
    """For a person to read."""
    return msgspec.json.format(_encoded(_sorting, value), indent=2).decode()
