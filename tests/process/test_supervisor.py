"""The supervisor itself, run in here where a debugger and a coverage report can see it."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.process import SupervisedProcess, launch, supervisor
from dragoman.process.supervisor import (
    Supervisor,
    _become as become,
    _let_go as let_go,
    adopt_orphans,
    descendants,
    encode_order,
    processes,
)
from process.living import SETSID_SLEEP, alive, all_gone, line_from

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


class Owner:
    """The other end of the channel."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.settimeout(30)

    def order(self, *command: str, folder: str | None = None, grace: float = 0.05) -> None:
        environment = {b"PATH": os.fsencode(os.environ["PATH"])}
        self.send(
            encode_order(
                (
                    [os.fsencode(word) for word in command],
                    environment,
                    None if folder is None else os.fsencode(folder),
                    grace,
                )
            )
        )

    def send(self, data: bytes) -> None:
        self._ours.sendall(data)

    def leave(self) -> None:
        """Half, so that a test can still hear."""
        self._ours.shutdown(socket.SHUT_WR)

    def heard(self) -> list[str]:
        self.theirs.close()
        with self._ours, self._ours.makefile() as lines:
            return lines.read().splitlines()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a supervisor does to its own process must not happen to this one for good."""
    numbers = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    monkeypatch.setattr(supervisor, "_let_go", lambda: None)
    monkeypatch.setattr(supervisor, "adopt_orphans", lambda: True)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run(owner: Owner) -> list[str]:
    supervising = Supervisor(owner.theirs.fileno())
    try:
        supervising.run()
    finally:
        os.close(signal.set_wakeup_fd(-1))
        os.close(supervising._wake)
    return owner.heard()


@pytest.mark.parametrize(
    ("script", "last"), [("exit 3", "exited 3"), ("kill -9 $$", "signalled 9"), ("exit 0", "exited 0")]
)
def test_it_tells_how_the_child_started_and_ended(owner: Owner, script: str, last: str) -> None:
    owner.order("/bin/sh", "-c", script)
    first, *rest = run(owner)
    assert first.startswith("started ")
    assert rest == [last]


@pytest.mark.parametrize(
    ("command", "folder", "failure"),
    [
        ("no-such-command", None, f"failed command {errno.ENOENT}"),
        ("/", None, f"failed command {errno.EACCES}"),
        ("cat", "/no/such/folder", f"failed folder {errno.ENOENT}"),
        ("nul\0l", None, f"failed command {errno.EINVAL}"),
    ],
)
def test_it_tells_what_failed(owner: Owner, command: str, folder: str | None, failure: str) -> None:
    owner.order(command, folder=folder)
    assert run(owner) == [failure]
    os.wait()


@pytest.mark.parametrize("part", [b"", b"\0\0\0", b"\0\0\0\0\0\0\0\x09abc"])
def test_an_owner_that_goes_before_it_has_ordered(owner: Owner, part: bytes) -> None:
    owner.send(part)
    owner.leave()
    assert run(owner) == []


@pytest.mark.parametrize("adopting", [True, False])
def test_when_the_owner_goes_so_does_the_child(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, *, adopting: bool
) -> None:
    monkeypatch.setattr(supervisor, "adopt_orphans", lambda: adopting)
    owner.order("sleep", "9999")
    owner.leave()
    first, *rest = run(owner)
    assert rest == ["signalled 15"]
    assert alive([int(first.split()[1])]) == set()


@pytest.mark.parametrize("adopting", [True, False])
def test_a_child_that_does_not_heed_is_killed_after_the_new_grace(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, adopting: bool
) -> None:
    monkeypatch.setattr(supervisor, "adopt_orphans", lambda: adopting)
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)

    def leave_when_ready() -> None:
        fifo.read_text()
        owner.send(b"0.")
        owner.send(b"1\n")
        owner.leave()

    leaving = threading.Thread(target=leave_when_ready)
    leaving.start()
    owner.order("/bin/sh", "-c", f"trap '' TERM; echo > {fifo}; while :; do sleep 0.02; done", grace=9999)
    assert run(owner)[1:] == ["signalled 9"]
    leaving.join()


def test_a_signal_to_it_is_as_good_as_an_owner_that_goes(owner: Owner, tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)

    def terminate_when_ready() -> None:
        fifo.read_text()
        os.kill(os.getpid(), signal.SIGTERM)

    terminating = threading.Thread(target=terminate_when_ready)
    terminating.start()
    owner.order("/bin/sh", "-c", f"echo > {fifo}; exec sleep 9999")
    assert run(owner)[1:] == ["signalled 15"]
    terminating.join()


def test_a_broken_channel_is_an_owner_that_is_gone(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the other end is closed with unread words in it."""
    owner.order("sleep", "9999")
    read = os.read

    def reset(fd: int, size: int) -> bytes:
        data = read(fd, size)
        if fd == owner.theirs.fileno() and not data:
            raise ConnectionResetError
        return data

    monkeypatch.setattr(os, "read", reset)
    owner.leave()
    assert run(owner)[1:] == ["signalled 15"]


def test_nobody_to_tell_is_no_reason_to_stop(owner: Owner) -> None:
    owner.order("/bin/sh", "-c", "exit 0")
    owner._ours.close()
    owner._ours, _ = socket.socketpair()
    _.close()
    assert run(owner) == []


def test_the_processes_there_are() -> None:
    table = processes()
    assert table[os.getpid()] == (os.getppid(), os.getpgrp())
    assert os.getpid() in descendants(table, os.getppid())
    listed = processes("/no/such/folder")
    assert listed[os.getpid()] == table[os.getpid()]


def test_a_process_that_ends_while_it_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "17").mkdir()
    (tmp_path / "18").mkdir()
    (tmp_path / "18" / "stat").write_bytes(b"18 (odd) name)) S 1 5 5 0")
    (tmp_path / "self").mkdir()
    assert processes(str(tmp_path)) == {18: (1, 5)}


def test_descendants_are_found_parents_first() -> None:
    table = {1: (0, 1), 2: (1, 2), 3: (2, 3), 4: (1, 4), 5: (3, 3), 6: (9, 6)}
    assert descendants(table, 1) == [2, 4, 3, 5]
    assert descendants(table, 5) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux adopts")
def test_orphans_are_adopted() -> None:
    assert adopt_orphans()
    orphan = subprocess.run(
        ["/bin/sh", "-c", "sleep 9999 >/dev/null & echo $!"], stdout=subprocess.PIPE, check=True, timeout=30
    )
    pid = int(orphan.stdout)
    assert processes()[pid][0] == os.getpid()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert ctypes.CDLL(None).prctl(supervisor._PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "gone"), ValueError("null")])
def test_before_the_child_becomes_the_command_it_is_made_like_any_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    monkeypatch.chdir("/")
    defaults: list[int] = []
    sessions: list[None] = []
    monkeypatch.setattr(os, "setsid", lambda: sessions.append(None))
    monkeypatch.setattr(signal, "signal", lambda number, action: defaults.append(number))

    def execute(program: bytes, command: list[bytes], environment: dict[bytes, bytes]) -> None:
        assert (program, command, environment) == (b"agent", [b"agent", b"-x"], {b"A": b"B"})
        raise error

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "execvpe", execute)
    monkeypatch.setattr(os, "_exit", leave)
    said, failed_end = os.pipe()
    with pytest.raises(SystemExit, match="127"):
        become(([b"agent", b"-x"], {b"A": b"B"}, os.fsencode(tmp_path), 1.0), failed_end)
    assert os.read(said, 100) == b"failed command %d" % getattr(error, "errno", errno.EINVAL)
    os.close(said)
    os.close(failed_end)
    assert Path.cwd() == tmp_path
    assert len(sessions) == 1
    assert {signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP, signal.SIGINT} <= set(defaults)


def test_no_adoption_without_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert not adopt_orphans()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not adopt_orphans()


def test_those_who_left_the_group_are_ended_too(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "adopt_orphans", lambda: False)
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    pids: list[int] = []

    def leave_when_ready() -> None:
        with ready.open() as said:
            pids.append(int(said.readline()))
        owner.leave()

    leaving = threading.Thread(target=leave_when_ready)
    leaving.start()
    owner.order("/bin/sh", "-c", f"{SETSID_SLEEP} > {ready} & wait", grace=5)
    assert run(owner)[1:] == ["signalled 15"]
    leaving.join()
    assert alive(pids) == set()


def test_the_streams_of_the_child_are_let_go_of() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(writer, 0)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        let_go()
        nothing = Path(os.devnull).stat().st_rdev
        right = Path.cwd() == Path("/") and all(os.fstat(fd).st_rdev == nothing for fd in (0, 1, 2))
        os._exit(0 if right else 1)
    os.close(reader)
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


WITHOUT_PROC_AND_ADOPTION = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("supervisor", {path!r})
supervisor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervisor)
supervisor.adopt_orphans = lambda: False
supervisor.processes = supervisor._listed_processes
supervisor.Supervisor(int(sys.argv[1])).run()
"""


async def test_without_adoption_those_who_left_the_group_are_found_by_their_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    script = tmp_path / "supervisor.py"
    script.write_text(WITHOUT_PROC_AND_ADOPTION.format(path=supervisor.__file__))
    monkeypatch.setattr(launch, "_SUPERVISOR", script)
    command = f"trap '' TERM; {SETSID_SLEEP} $$ & while :; do sleep 0.05; done"
    async with await SupervisedProcess.start(["/bin/sh", "-c", command]) as process:
        pids = [int(pid) for pid in (await line_from(process.stdout)).split()]
        await process.stop(0.1)
        assert alive(pids) == set()
    await all_gone(pids)
