"""Real processes: how they start, what they get, how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from dragoman.jsonrpc import PeerOptions
from dragoman.process import (
    Exit,
    Ledger,
    LedgerEntry,
    ProcessIdentity,
    SpawnError,
    SupervisedProcess,
    launch as launch_module,
    supervised,
)
from dragoman.process.marks import MARK_VARIABLE, new_mark
from dragoman.process.tail import TAIL_BYTES, TAIL_LINES
from jsonrpc.recording import Recorder
from process.living import DEADLINE_SECONDS, SETSID_SLEEP, SLEEPERS, alive, all_gone, line_from, open_fds


class Start(Protocol):
    async def __call__(self, *command: str, **options: object) -> SupervisedProcess: ...


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts processes, and stops those that the test has not."""
    started: list[SupervisedProcess] = []

    async def start(*command: str, **options: object) -> SupervisedProcess:
        started.append(await SupervisedProcess.start(command, **options))  # type: ignore[arg-type] # as they are given
        return started[-1]

    yield start
    for process in started:
        await process.stop(0)


async def shell(start: Start, script: str, **options: object) -> SupervisedProcess:
    return await start("/bin/sh", "-c", script, **options)


async def output(process: SupervisedProcess) -> bytes:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await asyncio.to_thread(process.stdout.read)


# Starting.


async def test_input_and_output_are_pipes_to_us(start: Start) -> None:
    process = await start("cat")
    assert process.pid in alive([process.pid])
    process.stdin.write(b"hello\n")
    assert await line_from(process.stdout) == "hello"
    process.stdin.close()
    assert await process.wait() == Exit(code=0)
    assert process.exit == Exit(code=0)


async def test_the_child_leads_a_session_and_a_group_of_its_own(start: Start) -> None:
    process = await start("cat")
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
    assert process.pid != os.getsid(0)


async def test_the_environment_is_exactly_what_was_given_and_a_mark(start: Start) -> None:
    # A locale that Python would change, and bytes that are no text in any.
    env = {"LC_ALL": "C", "PYTHONPATH": "/x", "EMPTY": "", "ODD": "a=b\nc", "BYTES": os.fsdecode(b"\xff\xfe")}
    process = await start("env", "-0", env=env)
    given = {**env, MARK_VARIABLE: process._mark}
    lines = (await output(process)).split(b"\0")[:-1]
    assert sorted(lines) == sorted(os.fsencode(f"{name}={value}") for name, value in given.items())
    bare = await start("env", "-0", env={})
    assert await output(bare) == f"{MARK_VARIABLE}={bare._mark}\0".encode()


async def test_without_an_environment_it_has_ours(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_TEST", "ours")
    process = await shell(start, 'echo "$DRAGOMAN_TEST"; pwd')
    assert (await output(process)).decode() == f"ours\n{Path.cwd()}\n"


async def test_it_starts_in_the_folder_it_is_given(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\npwd; echo "$1"\n')
    program.chmod(0o755)
    process = await start("./program", "wörd", cwd=tmp_path)
    assert (await output(process)).decode() == f"{tmp_path}\nwörd\n"


async def test_signals_are_as_usual_in_the_child(start: Start) -> None:
    # Python ignores SIGPIPE, and the supervisor some more; a shell cannot take back what it finds ignored.
    process = await shell(start, "kill -PIPE $$; exit 1")
    assert await process.wait() == Exit(signal=signal.SIGPIPE)
    process = await shell(start, "kill -HUP $$; exit 1")
    assert await process.wait() == Exit(signal=signal.SIGHUP)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not show open files")
async def test_it_inherits_its_three_streams_and_nothing_else(start: Start) -> None:
    await start("cat")
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # noqa: FBT003 - it takes no name
    process = await shell(start, "ls /proc/$$/fd; exit")
    assert (await output(process)).split() == [b"0", b"1", b"2"]
    os.close(reader)
    os.close(writer)


async def test_the_end_of_input_reaches_one_of_several(start: Start) -> None:
    first = await start("cat")
    second = await start("cat")
    first.stdin.close()
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await first.wait() == Exit(code=0)
    assert second.exit is None


@pytest.mark.parametrize(
    ("files", "command", "cwd", "kind", "words"),
    [
        ({}, ["no-such-agent"], None, "command_not_found", "not found on the PATH"),
        ({}, ["./no-such-agent"], ".", "command_not_found", "There is no program './no-such-agent'"),
        ({"agent": (0o644, "#!/bin/sh\n")}, ["./agent"], ".", "not_executable", "may not be executed"),
        ({}, ["/"], None, "not_executable", "'/' may not be executed"),
        ({}, ["cat"], "missing", "folder_missing", "No such file or directory"),
        ({"file": (0o644, "")}, ["cat"], "file", "folder_missing", "Not a directory"),
        (
            {"agent": (0o755, "#!/no/such/node\n")},
            ["./agent"],
            ".",
            "interpreter_missing",
            "its first line names",
        ),
        (
            {"agent": (0o755, "\x7fELF?")},
            ["./agent"],
            ".",
            "failed",
            "could not be started: Exec format error",
        ),
        ({}, [], None, "failed", "The command is empty"),
        ({}, [""], None, "failed", "The command is empty"),
        ({}, ["cat", "a\0b"], None, "failed", "null character"),
    ],
)
async def test_what_cannot_be_started_is_told_apart(
    tmp_path: Path,
    files: dict[str, tuple[int, str]],
    command: Sequence[str],
    cwd: str | None,
    kind: str,
    words: str,
) -> None:
    for name, (mode, text) in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    folder = None if cwd is None else tmp_path / cwd
    before = open_fds()
    with pytest.raises(SpawnError) as raised:
        await SupervisedProcess.start(command, cwd=folder)
    assert raised.value.kind == kind
    assert words in raised.value.message
    assert str(raised.value) == f"{raised.value.message} {raised.value.hint}"
    assert open_fds() == before


async def test_a_script_on_the_path_without_its_interpreter(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/no/such/node\n")
    program.chmod(0o755)
    with pytest.raises(SpawnError) as raised:
        await SupervisedProcess.start(["agent"], env={"PATH": str(tmp_path)})
    assert raised.value.kind == "interpreter_missing"


@pytest.mark.parametrize("name", ["", "A=B"])
async def test_an_impossible_environment_is_refused(name: str) -> None:
    with pytest.raises(SpawnError, match="name of an environment variable"):
        await SupervisedProcess.start(["cat"], env={name: "x"})


async def test_a_command_line_too_long_for_the_system() -> None:
    with pytest.raises(SpawnError, match="could not be started") as raised:
        await SupervisedProcess.start(["cat", "x" * 5_000_000])
    assert raised.value.kind == "failed"


async def test_no_room_for_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = open_fds()
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(SpawnError, match="cannot start a process"):
        await SupervisedProcess.start(["cat"])
    assert open_fds() == before


async def test_a_supervisor_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no such luck')\n")
    monkeypatch.setattr(launch_module, "_SUPERVISOR", broken)
    before = open_fds()
    with pytest.raises(SpawnError, match=r"did not start\. no such luck"):
        await SupervisedProcess.start(["cat"])
    assert open_fds() == before


async def test_a_supervisor_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "stuck.py"
    stuck.write_text("import time; time.sleep(9999)\n")
    monkeypatch.setattr(launch_module, "_SUPERVISOR", stuck)
    monkeypatch.setattr(supervised, "_START_SECONDS", 0.05)
    monkeypatch.setattr(supervised, "_SUPERVISOR_SECONDS", 0.05)
    before = open_fds()
    with pytest.raises(SpawnError, match="did not start"):
        await SupervisedProcess.start(["cat"])
    assert open_fds() == before


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 5, 8])
async def test_a_start_that_is_cancelled_leaves_nothing(turns: int) -> None:
    before = open_fds()
    starting = asyncio.ensure_future(SupervisedProcess.start(["sleep", "9999"]))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert open_fds() == before


async def test_a_failing_connection_to_the_supervisor_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError("no")

    before = open_fds()
    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", refuse)
    with pytest.raises(OSError, match="no"):
        await SupervisedProcess.start(["cat"])
    assert open_fds() == before


# Ending.


@pytest.mark.parametrize(
    ("script", "expected", "words"),
    [
        ("exit 0", Exit(code=0), "exited with code 0"),
        ("exit 7", Exit(code=7), "exited with code 7"),
        ("kill -KILL $$", Exit(signal=9), "was ended by SIGKILL"),
        ("kill -TERM $$", Exit(signal=15), "was ended by SIGTERM"),
    ],
)
async def test_how_it_ended(start: Start, script: str, expected: Exit, words: str) -> None:
    process = await shell(start, script)
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await process.wait() == expected
    assert str(expected) == words
    assert expected.succeeded == (expected.code == 0)
    assert await process.stop() == expected


def test_other_ends_have_words_too() -> None:
    assert str(Exit()) == "ended in an unknown way"
    assert str(Exit(signal=99)) == "was ended by signal 99"


async def test_stopping_leaves_nothing(start: Start) -> None:
    before = open_fds()
    process = await shell(start, SLEEPERS + "wait")
    pids = [int(pid) for pid in (await line_from(process.stdout)).split()]
    assert [os.getpgid(pid) for pid in pids] == [process.pid, process.pid, pids[2]]
    supervisor = process._supervisor.pid
    await process.stop(0.05)
    assert alive([*pids, supervisor]) == set()
    assert open_fds() == before


async def test_one_that_exits_by_itself_leaves_nothing_either(start: Start) -> None:
    process = await shell(start, SLEEPERS + "exit 3")
    pids = [int(pid) for pid in (await line_from(process.stdout)).split()]
    assert await process.wait() == Exit(code=3)
    # Only Linux tells whose an orphan was.
    await all_gone(pids if sys.platform.startswith("linux") else pids[:2])
    assert await process.stop() == Exit(code=3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells whose an orphan was")
async def test_a_daemon_whose_parents_are_gone_is_found(start: Start) -> None:
    process = await shell(start, f"({SETSID_SLEEP} &); exec cat")
    daemon = int(await line_from(process.stdout))
    assert os.getpgid(daemon) == daemon
    await process.stop()
    assert alive([daemon]) == set()


async def test_the_end_of_input_comes_first(start: Start) -> None:
    process = await shell(start, "trap 'exit 9' TERM; cat; exit 4")
    assert await process.stop() == Exit(code=4)


async def test_then_a_signal_that_can_be_heeded(start: Start) -> None:
    process = await shell(start, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done")
    assert await line_from(process.stdout) == "ready"
    assert await process.stop(0.1) == Exit(code=9)


async def test_then_one_that_cannot(start: Start) -> None:
    process = await shell(start, "trap '' TERM; sleep 9999 & echo $!; while :; do sleep 0.05; done")
    child = int(await line_from(process.stdout))
    assert await process.stop(0.1) == Exit(signal=9)
    assert alive([child, process.pid]) == set()


async def test_a_child_that_closes_its_output_is_still_there(start: Start) -> None:
    process = await shell(start, "exec >&-; exec sleep 9999")
    assert await output(process) == b""
    assert process.exit is None
    assert process.pid in alive([process.pid])
    assert await process.stop(0) == Exit(signal=15)


async def test_stopping_twice_at_once_and_again(start: Start) -> None:
    process = await start("cat")
    ends = await asyncio.gather(process.stop(), process.stop(), process.wait())
    assert set(ends) == {Exit(code=0)}
    assert await process.stop() == Exit(code=0)


async def test_a_stop_that_is_cancelled_goes_on(start: Start) -> None:
    process = await shell(start, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    assert await line_from(process.stdout) == "ready"
    stopping = asyncio.ensure_future(process.stop(0.05))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await all_gone([process.pid])


async def test_as_a_context(start: Start) -> None:
    async with await SupervisedProcess.start(["cat"]) as process:
        pid = process.pid
    assert alive([pid]) == set()


async def test_a_killed_supervisor_takes_the_group_with_it(start: Start) -> None:
    process = await shell(start, "sleep 9999 & echo $!; wait")
    child = int(await line_from(process.stdout))
    os.kill(process._supervisor.pid, signal.SIGKILL)
    assert await process.wait() == Exit()
    await all_gone([child, process.pid])
    assert await process.stop() == Exit()


async def test_after_a_killed_supervisor_a_reused_pid_is_left_alone(start: Start) -> None:
    process = await start("cat")
    assert process._identity is not None
    # To us the pid is another process now, and that has no mark of ours.
    process._identity = ProcessIdentity(process.pid, "another time")
    process._mark = new_mark()
    os.kill(process._supervisor.pid, signal.SIGKILL)
    await process.wait()
    assert process.pid in alive([process.pid])
    await asyncio.wait_for(process.stop(0), DEADLINE_SECONDS)
    # Its input has ended with the stop.
    await all_gone([process.pid])


async def test_a_terminated_supervisor_ends_the_group_first(start: Start) -> None:
    process = await shell(start, SLEEPERS + "wait")
    pids = [int(pid) for pid in (await line_from(process.stdout)).split()]
    os.kill(process._supervisor.pid, signal.SIGTERM)
    assert await process.wait() == Exit(signal=15)
    await all_gone(pids)


async def test_a_stopped_supervisor_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "_SUPERVISOR_SECONDS", 0.05)
    process = await start("sleep", "9999")
    os.kill(process._supervisor.pid, signal.SIGSTOP)
    assert await process.stop(0) == Exit()
    assert alive([process.pid, process._supervisor.pid]) == set()


async def test_when_the_watch_is_broken_off_everything_ends(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of an event loop; here with a supervisor that does not listen, to make it hard."""
    monkeypatch.setattr(supervised, "_SUPERVISOR_SECONDS", 0.05)
    process = await start("sleep", "9999")
    os.kill(process._supervisor.pid, signal.SIGSTOP)
    process._watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await process._watching
    assert await process.wait() == Exit()
    assert alive([process.pid, process._supervisor.pid]) == set()


def test_pipes_get_numbers_that_stand_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_module, "_FIRST_FREE_FD", 100)
    for fd in launch_module._pipe():
        assert fd >= 100
        assert not os.get_inheritable(fd)
        os.close(fd)


# Standard error.


async def test_a_flood_on_standard_error_is_drained_and_its_end_kept(start: Start) -> None:
    script = (
        "head -c 20000000 /dev/zero | tr '\\0' x >&2; printf '\\n\\377 bad bytes\\nlast words\\n' >&2; exit 1"
    )
    process = await shell(start, script)
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await process.wait() == Exit(code=1)
    assert process._tail.received == 20_000_000 + len(b"\n\xff bad bytes\nlast words\n")
    assert len(process._tail._buffer) <= 2 * TAIL_BYTES
    assert process.stderr_tail.endswith("\ufffd bad bytes\nlast words")


async def test_only_the_last_lines_are_kept(start: Start) -> None:
    process = await shell(start, "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done >&2")
    await process.wait()
    lines = process.stderr_tail.splitlines()
    assert lines == [f"line {number}" for number in range(500 - TAIL_LINES, 500)]


async def test_a_grandchild_that_holds_the_stream_does_not_hold_us(start: Start) -> None:
    process = await shell(
        start, "(trap '' TERM; while :; do sleep 0.05; done) & echo $!; echo oh >&2; exit 2"
    )
    grandchild = int(await line_from(process.stdout))
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await process.wait() == Exit(code=2)
    assert process.stderr_tail == "oh"
    await process.stop()
    assert alive([grandchild]) == set()


# With a peer.

ECHO = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps({"id": message["id"], "result": message["method"]}), flush=True)
print(json.dumps({"method": "bye"}), flush=True)
"""


async def test_talking_to_it_and_hearing_its_last_words(start: Start) -> None:
    before = open_fds()
    process = await start(sys.executable, "-I", "-S", "-c", ECHO)
    receiver = Recorder()
    peer = await process.connect(receiver, PeerOptions(name="echo"))
    assert await asyncio.wait_for(peer.request("hello"), DEADLINE_SECONDS) == b'"hello"'
    assert await process.stop() == Exit(code=0)
    assert receiver.events[1:] == [
        ("notification", ("bye", b"{}")),
        ("closed", "the other side closed the connection"),
    ]
    assert open_fds() == before


async def test_a_peer_that_does_not_read_is_closed_with_the_process(start: Start) -> None:
    process = await start(sys.executable, "-I", "-S", "-c", ECHO)
    receiver = Recorder()
    peer = await process.connect(receiver, PeerOptions(name="echo"))
    peer.pause_reading("test")
    assert await process.stop() == Exit(code=0)
    assert receiver.of("closed") == ["the process has ended"]


# The ledger.


async def test_it_is_written_down_while_it_runs(start: Start, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "processes")
    process = await start("cat", ledger=ledger)
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    assert ledger.entries() == [LedgerEntry(identity, ProcessIdentity.own(), ("cat",), process._mark)]
    await process.stop()
    assert ledger.entries() == []


async def test_a_ledger_that_cannot_be_written_stops_nobody(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    process = await start("cat", ledger=Ledger(tmp_path / "file" / "processes"))
    assert await process.stop() == Exit(code=0)
    assert "could not be written" in caplog.text


# What happens to us.

OWNER = """
import asyncio, sys
from dragoman.process import SupervisedProcess

async def main():
    process = await SupervisedProcess.start(["/bin/sh", "-c", sys.argv[1]])
    sys.stdout.buffer.write(await asyncio.to_thread(process.stdout.readline))
    sys.stdout.flush()
    if sys.argv[2] == "wait":
        await process.wait()

asyncio.run(main())
"""


async def owner(script: str, then: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-c",
        OWNER,
        script,
        then,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def pids_from(process: asyncio.subprocess.Process) -> list[int]:
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [int(pid) for pid in (await process.stdout.readline()).split()]


async def reaped(process: asyncio.subprocess.Process) -> bytes:
    async with asyncio.timeout(DEADLINE_SECONDS):
        _, errors = await process.communicate()
    return errors


@pytest.mark.parametrize(
    "script", [SLEEPERS + "wait", "trap '' TERM\n" + SLEEPERS + "while :; do sleep 0.05; done"]
)
async def test_when_we_are_killed_nothing_lives_two_seconds_later(script: str) -> None:
    process = await owner(script, "wait")
    pids = await pids_from(process)
    assert len(alive(pids)) == 3
    os.kill(process.pid, signal.SIGKILL)
    assert await all_gone(pids) < 2
    await reaped(process)


async def test_when_our_event_loop_ends_so_do_they_without_a_warning() -> None:
    began = time.monotonic()
    process = await owner(SLEEPERS + "wait", "leave")
    pids = await pids_from(process)
    errors = await reaped(process)
    assert process.returncode == 0
    assert alive(pids) == set()
    # Its pipes were left open, and that is all that is said.
    assert b"Traceback" not in errors
    assert b"subprocess" not in errors
    assert time.monotonic() - began < DEADLINE_SECONDS


async def test_it_works_when_our_own_streams_are_closed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    script = f"""
import os
os.closerange(0, 3)
import asyncio
from dragoman.process import SupervisedProcess

async def main():
    process = await SupervisedProcess.start(["/bin/sh", "-c", "cat; echo error >&2; exit 5"])
    assert min(process.stdin.fileno(), process.stdout.fileno()) > 2
    process.stdin.write(b"hello")
    process.stdin.close()
    said = await asyncio.to_thread(process.stdout.read)
    end = await process.stop()
    open({str(said)!r}, "w").write(f"{{said}} {{end}} {{process.stderr_tail}}")

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await process.wait()
    assert said.read_text() == "b'hello' exited with code 5 error"
