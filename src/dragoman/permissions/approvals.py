"""What has been approved, and how far each approval reaches.

An approval is for a tool with a key: what exactly may be done, a command or a path. It reaches as far as the person
said and no further:

    once        this call; nothing is stored
    session     this session, in the memory of this process; another session asks again
    workspace   this folder, also after a restart
    always      everywhere, also after a restart

Lasting approvals are in the store, and every look-up reads the store, so an approval that another process revoked is not
valid here either. The approvals of sessions are not in it, but it counts resets, which void them in every process that
shares it.

Without a store, or with one that fails, everything above `once` lasts for the session only, and `on_problem` is called
with the error.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from dragoman.permissions.action import PERMISSION_TOOLS
from dragoman.permissions.keys import is_agent_key
from dragoman.store import ApprovalStore, StoredApproval, StoreError

__all__ = ["LEVELS", "MAX_KEY_LENGTH", "MAX_SESSION_APPROVALS", "Approval", "ApprovalLevel", "Approvals"]

_log = logging.getLogger(__name__)

# How far an approval reaches: this call; this session; this workspace, also after a restart; everywhere.
ApprovalLevel: TypeAlias = Literal["once", "session", "workspace", "always"]
LEVELS: tuple[ApprovalLevel, ...] = ("once", "session", "workspace", "always")

# A key may be a whole input, and that a whole file. Beyond this, its digest stands for it.
MAX_KEY_LENGTH = 4_096
# How much of a long key is stored, so that a person recognises it.
_KEY_EXCERPT = 200
_DIGESTED = re.compile(r"… \(sha256 [0-9a-f]{64}\)\Z")
# A server has many sessions, and does not see their ends. The oldest approvals are dropped first: the user is asked again.
MAX_SESSION_APPROVALS = 10_000
# Numbers that SQLite cannot hold are no approval's.
_MAX_ID_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Approval:
    id: str
    tool: str
    key: str
    level: ApprovalLevel
    # The folder an approval for a workspace is bound to, the session one for a session is.
    workspace: str | None
    session: str | None
    granted_at: datetime


def _log_problem(problem: StoreError) -> None:
    _log.warning("approvals last for this session only: %s", problem)


class Approvals:
    """The approvals that hold in one workspace, for any number of sessions."""

    def __init__(
        self,
        store: ApprovalStore | None = None,
        workspace: str | Path | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_problem: Callable[[StoreError], None] = _log_problem,
    ) -> None:
        self._store = store
        # Resolved, so that one folder has one name, whichever link it was reached by.
        self._workspace = None if workspace is None else _storable(os.path.realpath(workspace))
        self._clock = clock
        self._on_problem = on_problem
        self._last_problem = ""
        # All the state there is: what sessions were granted, oldest first, and how many resets that has outlived.
        self._granted: dict[tuple[str, str, str], Approval] = {}
        self._resets: int | None = None
        self._numbers = itertools.count(1)
        self._notice_resets()

    @property
    def levels(self) -> tuple[ApprovalLevel, ...]:
        """The levels that can be promised here."""
        return self.levels_in(None)

    def levels_in(self, workspace: str | Path | None) -> tuple[ApprovalLevel, ...]:
        """The levels that can be promised in another workspace than usual."""
        if self._store is None:
            return ("once", "session")
        has_folder = self._folder(workspace) is not None
        return tuple(level for level in LEVELS if level != "workspace" or has_folder)

    def covers(
        self, session: str, tool: str, key: str, *, workspace: str | Path | None = None
    ) -> Approval | None:
        """The approval by which this needs no question, if there is one. `workspace`: another than usual."""
        key = _storable(key)
        self._notice_resets()
        if (granted := self._granted.get((session, tool, key))) is not None:
            return granted
        if self._store is None:
            return None
        try:
            stored = self._store.find(tool, key, self._folder(workspace))
        except StoreError as problem:
            self._report_problem(problem)
            return None
        return None if stored is None else _from_store(stored)

    def grant(
        self,
        session: str,
        tool: str,
        key: str,
        level: ApprovalLevel,
        *,
        workspace: str | Path | None = None,
    ) -> Approval | None:
        """Store an approval, and return it as it was stored: never wider than `level`, narrower if it must be."""
        key = _storable(key)
        self._notice_resets()
        if level == "once":
            return None
        folder = self._folder(workspace)
        is_lasting = level == "always" or (level == "workspace" and folder is not None)
        if is_lasting and self._store is not None:
            where = folder if level == "workspace" else None
            try:
                return _from_store(self._store.add(tool, key, where, self._clock()))
            except StoreError as problem:
                self._report_problem(problem)
        return self._grant_session(session, tool, key)

    def list(self) -> tuple[Approval, ...]:
        """Everything that holds: the sessions of this process, then the store, each with the oldest first."""
        self._notice_resets()
        stored = () if self._store is None else self._store.list()
        return (*self._granted.values(), *map(_from_store, stored))

    def revoke(self, id: str) -> bool:  # noqa: A002 - what it is called everywhere else
        """Revoke one approval. False if there is none with this id."""
        for subject, approval in self._granted.items():
            if approval.id == id:
                del self._granted[subject]
                return True
        if self._store is None or not (id.isascii() and id.isdigit() and len(id) <= _MAX_ID_DIGITS):
            return False
        return self._store.remove(int(id))

    def reset(self) -> None:
        """Revoke all approvals: of every session, every workspace, every process with the same store."""
        self._granted.clear()
        if self._store is not None:
            self._store.clear()
            self._notice_resets()

    def end_session(self, session: str) -> None:
        """Drop the approvals of a session."""
        self._granted = {subject: it for subject, it in self._granted.items() if it.session != session}

    def drop_incomplete(self) -> str | None:
        """Revoke the stored approvals of agents' actions whose keys are incomplete. Returns a sentence about them.

        Version 0.1 made keys that left out arguments, folders and agents. Such an approval covers more than the person
        was shown, so it does not count.
        """
        if self._store is None:
            return None
        tools = frozenset(PERMISSION_TOOLS.values())
        try:
            incomplete = [it for it in self._store.list() if it.tool in tools and not is_agent_key(it.key)]
            count = sum(self._store.remove(approval.id) for approval in incomplete)
        except StoreError as problem:
            self._report_problem(problem)
            return None
        if not count:
            return None
        are = "approval of an agent's action is" if count == 1 else "approvals of agents' actions are"
        return (
            f"{count} {are} no longer valid: an earlier version did not keep which agent, folder and "
            "arguments were approved. You will be asked again."
        )

    def _folder(self, workspace: str | Path | None) -> str | None:
        return self._workspace if workspace is None else _storable(os.path.realpath(workspace))

    def _grant_session(self, session: str, tool: str, key: str) -> Approval:
        subject = (session, tool, key)
        if (granted := self._granted.get(subject)) is not None:
            return granted
        if len(self._granted) >= MAX_SESSION_APPROVALS:
            del self._granted[next(iter(self._granted))]
        # A letter keeps these apart from the numbers of the store.
        id_ = f"s{next(self._numbers)}"
        approval = Approval(id_, tool, key, "session", None, session, self._clock())
        self._granted[subject] = approval
        return approval

    def _notice_resets(self) -> None:
        """Drop approvals that a reset in another process has voided. If the store cannot be read, nothing changes."""
        if self._store is None:
            return
        try:
            resets = self._store.resets()
        except StoreError as problem:
            self._report_problem(problem)
            return
        if self._resets is not None and resets != self._resets:
            self._granted.clear()
        self._resets = resets

    def _report_problem(self, problem: StoreError) -> None:
        # A broken store fails at every look-up; one report is enough.
        if str(problem) != self._last_problem:
            self._last_problem = str(problem)
            self._on_problem(problem)


def _from_store(stored: StoredApproval) -> Approval:
    level: ApprovalLevel = "always" if stored.workspace is None else "workspace"
    return Approval(str(stored.id), stored.tool, stored.key, level, stored.workspace, None, stored.granted_at)


def _storable(text: str) -> str:
    """A unique form of `text` that is short enough to store and can be encoded."""
    # Half a surrogate pair, as in the name of a file that is not UTF-8, cannot be written.
    data = text.encode("utf-8", "surrogatepass")
    is_writable = data.decode("utf-8", "replace") == text
    # What looks like a digested text already is digested again, or it could pass for that other text.
    if len(text) <= MAX_KEY_LENGTH and is_writable and not _DIGESTED.search(text):
        return text
    excerpt = data[:_KEY_EXCERPT].decode("utf-8", "replace")
    return f"{excerpt}… (sha256 {hashlib.sha256(data).hexdigest()})"
