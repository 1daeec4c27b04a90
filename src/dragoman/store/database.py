"""The one SQLite file in the state folder: opening it, bringing it up to date, and saying what is wrong with it.

Several processes use it at once: write-ahead logging lets them read while one writes, and each write is one short
transaction that waits a moment for the others. What is in it decides what may run, so only its owner may read or
write it.

The schema is a list of migrations. `PRAGMA user_version` is how many of them a file has been through; they are never
edited, only added to.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import msgspec

__all__ = ["BUSY_SECONDS", "FILE_NAME", "MIGRATIONS", "Database", "StoreError", "Value", "private_folder"]

FILE_NAME = "dragoman.db"

# How long to wait for another process's write. Ours take milliseconds; one that takes longer than this is stuck, and
# meanwhile this process answers no request.
BUSY_SECONDS = 2.0
# Between two attempts at what SQLite does not wait for by itself.
_RETRY_SECONDS = 0.01

_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # `workspace` is null for an approval that holds everywhere. Numbers are never given twice, so that an old
        # list cannot revoke a new approval.
        """
        CREATE TABLE approvals (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            tool TEXT NOT NULL,
            key TEXT NOT NULL,
            workspace TEXT,
            granted_at TEXT NOT NULL
        )
        """,
        # Null is not equal to null, but there is only one everywhere.
        "CREATE UNIQUE INDEX approvals_by_subject ON approvals (tool, key, ifnull(workspace, ''))",
        # How often everything was reset. A process that holds approvals in memory learns by it that they are void.
        "CREATE TABLE approval_resets (count INTEGER NOT NULL)",
        "INSERT INTO approval_resets VALUES (0)",
    ),
    (
        """
        CREATE TABLE conversations (
            id TEXT PRIMARY KEY,
            model TEXT NOT NULL,
            title TEXT NOT NULL,
            workspace TEXT NOT NULL,
            owner TEXT NOT NULL,
            used_at TEXT NOT NULL,
            content BLOB NOT NULL
        )
        """,
        "CREATE INDEX conversations_by_model ON conversations (model)",
        # What authenticates markers and call ids.
        "CREATE TABLE keys (name TEXT PRIMARY KEY, key BLOB NOT NULL)",
    ),
    (
        # An owner's lease ends at a time, so that no process waits for one that hangs.
        "ALTER TABLE conversations ADD COLUMN leased_until REAL NOT NULL DEFAULT 0",
        # Grows with every change of any conversation: what another process has changed is what has grown since.
        "ALTER TABLE conversations ADD COLUMN revision INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX conversations_by_revision ON conversations (revision)",
        # The latest of all, also of those that have been deleted.
        "CREATE TABLE conversation_revisions (count INTEGER NOT NULL)",
        "INSERT INTO conversation_revisions VALUES (0)",
    ),
    (
        """
        CREATE TABLE responses (
            id TEXT PRIMARY KEY,
            connection TEXT NOT NULL,
            previous TEXT,
            used_at TEXT NOT NULL,
            content BLOB NOT NULL,
            size INTEGER NOT NULL
        )
        """,
        # With the size, so that the rows beyond the limit are found without reading their content.
        "CREATE INDEX responses_by_use ON responses (used_at, size)",
    ),
    (
        # What an agent was seen to do, as its back end writes it.
        """
        CREATE TABLE agents_learnt (
            name TEXT NOT NULL,
            version TEXT NOT NULL,
            facts BLOB NOT NULL,
            seen_at TEXT NOT NULL,
            PRIMARY KEY (name, version)
        )
        """,
    ),
    (
        # The conversation that a response belongs to: it goes with the last of its responses.
        "ALTER TABLE responses ADD COLUMN conversation TEXT",
        "CREATE INDEX responses_by_conversation ON responses (conversation)",
    ),
)

Value = str | int | float | bytes | None
_Row = TypeVar("_Row")


class StoreError(Exception):
    """The file cannot be used: what is wrong, and what to do about it."""

    def __init__(self, path: Path, problem: str, hint: str) -> None:
        super().__init__(f"{path}: {problem} {hint}")
        self.path = path
        self.problem = problem
        self.hint = hint


class Database:
    """An open database file. Belongs to the thread that opened it; the caller of `open` closes it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path
        # Whether to wait for other processes. After one wait in vain, we do not wait again until it is done.
        self._waits = True

    @classmethod
    def open(cls, folder: Path) -> Database:
        """Open the database in `folder`. Both are created, private to this user, if they are missing."""
        path = folder / FILE_NAME
        try:
            private_folder(folder)
            _prepare_file(path)
        except OSError as error:
            raise StoreError(
                path,
                f"The state folder cannot be used ({error.strerror}).",
                "Choose another with --state-dir.",
            ) from error
        with _mapped(path):
            # `rw`, not `rwc`: were it SQLite that makes the file, others could read it.
            connection = sqlite3.connect(
                f"file:{quote(str(path))}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None
            )
        database = cls(connection, path)
        try:
            with _mapped(path):
                connection.execute("PRAGMA foreign_keys = ON")
                _use_wal(connection)
                # With write-ahead logging a commit survives us in any case. Only when the machine itself goes down may
                # the last ones be missing, and then no process has acted on them.
                connection.execute("PRAGMA synchronous = NORMAL")
                # What is deleted or replaced is overwritten, and not only unlinked.
                connection.execute("PRAGMA secure_delete = ON")
            database._migrate()
        except BaseException:
            database.close()
            raise
        return database

    def rows(self, row: type[_Row], sql: str, *parameters: Value) -> list[_Row]:
        """The rows of a query, each as a `row`: a type that msgspec can make of a sequence of columns."""
        with _mapped(self.path):
            found = self._connection.execute(sql, parameters).fetchall()
        try:
            return msgspec.convert(found, list[row])  # type: ignore[valid-type] # a type made at run time
        except msgspec.ValidationError as error:
            raise _damaged(self.path, str(error)) from error

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """A transaction: everything in it happens, or nothing does."""
        with _mapped(self.path):
            # Immediate: two that read first and then both want to write would each wait for the other.
            self._begin()
            try:
                yield self
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite has already rolled back after some errors, a full disk among them.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _begin(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if _primary_code(error) == sqlite3.SQLITE_BUSY:
                self._wait_for_others(waits=False)
            raise
        self._wait_for_others(waits=True)

    def _wait_for_others(self, *, waits: bool) -> None:
        if waits != self._waits:
            self._waits = waits
            self._connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1_000) if waits else 0}")

    def execute(self, sql: str, *parameters: Value) -> int:
        """A statement that changes rows, inside `writing`. Returns how many it changed."""
        with _mapped(self.path):
            return self._connection.execute(sql, parameters).rowcount

    def purge(self) -> bool:
        """Remove deleted data from the write-ahead log. False while another process reads from it."""
        [(busy, _, _)] = self.rows(tuple[int, int, int], "PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    def version_seen(self) -> int:
        """A number that changes when other processes have written. Our own writes do not count."""
        [(version,)] = self.rows(tuple[int], "PRAGMA data_version")
        return version

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _migrate(self) -> None:
        if self._version() == len(MIGRATIONS):
            return
        with self.writing():
            # Another process may have been quicker.
            version = self._version()
            if version > len(MIGRATIONS):
                raise StoreError(
                    self.path,
                    f"It was written by a newer Dragoman (schema {version}; this one knows up to {len(MIGRATIONS)}).",
                    "Update Dragoman, or choose another folder with --state-dir.",
                )
            for migration in MIGRATIONS[version:]:
                for statement in migration:
                    self.execute(statement)
            # The number cannot be a parameter; it is ours.
            self.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _version(self) -> int:
        [(version,)] = self.rows(tuple[int], "PRAGMA user_version")
        return version


def private_folder(folder: Path) -> None:
    """Create `folder` for this user alone. The permissions of an existing folder that is not empty stay unchanged."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(_PRIVATE_FOLDER)
    except FileExistsError:
        if any(folder.iterdir()):
            return
        folder.chmod(_PRIVATE_FOLDER)


def _prepare_file(path: Path) -> None:
    # SQLite gives the files beside this one, -wal and -shm, the same mode. An existing file is not opened here:
    # closing it would drop the locks that other connections of this process hold on it.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _PRIVATE_FILE))
    except FileExistsError:
        status = path.stat()
        if status.st_uid != os.geteuid():
            raise StoreError(
                path, "It belongs to another user.", "Choose a folder of your own with --state-dir."
            ) from None
        if stat.S_IMODE(status.st_mode) != _PRIVATE_FILE:
            path.chmod(_PRIVATE_FILE)


def _use_wal(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # When two processes change the mode of a new file at once, SQLite fails one of them at once,
            # without waiting.
            if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


@contextmanager
def _mapped(path: Path) -> Iterator[None]:
    """Translate SQLite's errors into `StoreError`, which says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(path, error) from error


def _explained(path: Path, error: sqlite3.Error) -> StoreError:
    match _primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                path,
                "Another process has been writing to it for too long.",
                "End that process, or try again.",
            )
        case sqlite3.SQLITE_FULL:
            return StoreError(path, "The disk is full.", "Make room, then try again.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreError(
                path,
                f"It cannot be written ({error}).",
                "Make it and its folder writable, or choose another with --state-dir.",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damaged(path, str(error))
        case _:
            return StoreError(
                path, f"SQLite failed ({error}).", "Try again; if it stays so, move the file away."
            )


def _damaged(path: Path, detail: str) -> StoreError:
    return StoreError(
        path, f"It is damaged ({detail}).", "Move it away and start again; what was stored in it is lost."
    )


def _primary_code(error: sqlite3.Error) -> int:
    # Misuse of the Python module (a closed connection) has no code. The low byte says what kind of failure it was.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF
