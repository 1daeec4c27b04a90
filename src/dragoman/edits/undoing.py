"""Takes the changes of a turn back: each file that is still as the turn left it, and no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dragoman.edits.log import ChangedFile, EditLog, EditTurn
from dragoman.edits.text_files import FileUnusable, put_text, remove_file, text_of
from dragoman.lm.client_services import ClientFiles, ClientServiceError

__all__ = ["UndoOutcome", "undo_edits"]

_CHANGED = "It has changed since."
_UNSAVED = "It has changed since, in an editor that is not saved."


@dataclass(frozen=True, slots=True)
class UndoOutcome:
    """The files that are as they were before the turn, and those that were left alone, with the reason."""

    undone: tuple[str, ...]
    left: tuple[tuple[str, str], ...]


async def undo_edits(log: EditLog, turn: EditTurn, files: ClientFiles | None) -> UndoOutcome:
    """Undo a turn, file by file. A document that is open in the client is changed there, so that its undo works."""
    undone: list[str] = []
    left: list[tuple[str, str]] = []
    for file in tuple(turn.files.values()):
        try:
            why = await _undo(file, files)
        except (FileUnusable, ClientServiceError) as error:
            why = str(error)
        if why is None:
            undone.append(file.path)
            log.forget(turn, file.path)
        else:
            left.append((file.path, why))
    return UndoOutcome(tuple(undone), tuple(left))


async def _undo(file: ChangedFile, files: ClientFiles | None) -> str | None:
    """Undo the change of one file. Returns why not, if it was left alone."""
    if await asyncio.to_thread(text_of, file.path) != file.after:
        return _CHANGED
    buffer = None if files is None else await files.buffer(file.path)
    if buffer is not None and file.after is not None and _lines(buffer) != _lines(file.after):
        return _UNSAVED
    if file.before is None:
        is_done = file.after is None or await asyncio.to_thread(remove_file, file.path, file.after)
    elif (
        files is not None
        and file.after is not None
        and (buffer is not None or (_has_one_line_end(file) and await files.is_open(file.path)))
    ):
        is_done = await files.write(file.path, file.before, file.after) is not None
    else:
        is_done = await asyncio.to_thread(put_text, file.path, file.before, file.after, file.mode)
    return None if is_done else _CHANGED


def _has_one_line_end(file: ChangedFile) -> bool:
    """Whether an editor can hold both texts as they are: it has one kind of line end for a document."""
    text = f"{file.before}{file.after}"
    windows = text.count("\r\n")
    return text.count("\r") == windows and windows in (0, text.count("\n"))


def _lines(text: str) -> str:
    """A text as an editor holds it: without a byte order mark, and with one kind of line end."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
