"""JSON for the wire: read what msgspec refuses, never write what others would refuse.

`lm.surrogates` says where halves of characters come from. `Decoder` reads a line with such halves as Python strings
that have them, for `SurrogateJoiner` to join; `encode` never writes one.
"""

from __future__ import annotations

import json
from typing import Generic, NoReturn, TypeVar

import msgspec

from dragoman.lm.nesting import check_levels
from dragoman.lm.surrogates import mended_json, mended_value

__all__ = ["Decoder", "encode", "loads_tolerantly"]

_T = TypeVar("_T")

_encoder = msgspec.json.Encoder()


class Decoder(Generic[_T]):
    """Reads one type from JSON, lone surrogates included.

    Raises `msgspec.ValidationError` when the JSON is of another shape, `msgspec.DecodeError` when it is no JSON. Where
    halves cannot be preserved (in a field of type `Raw`, in a name), they become U+FFFD.
    """

    def __init__(self, kind: type[_T]) -> None:
        self._kind = kind
        self._strict = msgspec.json.Decoder(kind)

    def decode(self, data: bytes) -> _T:
        check_levels(data)
        try:
            return self._strict.decode(data)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._with_halves(data)

    def _with_halves(self, data: bytes) -> _T:
        value = loads_tolerantly(data)
        try:
            return msgspec.convert(value, self._kind)
        except (msgspec.ValidationError, UnicodeEncodeError):
            return self._strict.decode(_encoder.encode(mended_value(value)))


def loads_tolerantly(data: bytes) -> object:
    """The builtin value of a JSON text in which strings may have lone surrogates.

    Raises `msgspec.DecodeError`, as the strict decoder does, for everything else that is not JSON.
    """
    check_levels(data)
    try:
        value: object = json.loads(data.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not valid UTF-8 (byte {error.start})") from error
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    return value


def _refuse_constant(name: str) -> NoReturn:
    # Python's reader takes NaN and Infinity, which are not JSON.
    raise ValueError(f"{name} is not JSON")


def encode(value: object) -> bytes:
    """One line of JSON without its line break: valid UTF-8, no lone surrogates, whatever `value` holds."""
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:
        data = _encoder.encode(mended_value(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))
    # What follows can only come from JSON that was passed through as `Raw`.
    if b"\n" in data:
        data = msgspec.json.format(data, indent=-1)
    if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
        try:
            msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            data = mended_json(data)
    return data
