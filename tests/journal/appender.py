"""Processes that append, and die: `python -m journal.appender`.

Each line of the input is an order as JSON. A process of its own carries it out, which is made by a fork, so that there can be
hundreds. It writes on the output what it has done, and at last how it ended. An order may say when the process dies:

- `statement`: it kills itself before the n-th statement that SQLite executes;
- `bytes`: the system kills it when SQLite's log would grow by more than this after the first `whole` appends: a part of the
  write is done then.

With arguments (folder, journal, name) it is one process that takes part in a race.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.journal import snapshots
from dragoman.journal.agent_events import SessionChanged
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JournalConflict
from dragoman.journal.writer import Journals, JournalWriter
from dragoman.store import Database
from dragoman.store.database import FILE_NAME
from journal.turns import appends_of

__all__ = ["Order"]


class Order(msgspec.Struct, frozen=True):
    folder: str
    # append; or only open, which migrates what was stored before.
    what: Literal["append", "open"] = "append"
    journal: str = "one"
    # How many appends, beginning after this sequence number.
    appends: int = 0
    after: int = 0
    statement: int | None = None
    bytes: int | None = None
    whole: int = 0
    # A snapshot after so many bytes, and a checkpoint after so many pages: few, so that they are met.
    snapshot_bytes: int = 2_000
    checkpoint_pages: int = 40


def _say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main() -> None:
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=Order)
        pid = os.fork()
        if pid == 0:
            _carry_out(order)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        _say("ended", os.waitstatus_to_exitcode(status))


def _carry_out(order: Order) -> None:
    _say("pid", os.getpid())
    if order.statement is not None:
        _kill_at_statement(order.statement)
    with Database.open(Path(order.folder)) as database:
        if order.what == "append":
            snapshots.SNAPSHOT_BYTES = order.snapshot_bytes
            database.rows(tuple[int], f"PRAGMA wal_autocheckpoint = {order.checkpoint_pages}")
            asyncio.run(_append(SqliteJournals(database), order))
    _say("done")


def _kill_at_statement(number: int) -> None:
    left = number
    connect = sqlite3.connect

    def count(_sql: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def connected(*arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = connected  # type: ignore[assignment]


def _limit_files(size: int) -> None:
    """A write that would make a file larger is done up to there, and the next one kills this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


async def _append(store: SqliteJournals, order: Order) -> None:
    writer = JournalWriter(Journals(store), order.journal, order.after)
    writer.hold(holds=True)
    number, made, sequence = 0, 0, 0
    while made < order.appends:
        number += 1
        for events in appends_of(number):
            sequence += len(events)
            if sequence <= order.after:
                continue
            if order.bytes is not None and made == order.whole:
                log = Path(order.folder) / f"{FILE_NAME}-wal"
                _limit_files(log.stat().st_size + order.bytes)
            writer.add(*events)
            await writer.flush()
            _say("stored", writer.sequence)
            made += 1


async def _race(folder: str, journal: str, name: str) -> None:
    """Each line of the input is what to try and a sequence number; each line of the output is what came of it."""
    with Database.open(Path(folder)) as database:
        store = SqliteJournals(database)
        _say("ready")
        for line in sys.stdin:
            what, expected = line.split()
            if what == "claim":
                found = await store.claim(journal, int(expected))
                _say(found)
            elif what == "release":
                await store.release(journal)
                _say("released")
            else:
                try:
                    event = SessionChanged(f"{name} {expected}")
                    await store.append(journal, int(expected), [(time.time(), event)], holds=False)
                    _say("stored")
                except JournalConflict:
                    _say("conflict")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_race(*sys.argv[1:]))
    else:
        main()
