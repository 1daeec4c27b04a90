"""Content blocks: what prompts and updates carry. https://agentclientprotocol.com/protocol/content

A block of an unknown kind is stored unchanged; decoding does not fail on what a newer agent may send.
"""

from __future__ import annotations

import base64
import binascii
from typing import TypeAlias
from urllib.parse import unquote

import msgspec

from dragoman.lm import DataPart, JsonObject, Part, TextPart
from dragoman.lm.gfm import code, escape, notice_part
from dragoman.lm.parts import INTERNAL_MIME_TYPES
from dragoman.lm.surrogates import mended

__all__ = [
    "AudioBlock",
    "ContentBlock",
    "EmbeddedResourceBlock",
    "ImageBlock",
    "ResourceLinkBlock",
    "TextBlock",
    "parts_of",
    "plain",
]

_BYTES = "application/octet-stream"
_NAME_LENGTH = 128


class _Block(msgspec.Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    pass


class TextBlock(_Block, frozen=True, tag="text"):
    text: str


class ImageBlock(_Block, frozen=True, tag="image"):
    data: str
    mime_type: str
    uri: str | None = None


class AudioBlock(_Block, frozen=True, tag="audio"):
    data: str
    mime_type: str


class ResourceLinkBlock(_Block, frozen=True, tag="resource_link"):
    uri: str
    name: str
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class EmbeddedResourceBlock(_Block, frozen=True, tag="resource"):
    resource: JsonObject


ContentBlock: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceLinkBlock | EmbeddedResourceBlock


def parts_of(block: ContentBlock) -> tuple[Part, ...]:
    """Convert a block from an agent to parts for the consumer."""
    match block:
        case TextBlock(text=text):
            return (TextPart(text),)
        case ImageBlock(data=data, mime_type=mime_type) | AudioBlock(data=data, mime_type=mime_type):
            return _data(data, mime_type)
        case ResourceLinkBlock(uri=uri, name=name):
            return (notice_part(f"{escape(block.title or name)}: {code(uri)}"),)
        case EmbeddedResourceBlock(resource=resource):
            return _resource(resource)


def _resource(resource: JsonObject) -> tuple[Part, ...]:
    uri, text, blob = str(resource.get("uri", "")), resource.get("text"), resource.get("blob")
    mime_type = resource.get("mimeType")
    if isinstance(blob, str):
        folder, _, name = uri.rpartition("/")
        return _data(
            blob, mime_type if isinstance(mime_type, str) else _BYTES, unquote(name) if folder else ""
        )
    if isinstance(text, str):
        return (notice_part(f"Resource: {code(uri)}"), TextPart(text))
    return (notice_part(f"Resource: {code(uri)}"),)


def _data(data: str, mime_type: str, name: str = "") -> tuple[Part, ...]:
    if not mime_type or mime_type in INTERNAL_MIME_TYPES:
        # An agent must not send internal data, above all no markers.
        mime_type = _BYTES
    try:
        return (DataPart(mime_type, base64.b64decode(data, validate=True), name=mended(name)[:_NAME_LENGTH]),)
    except (binascii.Error, ValueError):
        return (notice_part(f"The agent sent {escape(mime_type)} that cannot be read."),)


def plain(text: str) -> str:
    """Text without the line breaks and spaces that agents change when they repeat it."""
    return " ".join(text.split())
