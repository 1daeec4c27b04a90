"""What a process has started is found by its mark, however it has left its group, and nothing else is."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from dragoman.process import Ledger, SupervisedProcess
from dragoman.process.marks import MARK_VARIABLE, end_marked, marked, new_mark
from process.living import DEADLINE_SECONDS, alive, all_gone, line_from

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")

# Leaves its session and its parent, and ignores what would end it politely.
_DAEMON = f"""{shlex.quote(sys.executable)} -I -S -c 'import os, signal, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(9999)'"""


@pytest.fixture
def bystanders() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of this user that look alike, and are not ours: without a mark, with another, with it elsewhere."""
    mark = new_mark()
    environments = [
        {},
        {MARK_VARIABLE: new_mark()},
        {MARK_VARIABLE: mark[:-1]},
        {MARK_VARIABLE: f"{mark}0"},
        {f"X{MARK_VARIABLE}": mark},
        {"OTHER": f"{MARK_VARIABLE}={mark}"},
    ]
    started = [
        subprocess.Popen(["sleep", "9999"], env={**env, "PATH": os.environ["PATH"]}) for env in environments
    ]
    # With the mark among its arguments.
    started.append(subprocess.Popen(["sh", "-c", "sleep 9999", f"{MARK_VARIABLE}={mark}"]))
    started.append(subprocess.Popen(["sleep", "9999"], env={MARK_VARIABLE: mark, "PATH": os.environ["PATH"]}))
    yield started
    for process in started:
        process.kill()
        process.wait(DEADLINE_SECONDS)


def _mark_of(process: subprocess.Popen[bytes]) -> str:
    environ = Path(f"/proc/{process.pid}/environ").read_bytes().decode()
    return dict(each.split("=", 1) for each in environ.split("\0") if each)[MARK_VARIABLE]


def _started(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """A process that is what it was started as by now, and no copy of this one."""
    return subprocess.Popen(command, **options)


async def test_only_the_process_with_exactly_this_mark_is_ended(
    bystanders: list[subprocess.Popen[bytes]],
) -> None:
    *others, meant = bystanders
    ended = await end_marked(_mark_of(meant))
    assert [identity.pid for identity in ended] == [meant.pid]
    assert meant.wait(DEADLINE_SECONDS) == -signal.SIGTERM
    assert [process.poll() for process in others] == [None] * len(others)


@pytest.mark.parametrize("mark", ["", "1", "0" * 31, "0" * 33])
def test_what_is_no_mark_of_ours_finds_nothing(mark: str) -> None:
    with subprocess.Popen(
        ["sleep", "9999"], env={MARK_VARIABLE: mark, "PATH": os.environ["PATH"]}
    ) as process:
        assert marked(mark) == []
        process.kill()


def test_this_process_and_those_above_it_are_spared(tmp_path: Path) -> None:
    mark = new_mark()
    program = (
        "import asyncio, subprocess, sys\n"
        "from dragoman.process.marks import end_marked\n"
        "if sys.argv[1:]: print(len(asyncio.run(end_marked(sys.argv[1]))))\n"
        f"else: subprocess.run([sys.executable, sys.argv[0], {mark!r}], check=True); print('alive')\n"
    )
    file = tmp_path / "marked.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**os.environ, MARK_VARIABLE: mark},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("0\nalive\n", 0), done.stderr


async def test_another_users_process_is_not_looked_at() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    mark = new_mark()
    environment = {MARK_VARIABLE: mark, "PATH": os.environ["PATH"]}
    with _started(["sleep", "9999"], env=environment, user=65534) as process:
        assert marked(mark) == []
        process.kill()


async def test_a_daemon_does_not_survive_its_supervisor(tmp_path: Path) -> None:
    """The supervisor is killed, and we live."""
    ledger = Ledger(tmp_path / "run")
    process = await SupervisedProcess.start(["/bin/sh", "-c", f"{_DAEMON}; sleep 9999"], ledger=ledger)
    daemon = int(await line_from(process.stdout))
    assert alive({daemon}) == {daemon}
    process._supervisor.kill()
    await process.wait()
    await process.stop(0)
    await all_gone({daemon, process.pid})
    assert ledger.entries() == []


async def test_a_daemon_that_was_left_behind_is_ended_at_the_next_start(tmp_path: Path) -> None:
    """We and the supervisor are killed at once, and its child has ended: only the daemon is left."""
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from dragoman.process import Ledger, SupervisedProcess\n"
        "async def main():\n"
        "    process = await SupervisedProcess.start(['/bin/sh', '-c', sys.argv[2]], ledger=Ledger(Path(sys.argv[1])))\n"
        "    print(process.stdout.readline().decode().strip(), process.pid, process._supervisor.pid, flush=True)\n"
        "    await asyncio.sleep(9999)\n"
        "asyncio.run(main())\n"
    )
    owner = _started(
        [sys.executable, "-c", program, str(tmp_path / "run"), f"{_DAEMON}; sleep 9999"],
        stdout=subprocess.PIPE,
    )
    assert owner.stdout is not None
    daemon, child, supervisor = map(int, (await line_from(cast("BinaryIO", owner.stdout))).split())
    os.kill(owner.pid, signal.SIGSTOP)
    for pid in (supervisor, owner.pid, child):
        os.kill(pid, signal.SIGKILL)
    owner.wait(DEADLINE_SECONDS)
    owner.stdout.close()
    await all_gone({child, supervisor})
    assert alive({daemon}) == {daemon}
    try:
        ledger = Ledger(tmp_path / "run")
        assert len(ledger.entries()) == 1
        await ledger.sweep()
        await all_gone({daemon})
        assert ledger.entries() == []
    finally:
        with suppress(OSError):
            os.kill(daemon, signal.SIGKILL)
