"""The files that agents have changed, by turn, with their texts before and after. In memory only, and bounded.

A file enters a turn when a permission to change it is given, or when it is written through us. The text before is read from
the disk then. The text after is the one that the person has allowed, or that was written. A file that is anything else when
the turn ends is left out: another program, or the user, may have changed it. What an agent only reports is no evidence: an undo
would write the agent's words. Files that are no text, or too large, are not in it.
"""

from __future__ import annotations

import asyncio
import os.path
import secrets
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dragoman.edits.planned import Replacement, planned_changes
from dragoman.edits.text_files import FileUnusable, mode_of, text_of

__all__ = ["ChangedFile", "EditLog", "EditTurn"]

# A person reviews the last few.
_MOST_TURNS = 50
_MOST_CHARACTERS = 64 * 1024 * 1024
# A turn that changes more is reviewed with Git.
_MOST_FILES = 1_000
# Ids of turns that were undone. Only the words of an error depend on them.
_MOST_UNDONE = 1_000


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """None: there was no file, or there is none any more."""

    path: str
    before: str | None
    after: str | None
    # The permission bits before.
    mode: int | None = None

    @property
    def change(self) -> str:
        return "created" if self.before is None else "deleted" if self.after is None else "changed"


@dataclass(slots=True)
class EditTurn:
    conversation: str
    # The agent's name, for people.
    agent: str
    id: str = field(default_factory=lambda: f"edits_{secrets.token_hex(8)}")
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    files: dict[str, ChangedFile] = field(default_factory=dict)
    # Files of which it is not known that the agent alone has changed them.
    _unclear: set[str] = field(default_factory=set)

    def expect(self, path: str, now: str | None, after: str | None, mode: int | None = None) -> None:
        """The agent is to make `after` of a file that is `now`. Whatever else happens to the file is not the agent's."""
        known = self.files.get(path)
        if path in self._unclear or (known is None and not self._has_room):
            return
        # A file may be written after a yes to the same change, or be changed once more.
        if known is not None and now not in (known.before, known.after):
            self.give_up(path)
            return
        first = ChangedFile(path, now, after, mode) if known is None else known
        self.files[path] = ChangedFile(path, first.before, after, first.mode)

    def give_up(self, path: str) -> None:
        self.files.pop(path, None)
        self._unclear.add(path)

    @property
    def _has_room(self) -> bool:
        return len(self.files) < _MOST_FILES and self.size < _MOST_CHARACTERS

    @property
    def size(self) -> int:
        return sum(len(file.before or "") + len(file.after or "") for file in self.files.values())


class EditLog:
    """An `lm.client_services.EditObserver`."""

    def __init__(self) -> None:
        # Turns under way, by conversation; and those that have ended, the oldest first.
        self._open: dict[str, EditTurn] = {}
        self._ended: deque[EditTurn] = deque()
        self._ending: set[asyncio.Task[None]] = set()
        # Turns of which nothing is left to undo: the buttons of their answers stay.
        self._undone: deque[str] = deque(maxlen=_MOST_UNDONE)

    # As an observer.

    def will_change(
        self,
        conversation: str,
        agent: str,
        paths: Iterable[str],
        diffs: Iterable[tuple[str, str | None, str]],
    ) -> None:
        # Read at once, on the event loop: the agent may write as soon as it has its answer.
        shown = [
            Replacement(os.path.realpath(path), old, new) for path, old, new in diffs if "\0" not in path
        ]
        turn = self._turn(conversation, agent)
        for path in map(os.path.realpath, paths):
            try:
                now = text_of(path)
            except FileUnusable:
                turn.give_up(path)
                continue
            own = [each for each in shown if each.path == path]
            planned = planned_changes(own, {path: now}, {})
            if any(each.why_partial is not None for each in planned):
                turn.give_up(path)
            else:
                # Without a diff it is a deletion or a move, or an edit that was not shown: that is left out at the end.
                turn.expect(path, now, planned[-1].after if planned else None, mode_of(path))

    def changed(self, conversation: str, agent: str, path: str, before: str | None, after: str) -> None:
        self._turn(conversation, agent).expect(os.path.realpath(path), before, after)

    def turn_ended(self, conversation: str) -> None:
        turn = self._open.pop(conversation, None)
        if turn is None or not turn.files:
            return
        task = asyncio.create_task(self._end(turn))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # For a front end.

    async def settled(self) -> None:
        """Wait until the texts of turns that have ended are read."""
        while self._ending:
            await asyncio.wait(self._ending)

    def newest_first(self) -> tuple[EditTurn, ...]:
        return tuple(reversed(self._ended))

    def find(self, turn: str) -> EditTurn | None:
        return next((each for each in self._ended if each.id == turn), None)

    def ended_turns(self) -> frozenset[str]:
        """The ids of all turns that have ended."""
        return frozenset(each.id for each in self._ended)

    def ended_since(self, before: Collection[str], conversation: str) -> EditTurn | None:
        """The last turn of a conversation, if it is not among these: it has ended since."""
        turn = next((each for each in self.newest_first() if each.conversation == conversation), None)
        return None if turn is None or turn.id in before else turn

    def forget(self, turn: EditTurn, path: str) -> None:
        """A file's change was taken back."""
        turn.files.pop(path, None)
        if not turn.files and turn in self._ended:
            self._ended.remove(turn)
            self._undone.append(turn.id)

    def is_undone(self, turn: str) -> bool:
        """Whether all changes of a turn were taken back."""
        return turn in self._undone

    def _turn(self, conversation: str, agent: str) -> EditTurn:
        return self._open.setdefault(conversation, EditTurn(conversation, agent))

    async def _end(self, turn: EditTurn) -> None:
        turn.files = await asyncio.to_thread(_as_expected, turn.files)
        if not turn.files:
            return
        turn.at = datetime.now(UTC)
        self._ended.append(turn)
        while len(self._ended) > _MOST_TURNS or (len(self._ended) > 1 and self._size() > _MOST_CHARACTERS):
            self._ended.popleft()

    def _size(self) -> int:
        return sum(turn.size for turn in self._ended)


def _as_expected(files: dict[str, ChangedFile]) -> dict[str, ChangedFile]:
    """The files that have changed, and are exactly what was expected of them."""
    found: dict[str, ChangedFile] = {}
    for path, file in files.items():
        try:
            now = text_of(path)
        except FileUnusable:
            continue
        if now == file.after != file.before:
            found[path] = file
    return found
