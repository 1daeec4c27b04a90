"""Methods about the changes of agents: those that a question asks about, and those that a turn has made.

The texts of a question's files are what the editor has, saved or not, else what is on the disk.
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Callable
from pathlib import Path

from dragoman.edits.log import EditLog, EditTurn
from dragoman.edits.planned import PlannedChange, Replacement, planned_changes
from dragoman.edits.text_files import FileUnusable, text_of
from dragoman.edits.undoing import undo_edits
from dragoman.frontends.vscode.protocol import ListEdits, ShowEdit, ShowQuestion, UndoEdits, decoded
from dragoman.jsonrpc import Incoming
from dragoman.lm import LanguageModelError
from dragoman.lm.client_services import ClientFiles, ClientServiceError
from dragoman.lm.json import JsonObject
from dragoman.permissions.action import Action
from dragoman.permissions.pipeline import PermissionServices

__all__ = ["EditMethods", "edits_news"]

_GONE = "These edits are not known any more: Dragoman was restarted since, or there were too many after them."
_UNDONE = "These edits were undone already: nothing is left to undo."


class EditMethods:
    """Serves `permissions/changes` and `edits/…` for one editor. `files` are its documents, once it has offered them."""

    def __init__(
        self,
        log: EditLog,
        permissions: Callable[[], PermissionServices],
        files: Callable[[], ClientFiles | None],
    ) -> None:
        self._log = log
        self._permissions = permissions
        self._files = files

    async def changes(self, incoming: Incoming) -> object:
        """The files of a pending question, whole, as they are and as they would be."""
        pending = self._permissions().grants.pending(decoded(incoming.params, ShowQuestion).nonce)
        if pending is None:
            raise LanguageModelError("bad_request", "This request is no longer open.")
        return {"files": [_wire(change) for change in await self._planned(pending.action)]}

    async def _planned(self, action: Action) -> tuple[PlannedChange, ...]:
        replacements = await asyncio.to_thread(_replacements, action)
        now: dict[str, str | None] = {}
        unreadable: dict[str, str] = {}
        for path in dict.fromkeys(each.path for each in replacements):
            try:
                now[path] = await self._text(path)
            except (FileUnusable, ClientServiceError) as error:
                unreadable[path] = str(error)
        return planned_changes(replacements, now, unreadable)

    async def _text(self, path: str) -> str | None:
        files = self._files()
        buffer = None if files is None else await files.buffer(path)
        return buffer if buffer is not None else await asyncio.to_thread(text_of, path)

    async def list(self, incoming: Incoming) -> object:
        wanted = decoded(incoming.params, ListEdits).turn
        await self._log.settled()
        found = self._log.newest_first() if wanted is None else (self._found(wanted),)
        return {"turns": [_turn(turn) for turn in found]}

    async def text(self, incoming: Incoming) -> object:
        wanted = decoded(incoming.params, ShowEdit)
        file = self._found(wanted.turn).files.get(wanted.path)
        if file is None:
            raise LanguageModelError("not_found", _GONE)
        return {"text": (file.before if wanted.side == "before" else file.after) or ""}

    async def undo(self, incoming: Incoming) -> object:
        turn = self._found(decoded(incoming.params, UndoEdits).turn)
        outcome = await undo_edits(self._log, turn, self._files())
        return {
            "undone": outcome.undone,
            "left": [{"path": path, "why": why} for path, why in outcome.left],
        }

    def _found(self, id_: str) -> EditTurn:
        turn = self._log.find(id_)
        if turn is None:
            raise LanguageModelError("not_found", _UNDONE if self._log.is_undone(id_) else _GONE)
        return turn


def _replacements(action: Action) -> tuple[Replacement, ...]:
    return tuple(
        Replacement(os.path.realpath(Path(action.folder, diff.path)), diff.old, diff.new)
        for diff in action.diffs
        if "\0" not in diff.path
    )


def edits_news(turn: EditTurn) -> JsonObject:
    """The edits of a turn, for the end of its response."""
    return {"turn": turn.id, "files": _files(turn)}


def _turn(turn: EditTurn) -> JsonObject:
    return {"turn": turn.id, "agent": turn.agent, "at": turn.at.isoformat(), "files": _files(turn)}


def _files(turn: EditTurn) -> list[JsonObject]:
    return [{"path": file.path, "change": file.change} for file in turn.files.values()]


def _wire(change: PlannedChange) -> JsonObject:
    return {
        "path": change.path,
        "before": change.before,
        "after": change.after,
        "isWhole": change.why_partial is None,
        "why": change.why_partial,
    }
