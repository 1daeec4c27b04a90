"""An answer as MCP carries it: every part in its place, text as text, images as images.

JSON is the exception. MCP has a separate field for it, but some agents (Codex) show a model that field *instead* of the
content. So an object goes there only when it is all there is; among other parts it stays a part.

Parts that are meant for the user or the editor and not for the model are left out: the consumer has them already, and an
agent would show them to its model.
"""

from __future__ import annotations

import base64

import msgspec

from dragoman.backends.tool_shapes import is_deeper_than
from dragoman.lm import ContentPart, DataPart, JsonObject, TextPart, json
from dragoman.lm.parts import ToolResult, is_for_model
from dragoman.lm.surrogates import mended

__all__ = [
    "MAX_RESULT_BYTES",
    "MAX_RESULT_PARTS",
    "MAX_STRUCTURED_BYTES",
    "MAX_STRUCTURED_DEPTH",
    "MAX_TEXT_BYTES",
    "failure",
    "notice",
    "result",
]

# Text is written with escapes, so it may double on its way; agents in Python fail a call whose result takes more than a
# mebibyte. It is more than models read.
MAX_TEXT_BYTES = 512 * 1024
# The largest JSON that is also sent in the separate field.
MAX_STRUCTURED_BYTES = 128 * 1024
# Agents built on the official library give up at some 200 levels, and then wait for ever.
MAX_STRUCTURED_DEPTH = 64
# All together; images are larger than text.
MAX_RESULT_BYTES = 4 * 1024 * 1024
# Each part costs something to carry, however small it is.
MAX_RESULT_PARTS = 1_000

_JSON = "application/json"


def result(answer: ToolResult) -> JsonObject:
    parts = _bounded(tuple(part for part in answer.content if is_for_model(part)))
    structured = _only_object(parts)
    blocks = [_block(part, number) for number, part in enumerate(parts, 1)]
    sent: JsonObject = {"content": blocks, "isError": answer.is_error}
    if structured is not None and _is_readable(structured):
        sent["structuredContent"] = structured
    return sent


def notice(text: str) -> JsonObject:
    """A message of ours in place of a result."""
    return {"content": [{"type": "text", "text": mended(text)}], "isError": False}


def failure(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": mended(text)}], "isError": True}


def _only_object(parts: tuple[ContentPart, ...]) -> JsonObject | None:
    match parts:
        case (DataPart(mime_type=mime_type, data=data),) if mime_type == _JSON:
            try:
                value = json.decode(data)
            except msgspec.DecodeError:
                return None
            return value if isinstance(value, dict) else None
        case _:
            return None


def _is_readable(structured: JsonObject) -> bool:
    # Where it is left out, the content says the same.
    return len(json.encode(structured)) <= MAX_STRUCTURED_BYTES and not is_deeper_than(
        MAX_STRUCTURED_DEPTH, structured
    )


def _block(part: ContentPart, number: int) -> JsonObject:
    match part:
        case TextPart(value=text):
            # Half of a surrogate pair could not be written, and the agent would wait for ever.
            return {"type": "text", "text": mended(text)}
        case DataPart(mime_type=mime_type, data=data) if mime_type.startswith("image/"):
            return {"type": "image", "data": _base64(data), "mimeType": mime_type}
        case DataPart(mime_type=mime_type, data=data) if mime_type.startswith("audio/"):
            return {"type": "audio", "data": _base64(data), "mimeType": mime_type}
        case DataPart():
            return {"type": "resource", "resource": _resource(part, number)}


def _resource(part: DataPart, number: int) -> JsonObject:
    resource: JsonObject = {"uri": f"dragoman://result/{number}", "mimeType": part.mime_type}
    text = _text(part)
    return {**resource, "blob": _base64(part.data)} if text is None else {**resource, "text": text}


def _text(part: DataPart) -> str | None:
    if not part.is_textual:
        return None
    try:
        return part.data.decode()
    except UnicodeDecodeError:
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bounded(parts: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
    """`parts`, or as much of them as fits with a line that says what was left out."""
    fitting_parts: list[ContentPart] = []
    left, text_left = MAX_RESULT_BYTES, MAX_TEXT_BYTES
    for part in parts[:MAX_RESULT_PARTS]:
        is_text = isinstance(part, TextPart) or part.is_textual
        fitting = _cut(part, min(left, text_left) if is_text else left)
        if fitting is not None:
            fitting_parts.append(fitting)
            left -= _size(fitting)
            text_left -= _size(fitting) if is_text else 0
    if tuple(fitting_parts) == parts:
        return parts
    cut = (
        f"\n\n[This result was cut: it has {sum(map(_size, parts)):,} bytes in {len(parts):,} parts. The limit is "
        f"{MAX_TEXT_BYTES:,} bytes of text and {MAX_RESULT_BYTES:,} bytes in {MAX_RESULT_PARTS:,} parts in all. "
        f"Ask for less at a time.]"
    )
    return (*fitting_parts, TextPart(cut))


def _cut(part: ContentPart, room: int) -> ContentPart | None:
    """As much of a part as fits. An image is not cut, a text is, without a partial character at its end."""
    if _size(part) <= room:
        return part
    if isinstance(part, TextPart) and room > 0:
        return TextPart(part.value.encode(errors="replace")[:room].decode(errors="ignore"), part.audience)
    return None


def _size(part: ContentPart) -> int:
    return len(part.value.encode(errors="replace") if isinstance(part, TextPart) else part.data)
