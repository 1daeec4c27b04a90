"""What a tool returned, as parts."""

from __future__ import annotations

import base64
import binascii

import msgspec

from dragoman.lm import ContentPart, DataPart, JsonObject, TextPart
from dragoman.lm.json import pretty
from dragoman.lm.parts import ToolResult

__all__ = ["tool_result"]


class _Returned(msgspec.Struct, frozen=True, rename="camel"):
    content: tuple[JsonObject, ...] = ()
    structured_content: JsonObject | None = None
    is_error: bool = False


def tool_result(data: bytes) -> ToolResult:
    """The result of `tools/call`. Raises `msgspec.DecodeError` if it is none."""
    returned = msgspec.json.decode(data, type=_Returned)
    parts = tuple(map(_part, returned.content))
    if not parts and returned.structured_content is not None:
        parts = (DataPart.json(returned.structured_content),)
    return ToolResult(parts, is_error=returned.is_error)


def _part(block: JsonObject) -> ContentPart:
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(mime_type)}:
            return _data(data, mime_type)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return TextPart(text)
        case {"type": "resource", "resource": {"blob": str(data), **rest}}:
            return _data(data, str(rest.get("mimeType") or "application/octet-stream"))
        case _:
            # A link, or a kind that is newer than this client: as it came.
            return TextPart(pretty(block))


def _data(data: str, mime_type: str) -> ContentPart:
    try:
        return DataPart(mime_type, base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return TextPart(f"[{mime_type} that cannot be read]")
