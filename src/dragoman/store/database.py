"""The one SQLite file in the state folder: opening it, bringing it up to date, and saying what is wrong with it.

Several processes use it at once: write-ahead logging lets them read while one writes, and each write is one short
transaction that waits a moment for the others. What is in it decides what may run, so only its owner may read or
write it.

The schema is a list of migrations. `PRAGMA user_version` is how many of them a file has been through; they are never
edited, only added to.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import msgspec

from dragoman.store.errors import JournalStoreError
from dragoman.store.from_0_1 import import_conversations

__all__ = [
    "BUSY_SECONDS",
    "FILE_NAME",
    "MIGRATIONS",
    "Database",
    "StoreBusy",
    "StoreError",
    "Value",
    "private_folder",
]

_log = logging.getLogger(__name__)

FILE_NAME = "dragoman.db"

# How long to wait for another process's write. Ours take milliseconds; one that takes longer than this is stuck, and
# meanwhile this process answers no request.
BUSY_SECONDS = 2.0
# Between two attempts at what SQLite does not wait for by itself.
_RETRY_SECONDS = 0.01

_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600

# A page is written whole with every change in it, and most of our changes are small.
_PAGE_BYTES = 512
# A larger file of before stays as it is: rewriting it would take seconds.
_MOST_REWRITTEN_BYTES = 64 * 1024 * 1024

MIGRATIONS: tuple[tuple[str | Callable[[Database], None], ...], ...] = (
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
    (
        # `deleted`: only decisions are left of it. Its number is never given to another.
        """
        CREATE TABLE journals (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            model TEXT NOT NULL,
            workspace TEXT NOT NULL,
            connection TEXT NOT NULL,
            title TEXT NOT NULL,
            parent TEXT,
            started_at REAL NOT NULL,
            deleted INTEGER NOT NULL DEFAULT 0
        )
        """,
        "CREATE INDEX journals_by_parent ON journals (parent) WHERE parent IS NOT NULL",
        # What changes with every append, in rows that are as short as can be.
        """
        CREATE TABLE journal_heads (
            number INTEGER PRIMARY KEY,
            sequence INTEGER NOT NULL DEFAULT 0,
            owner TEXT NOT NULL DEFAULT '',
            leased_until REAL NOT NULL DEFAULT 0,
            used_at REAL NOT NULL
        )
        """,
        # The key is the journal's number and the last sequence number in the row: see `journals.py`.
        "CREATE TABLE journal_entries (key INTEGER PRIMARY KEY, content BLOB NOT NULL)",
        "CREATE TABLE journal_snapshots (number INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, content BLOB NOT NULL)",
        # Where the requests for permissions and their decisions stand.
        "CREATE TABLE journal_permissions (at REAL NOT NULL, number INTEGER NOT NULL, sequence INTEGER NOT NULL)",
        "CREATE INDEX journal_permissions_by_time ON journal_permissions (at)",
        # When a process last looked at the system's time.
        "CREATE TABLE journal_clock (seen_at REAL NOT NULL)",
        "INSERT INTO journal_clock VALUES (CAST(strftime('%s', 'now') AS REAL))",
        # Those of 0.1 that could not be read, and when that was seen.
        "CREATE TABLE unreadable_conversations (id TEXT NOT NULL, at REAL NOT NULL, content BLOB NOT NULL)",
        import_conversations,
    ),
    (
        # The items that a response or a conversation (`owner`) has: eight bytes for each, a hash of its id. One row for each
        # owner costs little to write, and the newest are searched first. It goes with its owner, however that is deleted.
        "CREATE TABLE stored_items (number INTEGER PRIMARY KEY, owner TEXT NOT NULL UNIQUE, keys BLOB NOT NULL)",
        """
        CREATE TRIGGER stored_items_of_response AFTER DELETE ON responses
        BEGIN DELETE FROM stored_items WHERE owner = OLD.id; END
        """,
        """
        CREATE TRIGGER stored_items_of_conversation AFTER UPDATE OF deleted ON journals
        WHEN NEW.kind = 'items' AND NEW.deleted
        BEGIN DELETE FROM stored_items WHERE owner = OLD.id; END
        """,
    ),
    # The program that began a conversation, by its own name.
    ("ALTER TABLE journals ADD COLUMN program TEXT NOT NULL DEFAULT ''",),
)

Value = str | int | float | bytes | None
_Row = TypeVar("_Row")
_T = TypeVar("_T")


class StoreError(JournalStoreError):
    """The file cannot be used: what is wrong, and what to do about it."""

    def __init__(self, path: Path, problem: str, hint: str) -> None:
        super().__init__(f"{path}: {problem} {hint}")
        self.path = path
        self.problem = problem
        self.hint = hint


class StoreBusy(StoreError):
    """Another process is writing."""


class Database:
    """An open database. Belongs to the thread that opened it; the caller of `open` closes it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path
        # Whether SQLite waits for other processes now.
        self._waits = True
        # Whether to wait at all. After one wait in vain, we do not wait again until a write has succeeded.
        self._is_patient = True

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
                _use_small_pages(connection, path)
                _use_wal(connection)
                # With write-ahead logging a commit survives the end of this process, however it ends. When the machine
                # itself goes down, the last ones may be missing.
                connection.execute("PRAGMA synchronous = NORMAL")
                # What is deleted or replaced is overwritten, and not only unlinked.
                connection.execute("PRAGMA secure_delete = ON")
            database._migrate()
        except BaseException:
            database.close()
            raise
        return database

    @classmethod
    def in_memory(cls) -> Database:
        """A database that ends with this object. Nothing of it is written to a file."""
        path = Path(":memory:")
        with _mapped(path):
            database = cls(sqlite3.connect(path, isolation_level=None), path)
            # Otherwise a large sort would go into a temporary file.
            database._connection.execute("PRAGMA temp_store = MEMORY")
        database._migrate()
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
        with self._transaction(waits=self._is_patient):
            yield self

    async def write(self, work: Callable[[Database], _T]) -> _T:
        """Do `work` in a transaction. While another process writes, this one does other things."""
        deadline = time.monotonic() + (BUSY_SECONDS if self._is_patient else 0)
        while True:
            try:
                with self._transaction(waits=False):
                    return work(self)
            except StoreBusy:
                # The next attempt within the time counts as the same wait.
                self._is_patient = time.monotonic() <= deadline
                if not self._is_patient:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    @contextmanager
    def _transaction(self, *, waits: bool) -> Iterator[None]:
        with _mapped(self.path):
            self._wait_for_others(waits=waits)
            try:
                # Immediate: two that read first and then both want to write would each wait for the other.
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if _primary_code(error) == sqlite3.SQLITE_BUSY:
                    self._is_patient = False
                raise
            self._is_patient = True
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite has already rolled back after some errors, a full disk among them.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

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

    async def scrub(self) -> None:
        """Remove what was deleted from every page of the file. `secure_delete` leaves what a split of a page had copied.

        The file is written anew, in a thread: other writers wait for it as for any process. A very large file is not.
        """
        if not self.path.exists():
            # In memory.
            return
        if self.path.stat().st_size > _MOST_REWRITTEN_BYTES:
            _log.warning(
                "%s is too large to be written anew: copies of what was deleted may be in it", self.path
            )
        else:
            try:
                await asyncio.to_thread(_rewrite, self.path)
            except sqlite3.Error as error:
                _log.warning("copies of what was deleted may be in %s: %s", self.path, error)
        if not self.purge():
            _log.warning("what was deleted stays in %s-wal until other processes have read it", self.path)

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
                for step in migration:
                    if isinstance(step, str):
                        self.execute(step)
                    else:
                        step(self)
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


def _use_small_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Set the page size of a new file, and rewrite a small one of before unless another process has it open."""
    [size] = connection.execute("PRAGMA page_size").fetchone()
    if size == _PAGE_BYTES or path.stat().st_size > _MOST_REWRITTEN_BYTES:
        return
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    if not path.stat().st_size:
        return
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if _primary_code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL):
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1_000)}")


def _rewrite(path: Path) -> None:
    with closing(
        sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=BUSY_SECONDS)
    ) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("VACUUM")


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
            return StoreBusy(
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
