"""Links to files in the text of an answer, and back. Values in, values out.

A picture or a file of an agent has an address at this server. In the text for the client, it is a link or a picture of
Markdown. The client sends that text back with its history. There the link is taken out again, so that the history is the
same as what the agent said, whatever address the server has by then.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator

from dragoman.lm import DataPart, Part, TextPart, gfm
from dragoman.lm.foreign_items import item_part
from dragoman.lm.parts import ANNOTATION

__all__ = [
    "FILES_PATH",
    "file_address",
    "is_file_address",
    "is_file_id",
    "link_parts",
    "link_text",
    "linked_files",
    "shown_name",
]

FILES_PATH = "/v1/files/"
_FILE_ID = r"file_[0-9a-f]{32}_[0-9a-f]{32}"
_WHOLE_ID = re.compile(_FILE_ID)
_LINK = re.compile(
    # The text of a link, in which brackets are escaped, and its address.
    rf"(?:\n\n)?!?\[(?:[^\[\]\\]|\\.){{0,300}}\]\(<?https?://[^\s()<>]{{1,300}}{FILES_PATH}({_FILE_ID})/content>?\)(?:\n\n)?"
)
_ADDRESS = re.compile(rf"https?://[^\s()<>]{{1,300}}{FILES_PATH}{_FILE_ID}/content")
# Without the tables of the system, which differ.
_TYPES = mimetypes.MimeTypes()
_HEADING = item_part({"type": "message", "role": "assistant"})


def is_file_id(id_: str) -> bool:
    return _WHOLE_ID.fullmatch(id_) is not None


def is_file_address(url: str) -> bool:
    """Whether a server of ours has a file at this address."""
    return _ADDRESS.fullmatch(url) is not None


def file_address(origin: str, id_: str) -> str:
    return f"{origin.rstrip('/')}{FILES_PATH}{id_}/content"


def shown_name(file: DataPart) -> str:
    """The name of a file, on one line, without a folder."""
    name = " ".join(file.name.replace("/", " ").split())
    if name:
        return name
    kind = "image" if file.mime_type.startswith("image/") else "file"
    return kind + (_TYPES.guess_extension(file.mime_type.partition(";")[0].strip()) or "")


def link_text(file: DataPart, address: str) -> str:
    """A picture or a link, in Markdown, set apart from the text around it."""
    picture = "!" if file.mime_type.startswith("image/") else ""
    return f"\n\n{picture}[{gfm.escape(shown_name(file))}]({address})\n\n"


def link_parts(file: DataPart, address: str) -> tuple[Part, ...]:
    """A link as a message of its own, with an annotation that programs read."""
    text = link_text(file, address)
    cited = {"type": "url_citation", "url": address, "title": shown_name(file)}
    place = {"start_index": 2, "end_index": len(text) - 2}
    return _HEADING, TextPart(text), DataPart.json({**cited, **place}, ANNOTATION), _HEADING


def linked_files(text: str) -> Iterator[str | re.Match[str]]:
    """Split a text at the links to files. A link is a match whose first group is the id of the file."""
    end = 0
    for found in _LINK.finditer(text):
        yield text[end : found.start()]
        yield found
        end = found.end()
    yield text[end:]
