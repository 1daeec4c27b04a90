"""`/export` and `/copy`: what was said, as Markdown in a file, and the last answer in the clipboard."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from dragoman.frontends.terminal.export_text import ChatDecisions, as_markdown
from dragoman.frontends.terminal.session import ChatSession
from dragoman.journal.events import UnreadableJournal
from dragoman.journal.store import JournalStoreError
from dragoman.lm import Message
from dragoman.visible import visible_line
from dragoman.whole_file import write_whole

__all__ = ["CannotExport", "clipboard_sequence", "export", "last_answer"]

# What was said may be private.
_PRIVATE_FILE = 0o600
# As much as the strictest of the usual terminals takes in one sequence, in base64.
_MOST_COPIED = 74_994 // 4 * 3
_TITLE_CHARACTERS = 80
_NO_DECISIONS = "Who allowed or refused what is not in this file: {why}."


class CannotExport(Exception):
    """A sentence that says why, and what to do."""


async def export(session: ChatSession, wanted: str | None, *, overwrite: bool) -> Path:
    """Write the chat to a file of the user's choice, or to a new one in its folder. Raises `CannotExport`."""
    title = next((each.text for each in session.messages if each.role == "user"), "")
    decided, why = None, "the journal is off"
    try:
        decided = await session.decisions()
    except UnreadableJournal as error:
        why = f"its journal cannot be read ({error})"
    except JournalStoreError as error:
        why = str(error).rstrip(".")
    notice = "" if decided is not None else _NO_DECISIONS.format(why=visible_line(why))
    text = as_markdown(
        session.messages, " ".join(title.split())[:_TITLE_CHARACTERS], decided or ChatDecisions(), notice
    )
    folder = session.workspace[0] if session.workspace else Path.cwd()
    return _write(text, wanted, folder, session.id, overwrite=overwrite)


def _write(text: str, wanted: str | None, folder: Path, chat: str, *, overwrite: bool) -> Path:
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
