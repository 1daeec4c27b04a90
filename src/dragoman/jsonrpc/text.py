r"""JSON for the wire: read what msgspec refuses, never write what others would refuse.

A program that keeps text as UTF-16 and cuts it into chunks now and then cuts an emoji in two, and each half goes out
as an escape that stands for no character: `"\ud83d"` here, `"\ude00"` in the next chunk. Strict decoders reject such
a line as a whole. `Decoder` reads it all the same, as a Python string with the lone half in it; `SurrogateJoiner`
puts the halves together again; and `encode` sees to it that no lone half ever leaves us.
"""

from __future__ import annotations

import json
import re
from typing import Generic, NoReturn, TypeVar

import msgspec

from dragoman.lm.json import without_orphans
from dragoman.lm.nesting import check_levels

__all__ = ["Decoder", "SurrogateJoiner", "encode", "loads_tolerantly", "mended"]

_T = TypeVar("_T")

REPLACEMENT = "\ufffd"
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_HIGH_HALF = re.compile("[\ud800-\udbff]")
_encoder = msgspec.json.Encoder()


def mended(text: str) -> str:
    """The text with every pair of halves as the one character they are, and every lone half as U+FFFD."""
    if text.isascii():
        return text
    return _SURROGATES.sub(_mend, text)


def _mend(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:
        return REPLACEMENT
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


class SurrogateJoiner:
    """Text that arrives in chunks, one of these for each stream.

    A high half at the end of a chunk is held back for the next one, which may begin with the low half. When something
    other than text comes next, or nothing does, `end` gives back what is held, as U+FFFD.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, chunk: str) -> str:
        if not chunk:
            return ""
        if chunk.isascii() and not self._held:
            return chunk
        text = self._held + chunk
        self._held = ""
        if _HIGH_HALF.match(text, len(text) - 1):
            text, self._held = text[:-1], text[-1]
        return mended(text)

    def end(self) -> str:
        held, self._held = self._held, ""
        return mended(held)


class Decoder(Generic[_T]):
    """Reads one type from JSON, lone surrogates included.

    Raises `msgspec.ValidationError` when the JSON is of another shape, `msgspec.DecodeError` when it is no JSON. Where
    halves cannot be kept (in a field of type `Raw`, in a name), they become U+FFFD.
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
            return self._strict.decode(_encoder.encode(_mended_value(value)))


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
        return _encoder.encode(_mended_value(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))
    # What follows can only come from JSON that was passed through as `Raw`.
    if b"\n" in data:
        data = msgspec.json.format(data, indent=-1)
    if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
        try:
            msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            data = without_orphans(data) or data
    return data


def _mended_value(value: object) -> object:
    match value:
        case str():
            return mended(value)
        case list() | tuple():
            return [_mended_value(item) for item in value]
        case dict():
            return {_mended_value(key): _mended_value(item) for key, item in value.items()}
        case msgspec.Raw():
            return msgspec.Raw(encode(value))
        case _:
            return value
