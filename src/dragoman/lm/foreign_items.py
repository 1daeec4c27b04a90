"""Items of Open Responses that no part has a form for, and what consumers without items get of them.

An endpoint's item is passed on whole, as the JSON of a data part (`parts.ITEM`), so that it reaches the client and, with
the client's history, the endpoint again unchanged. An item of the type `message` without content is a *heading*: the text
after it belongs to a new message with these fields.

A server of ours sends a file as an item of our own type (`FILE_ITEM`) to a client that asks for it: the next server of ours.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

import msgspec

from dragoman.lm import gfm
from dragoman.lm.json import JsonObject, decode
from dragoman.lm.parts import IGNORED, ITEM, DataPart

__all__ = [
    "FILE_ITEM",
    "file_in_event",
    "file_item",
    "file_of",
    "ignored_files",
    "is_call",
    "is_heading",
    "item_line",
    "item_of",
    "item_part",
    "picture_of",
]

# The type of an item that is a file, with its bytes.
FILE_ITEM = "dragoman:file"

_DATA_URL = re.compile(r"data:(image/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,(.*)", re.DOTALL)
_FILE_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,(.*)", re.DOTALL)
# The first bytes of the pictures that image models make.
_SIGNATURES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_TYPE_LENGTH = 64


def item_part(item: JsonObject) -> DataPart:
    return DataPart.json(item, ITEM)


def item_of(part: DataPart) -> JsonObject:
    """The object in the JSON of a data part. An empty one if there is none."""
    try:
        value = decode(part.data)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def is_heading(item: JsonObject) -> bool:
    return item.get("type") == "message" and not item.get("content")


def is_call(item: JsonObject) -> bool:
    """Whether the model has called a tool: one of the endpoint's own, or one that the client runs."""
    return str(item.get("type")).endswith("_call")


def file_item(file: DataPart, id_: str) -> JsonObject:
    return {
        "type": FILE_ITEM,
        "id": id_,
        "status": "completed",
        "name": file.name,
        "mime_type": file.mime_type,
        "data": base64.b64encode(file.data).decode(),
    }


def file_of(item: JsonObject) -> DataPart | None:
    """The file or the picture that an item consists of. None if it has none."""
    match item:
        case {"type": type_, "mime_type": str(mime_type), "data": str(data)} if type_ == FILE_ITEM:
            name = item.get("name")
            decoded = _decoded(data)
            named = name if isinstance(name, str) else ""
            return None if decoded is None else DataPart(mime_type, decoded, name=named)
        case _:
            return picture_of(item)


def file_in_event(event: JsonObject) -> DataPart | None:
    """The file of a `response.file` event: in the event itself or in its `file`, under the names that are in use."""
    inner = event.get("file")
    fields = inner if isinstance(inner, dict) else event
    mime_type = _first_text(fields, "mime_type", "media_type", "mediaType")
    data = _first_text(fields, "data", "file_data")
    if data is not None and (found := _FILE_URL.fullmatch(data)):
        mime_type, data = mime_type or found[1], found[2]
    decoded = None if data is None else _decoded(data)
    if decoded is None or mime_type is None:
        return None
    return DataPart(mime_type, decoded, name=_first_text(fields, "filename", "name") or "")


def _first_text(fields: JsonObject, *names: str) -> str | None:
    return next((value for name in names if isinstance(value := fields.get(name), str)), None)


def picture_of(item: JsonObject) -> DataPart | None:
    """The picture that an item consists of. None if it has none, or only an address of one."""
    match item:
        case {"type": "image_generation_call", "result": str(data)} if data:
            return _picture(data, None)
        case {"type": "message", "content": [{"image_url": str(url)}]} if found := _DATA_URL.fullmatch(url):
            return _picture(found[2], found[1])
        case _:
            return None


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _picture(data: str, mime_type: str | None) -> DataPart | None:
    decoded = _decoded(data)
    if decoded is None:
        return None
    by_content = (kind for first, kind in _SIGNATURES.items() if decoded.startswith(first))
    return DataPart(mime_type or next(by_content, "image/png"), decoded)


def item_line(item: JsonObject) -> str:
    """A line that names an item, as Markdown, for consumers that have no form for it."""
    kind, name = str(item.get("type"))[:_TYPE_LENGTH], item.get("name")
    named = f" {gfm.code(name[:_TYPE_LENGTH])}" if isinstance(name, str) and name else ""
    return gfm.notice(f"The model sent {gfm.code(kind)}{named}, which this client cannot show.")


def ignored_files(mime_types: Iterable[str]) -> DataPart:
    """The report of files in a request that the model does not get."""
    return DataPart.json([f"input ({mime_type[:_TYPE_LENGTH]})" for mime_type in mime_types], IGNORED)
