"""J1: what was acknowledged survives `kill -9` at any moment, also in the middle of a write.

Real processes append to real files (`appender.py`). They are killed at moments that nobody chooses, before each statement
of a transaction, and in the middle of each write. After each kill another process takes the journal up at once.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest

from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.events import AnyEvent
from dragoman.journal.fold import ConversationFold
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.store import Database
from dragoman.store.database import FILE_NAME
from journal.appender import Order
from journal.turns import appends_of

_TESTS = Path(__file__).parents[1]
# More than any child here appends.
_TURNS = 400


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_TESTS)}


class Appenders:
    """Orders for processes, and what each of them said."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "journal.appender"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            text=True,
        )

    def run(self, order: Order, kill_after: int | None = None, moment: float = 0.0) -> tuple[int, int]:
        """The last sequence number that it acknowledged, and its status. `kill_after` is a number of acknowledgements."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(order).decode() + "\n")
        process.stdin.flush()
        process_fd, last, acknowledged = -1, order.after, 0
        for line in process.stdout:
            word, *values = line.split()
            match word:
                case "pid":
                    # By a descriptor: its number may belong to another process when it is killed. It may have ended
                    # already, where it dies before its first statement.
                    with suppress(ProcessLookupError):
                        process_fd = os.pidfd_open(int(values[0]))
                case "stored":
                    last = int(values[0])
                    acknowledged += 1
                    if acknowledged == kill_after and process_fd >= 0:
                        _spend(moment)
                        # On a busy machine it may have ended meanwhile.
                        with suppress(ProcessLookupError):
                            signal.pidfd_send_signal(process_fd, signal.SIGKILL)
                case "ended":
                    if process_fd >= 0:
                        os.close(process_fd)
                    return last, int(values[0])
                case _:
                    assert word == "done"
        raise AssertionError("the appender has ended")

    def close(self) -> None:
        self._process.communicate(timeout=30)


def _spend(moment: float) -> None:
    """So long that the other process comes to some point of its next appends. A sleep would be too coarse."""
    for _ in range(int(moment * 20_000)):
        pass


@pytest.fixture(scope="module")
def appenders() -> Iterator[Appenders]:
    running = Appenders()
    yield running
    running.close()


_APPENDS = [append for number in range(1, _TURNS) for append in appends_of(number)]
_EVENTS: list[AnyEvent] = [event for append in _APPENDS for event in append]
# After each append, the sequence number.
_ENDS = list(accumulate(map(len, _APPENDS)))


async def _checked(folder: Path, journal: str, acknowledged: int) -> int:
    """The last sequence number, of a journal that has everything acknowledged, and whole appends, in order."""
    with Database.open(folder) as database:
        store = SqliteJournals(database)
        entries = await store.read(journal)
        last = len(entries)
        assert [entry.sequence for entry in entries] == list(range(1, last + 1))
        assert [entry.event for entry in entries] == _EVENTS[:last]
        assert last >= acknowledged, "what was acknowledged is lost"
        following = next(end for end in _ENDS if end > acknowledged)
        assert last in (acknowledged, following), "half an append, or more than was made"
        if not last:
            assert await store.find(journal) is None
            return 0
        found = await store.state(journal)
        expected = ConversationFold(journal).apply_all(_EVENTS[:last]).state
        assert found == (expected, last)
        decided = [
            entry for entry in entries if isinstance(entry.event, PermissionRequested | PermissionDecided)
        ]
        assert [entry for id_, entry in await store.permissions(0) if id_ == journal] == decided
        assert await store.claim(journal, last) == "ours", "nobody waits for a process that is dead"
        await store.release(journal)
        return last


async def _kill_many(appenders: Appenders, folder: Path, rounds: int) -> None:
    chance = random.Random(17)  # noqa: S311 - no secret
    last, journal, killed = 0, "", 0
    for each in range(rounds):
        if each % 20 == 0 or last > _ENDS[len(_ENDS) // 2]:
            last, journal = 0, f"journal {each}"
        order = Order(str(folder), journal=journal, appends=len(_ENDS) // 3, after=last)
        acknowledged, status = appenders.run(
            order, kill_after=chance.randrange(1, 10), moment=chance.random()
        )
        killed += status == -signal.SIGKILL
        last = await _checked(folder, journal, acknowledged)
    assert killed > rounds / 2, "most of them were killed in the middle of their work"


async def test_j1_what_was_acknowledged_survives_a_kill_at_any_moment(
    appenders: Appenders, tmp_path: Path
) -> None:
    await _kill_many(appenders, tmp_path / "state", 20)


@pytest.mark.long
async def test_j1_what_was_acknowledged_survives_hundreds_of_kills(
    appenders: Appenders, tmp_path: Path
) -> None:
    await _kill_many(appenders, tmp_path / "state", 500)


async def _kill_at_each_statement(appenders: Appenders, tmp_path: Path, appends: int) -> int:
    """How many statements it takes; before each of them a process was killed."""
    first = 0
    for statement in range(10_000):
        folder = tmp_path / f"{statement}"
        order = Order(str(folder), appends=appends, statement=statement, snapshot_bytes=500)
        acknowledged, status = appenders.run(order)
        await _checked(folder, "one", acknowledged)
        if status == 0:
            return statement - first
        assert status == -signal.SIGKILL
        first = statement if not acknowledged else first
        shutil.rmtree(folder)
    raise AssertionError("it never ends")


async def test_j1_a_kill_before_any_statement_loses_nothing(appenders: Appenders, tmp_path: Path) -> None:
    """Of opening, migrating, and appending, with a snapshot and a checkpoint."""
    assert await _kill_at_each_statement(appenders, tmp_path, 2) > 10


@pytest.mark.long
async def test_j1_a_kill_before_any_statement_of_many_appends_loses_nothing(
    appenders: Appenders, tmp_path: Path
) -> None:
    assert await _kill_at_each_statement(appenders, tmp_path, 12) > 60


async def _kill_in_writes(appenders: Appenders, tmp_path: Path, step: int) -> int:
    """Die when the log would grow beyond each size: the write that does it is torn there. Returns how many died."""
    # So many that the log is larger than any other file: only writes to it meet the limit.
    whole, killed, size = 40, 0, 0
    while True:
        folder = tmp_path / f"{size}"
        order = Order(str(folder), appends=whole + 6, whole=whole, bytes=size, checkpoint_pages=10_000)
        acknowledged, status = appenders.run(order)
        last = await _checked(folder, "one", acknowledged)
        shutil.rmtree(folder)
        if status == 0:
            return killed
        assert status == -signal.SIGXFSZ
        # Perhaps after the last append, in the snapshot that followed it.
        assert _ENDS[whole - 1] <= acknowledged <= last <= _ENDS[whole + 5]
        killed += 1
        size += step


async def test_j1_a_write_that_is_torn_by_a_kill_leaves_whole_appends(
    appenders: Appenders, tmp_path: Path
) -> None:
    assert await _kill_in_writes(appenders, tmp_path, 991) > 5


@pytest.mark.long
async def test_j1_writes_torn_in_hundreds_of_places_leave_whole_appends(
    appenders: Appenders, tmp_path: Path
) -> None:
    assert await _kill_in_writes(appenders, tmp_path, 47) > 150


# Torn writes of a machine that lost its power: the end of the log is missing.


async def _cut_log(tmp_path: Path, offsets: range | None) -> int:
    """Cut the log at these offsets of its last appends, or at every byte: what is there is whole appends up to there."""
    state, copy = tmp_path / "state", tmp_path / "copy"
    sizes: list[int] = []
    with Database.open(state) as database:
        database.purge()
        store = SqliteJournals(database)
        sequence = 0
        for events in _APPENDS[:8]:
            sequence = await store.append("one", sequence, [(1.0, event) for event in events], holds=False)
            sizes.append((state / f"{FILE_NAME}-wal").stat().st_size)
        base, log = (state / FILE_NAME).read_bytes(), (state / f"{FILE_NAME}-wal").read_bytes()
    copy.mkdir(mode=0o700)
    places = range(sizes[-3], len(log) + 1) if offsets is None else offsets
    for place in places:
        (copy / FILE_NAME).write_bytes(base)
        (copy / f"{FILE_NAME}-wal").write_bytes(log[:place])
        whole = sum(size <= place for size in sizes)
        with Database.open(copy) as database:
            entries = await SqliteJournals(database).read("one")
            assert [entry.event for entry in entries] == _EVENTS[: _ENDS[whole - 1] if whole else 0], place
        for file in copy.iterdir():
            file.unlink()
    return len(places)


async def test_a_log_that_is_cut_anywhere_has_whole_appends(tmp_path: Path) -> None:
    assert await _cut_log(tmp_path, range(0, 14_000, 211)) > 50


@pytest.mark.long
async def test_a_log_that_is_cut_at_every_byte_of_its_last_appends_has_whole_appends(tmp_path: Path) -> None:
    assert await _cut_log(tmp_path, None) > 1_000
