"""`/export` and `/copy`: what was said, as Markdown in a file, and the last answer in the clipboard."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from dragoman.lm import DataPart, Message, TextPart, ToolCallPart, ToolResultPart, gfm
from dragoman.lm.json import canonical
from dragoman.lm.parts import LINK
from dragoman.permissions.action import is_permission_tool
from dragoman.whole_file import write_whole

__all__ = ["CannotExport", "as_markdown", "clipboard_sequence", "last_answer", "write_export"]

# What was said may be private.
_PRIVATE_FILE = 0o600
# As much as the strictest of the usual terminals takes in one sequence, in base64.
_MOST_COPIED = 74_994 // 4 * 3
_MOST_RESULT_CHARACTERS = 2_000


class CannotExport(Exception):
    """A sentence that says why, and what to do."""


def as_markdown(messages: Sequence[Message], title: str) -> str:
    """A conversation as Markdown: prompts and answers as they are, a section for each; calls and their results folded."""
    blocks = [f"# {gfm.escape(title)}"]
    speaker = ""
    for message in messages:
        said = [block for part in message.content for block in _blocks(part)]
        # Results go below the calls that they belong to.
        speaks = "You" if message.role == "user" and not message.results else "Model"
        if message.role == "system" or not said:
            continue
        if speaks != speaker:
            blocks.append(f"## {speaks}")
            speaker = speaks
        blocks += said
    return "\n\n".join(blocks) + "\n"


def _blocks(part: object) -> Iterator[str]:
    match part:
        case TextPart(value=text) if text.strip():
            yield text.strip()
        case DataPart(name=name, mime_type=mime_type) if mime_type == LINK:
            yield f"*{gfm.escape(name)}*"
        case DataPart(name=name, mime_type=mime_type) if not part.is_internal:
            yield f"*{gfm.escape(name or mime_type)}, {len(part.data):,} bytes*"
        case ToolCallPart(name=name) if not is_permission_tool(name):
            yield f"**{gfm.escape(name)}** {gfm.code(canonical(part.input))}"
        case ToolResultPart(name=name) if name is None or not is_permission_tool(name):
            text = part.text.strip()
            cut = text[:_MOST_RESULT_CHARACTERS] + ("\n…" if len(text) > _MOST_RESULT_CHARACTERS else "")
            summary = f"{name or 'result'}: {part.outcome or 'ok'}"
            yield f"<details><summary>{gfm.escape(summary)}</summary>\n\n{gfm.fence(cut)}\n\n</details>"
        case _:
            pass


def write_export(text: str, wanted: str | None, folder: Path, chat: str, *, overwrite: bool) -> Path:
    """Write the text to a file of the user's choice, or to a new one in the folder. Raises `CannotExport`."""
    name = wanted or f"dragoman-{datetime.now().astimezone():%Y-%m-%d}-{chat[:4]}.md"
    file = folder / os.path.expanduser(name)  # noqa: PTH111 - Path's own fails without a home
    try:
        if file.is_dir():
            raise CannotExport(f"{name} is a folder. Name a file: /export FILE")
        if overwrite:
            write_whole(file.resolve(), text.encode("utf-8", "replace"))
            return file
        # Together: what is made between a check and the writing is not overwritten.
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(text.encode("utf-8", "replace"))
    except FileExistsError as error:
        raise CannotExport(f"{name} is there already. To replace it: /export --overwrite {name}") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotExport(f"{name} cannot be written: {why}.") from error
    return file


def last_answer(messages: Sequence[Message]) -> str:
    """The text of the last answer; empty if there is none."""
    return next(
        (each.text.strip() for each in reversed(messages) if each.role == "assistant" and each.text.strip()),
        "",
    )


def clipboard_sequence(text: str) -> str:
    """What tells a terminal to put a text into the clipboard (OSC 52). Raises `CannotExport` if it is too long."""
    data = text.encode("utf-8", "replace")
    if len(data) > _MOST_COPIED:
        raise CannotExport(
            f"The answer has {len(data):,} bytes; terminals take up to {_MOST_COPIED:,}. /export writes it to a file."
        )
    return f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
