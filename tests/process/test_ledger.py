"""What a crash leaves behind is ended, and nothing else."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.process import Ledger, LedgerEntry, ProcessIdentity, identity as identity_module
from process.living import DEADLINE_SECONDS, alive, all_gone

DEAD = ProcessIdentity(2**22 + 17, "long ago")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "run" / "processes")


@pytest.fixture
def sleeper(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own: a shell with a child, or with the script that is given."""
    script: str = getattr(request, "param", "sleep 9999 & echo; wait")
    process = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(DEADLINE_SECONDS)
    process.stdout.close()


def identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    found = ProcessIdentity.of(process.pid)
    assert found is not None
    return found


def written_by(ledger: Ledger, owner: ProcessIdentity) -> Ledger:
    """The same folder, as another process of ours sees it."""
    other = Ledger(ledger._folder)
    other._owner = owner
    return other


async def test_recorded_and_forgotten(ledger: Ledger, sleeper: subprocess.Popen[bytes]) -> None:
    assert ledger.entries() == []
    assert await ledger.sweep() == []
    ledger.record(identity(sleeper), ["sh", "-c"])
    assert ledger.entries() == [LedgerEntry(identity(sleeper), ProcessIdentity.own(), ("sh", "-c"))]
    assert stat.S_IMODE(ledger._folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in ledger._folder.iterdir()] == [0o600]
    # Of another process that had the same pid.
    ledger.forget(ProcessIdentity(sleeper.pid, "another time"))
    assert len(ledger.entries()) == 1
    ledger.forget(identity(sleeper))
    ledger.forget(identity(sleeper))
    assert ledger.entries() == []


async def test_what_a_dead_owner_left_is_ended_with_its_group(
    ledger: Ledger, sleeper: subprocess.Popen[bytes]
) -> None:
    written_by(ledger, DEAD).record(identity(sleeper), ["sh"])
    before = identity(sleeper)
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert [entry.process for entry in await ledger.sweep()] == [before]
    assert alive([sleeper.pid]) == set()
    assert sleeper.wait(DEADLINE_SECONDS) == -signal.SIGTERM
    assert ledger.entries() == []


@pytest.mark.parametrize("sleeper", ["trap '' TERM; echo; while :; do sleep 0.05; done"], indirect=True)
async def test_one_that_does_not_heed_is_killed(ledger: Ledger, sleeper: subprocess.Popen[bytes]) -> None:
    written_by(ledger, DEAD).record(identity(sleeper), ["sh"])
    async with asyncio.timeout(DEADLINE_SECONDS):
        await ledger.sweep()
    assert sleeper.wait(DEADLINE_SECONDS) == -signal.SIGKILL


async def test_a_living_owner_keeps_its_own(ledger: Ledger, sleeper: subprocess.Popen[bytes]) -> None:
    ledger.record(identity(sleeper), ["sh"])
    assert await written_by(ledger, DEAD).sweep() == []
    assert alive([sleeper.pid]) == {sleeper.pid}
    assert len(ledger.entries()) == 1


async def test_a_reused_pid_is_never_touched(ledger: Ledger, sleeper: subprocess.Popen[bytes]) -> None:
    written_by(ledger, DEAD).record(ProcessIdentity(sleeper.pid, "another time"), ["sh"])
    assert await ledger.sweep() == []
    assert alive([sleeper.pid]) == {sleeper.pid}
    assert ledger.entries() == []


async def test_an_owner_whose_pid_was_reused_is_dead(
    ledger: Ledger, sleeper: subprocess.Popen[bytes]
) -> None:
    written_by(ledger, ProcessIdentity(os.getpid(), "another time")).record(identity(sleeper), ["sh"])
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert len(await ledger.sweep()) == 1
    await all_gone([sleeper.pid])


async def test_an_entry_that_cannot_be_read_is_dropped(
    ledger: Ledger, sleeper: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    ledger.record(identity(sleeper), ["sh"])
    (ledger._folder / "1.json").write_text("{")
    assert len(ledger.entries()) == 1
    assert await ledger.sweep() == []
    assert "cannot be read: 1.json" in caplog.text
    assert len(list(ledger._folder.iterdir())) == 1


async def test_one_that_ends_between_two_looks(
    ledger: Ledger, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    written_by(ledger, DEAD).record(identity(sleeper), ["sh"])
    lives = iter([False, True])
    monkeypatch.setattr(ProcessIdentity, "lives", lambda self: next(lives, False))
    assert len(await ledger.sweep()) == 1
    monkeypatch.undo()
    assert alive([sleeper.pid]) == {sleeper.pid}


# Identities.


def test_an_identity_is_the_same_at_every_look_and_another_for_another() -> None:
    mine = ProcessIdentity.own()
    assert mine == ProcessIdentity.of(os.getpid())
    assert mine.lives()
    assert not ProcessIdentity(mine.pid, "another time").lives()
    assert ProcessIdentity.of(DEAD.pid) is None
    assert ProcessIdentity.of(os.getppid()) not in (mine, None)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system cannot wait without reaping")
def test_what_remains_of_an_ended_process_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    for look in (ProcessIdentity.of, identity_module._started_from_ps):
        assert look(process.pid) is None
    process.wait(DEADLINE_SECONDS)


def test_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    mine = ProcessIdentity.own()
    monkeypatch.setenv("TZ", "America/Lima")
    assert mine == ProcessIdentity.of(os.getpid())
    assert mine.started.count(":") == 2
    assert ProcessIdentity.of(DEAD.pid) is None


def test_where_there_is_nothing_to_ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="does not report when a process started"):
        ProcessIdentity.own()


def test_i7_what_could_not_be_forgotten_for_want_of_files_is_with_the_next(ledger: Ledger) -> None:
    other = ProcessIdentity(DEAD.pid + 1, "long ago")
    for process in (DEAD, other):
        ledger.record(process, ["agent"])
    os.close(free := os.open(os.devnull, os.O_RDONLY))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        ledger.forget(DEAD)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(ledger.entries()) == 2
    ledger.forget(other)
    assert ledger.entries() == []


def test_i7_half_an_entry_is_not_left_on_a_disk_that_is_full(ledger: Ledger) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            ledger.record(DEAD, ["agent"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(ledger._folder.iterdir()) == []
