import asyncio
import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from dragoman.lm import CancellationError, CancellationSource
from dragoman.lm.parts import ToolResult
from dragoman.tools.builtin import child as child_module
from dragoman.tools.builtin.child import run_child, run_module
from dragoman.tools.builtin.command import DEFAULT_SECONDS, OUTPUT_BYTES, run_command
from dragoman.tools.builtin.output import HeadAndTail
from dragoman.tools.builtin.pace import PACE_SECONDS, paced
from dragoman.tools.builtin.workspace import WorkspaceError
from tool_calls import DEADLINE, Deadline, Lifeline, Workbench, text
from virtual_clock import VirtualClock


@pytest.fixture
def running(tmp_path: Path) -> Workbench:
    return Workbench(run_command(), tmp_path)


@pytest.fixture
def lifeline(tmp_path: Path) -> Lifeline:
    return Lifeline(tmp_path / "alive")


def _real(path: Path) -> str:
    return os.path.realpath(path)


# A shell with two children, all of which hold the lifeline.
_FAMILY = "exec 3>alive; sleep 1000 & (sleep 1000; true) & echo started >&3; wait"
# One that does not want to go.
_STUBBORN = f"trap '' TERM INT HUP; {_FAMILY}"
# One that makes itself a session of its own, and whose parent has gone. (`setsid` is not on every system.)
_STRAY = (
    f"exec 3>alive; mkfifo ready; ({shlex.quote(sys.executable)} -I -S -c"
    """ 'import os; os.setsid(); open("ready", "w").close(); os.execvp("sleep", ["sleep", "1000"])' &)"""
    "; cat ready; echo started >&3"
)
# A program that runs one command, for as long as it lives itself.
_ONE_COMMAND = """
import asyncio, sys
from pathlib import Path
from dragoman.lm import CancellationSource
from dragoman.tools.builtin.command import run_command
from dragoman.tools.tool import Invocation
invocation = Invocation({"command": sys.argv[1], "timeout_seconds": 60}, (Path.cwd(),))
asyncio.run(run_command().invoke(invocation, CancellationSource().token))
"""


class TestQuestion:
    async def test_the_command_is_shown(self, running: Workbench, tmp_path: Path) -> None:
        prepared = await running.ask(command="make test\n```\necho `x`", timeout_seconds=5)
        assert prepared.confirmation is not None
        assert prepared.confirmation.title == "Run this command?"
        assert prepared.confirmation.message == (
            f"Command:\n````sh\nmake test\n```\necho `x`\n````\n\nFolder: `{tmp_path}`, for at most 5 seconds."
        )

    async def test_what_would_hide_is_made_visible(self, running: Workbench) -> None:
        prepared = await running.ask(command="echo safe\x1b[2K\rrm -rf .\u202e")
        assert prepared.confirmation is not None
        assert "echo safe␛[2K␍rm -rf .<U+202E>" in prepared.confirmation.message
        assert prepared.invocation_message == "Running echo safe␛[2K␍rm -rf .<U+202E>"

    async def test_an_approval_that_lasts_is_for_the_exact_command_in_its_folder(
        self, running: Workbench, tmp_path: Path
    ) -> None:
        prepared = [await running.ask(command=command) for command in ("make", "make ", "MAKE")]
        assert [each.approval_key for each in prepared] == [
            f"in '{_real(tmp_path)}': make",
            f"in '{_real(tmp_path)}': make ",
            f"in '{_real(tmp_path)}': MAKE",
        ]
        assert {each.covers for each in prepared} == {"this command in this folder"}

    async def test_without_a_workspace(self) -> None:
        bench = Workbench(run_command())
        with pytest.raises(WorkspaceError, match="No folder is open"):
            await bench.ask(command="true")
        assert "No folder is open" in text(await bench.invoke(bench.invocation(command="true")))


class TestRunning:
    async def test_output_and_exit_code(self, running: Workbench) -> None:
        assert await running.said(command="echo out; echo err >&2") == "out\nerr\n[Exit code 0.]"
        assert await running.said(command="true") == "[Exit code 0.]"
        assert await running.complaint(command="printf no; exit 3") == "no\n[Exit code 3.]"

    async def test_in_the_workspace_and_with_nothing_to_read(
        self, running: Workbench, tmp_path: Path
    ) -> None:
        assert await running.said(command="pwd -P; cat") == f"{_real(tmp_path)}\n[Exit code 0.]"

    async def test_nobody_is_there(self, running: Workbench) -> None:
        said = await running.said(command="echo $TERM $NO_COLOR $PAGER; test -t 0 || echo no terminal")
        assert said == "dumb 1 cat\nno terminal\n[Exit code 0.]"

    async def test_ended_by_a_signal(self, running: Workbench) -> None:
        assert await running.complaint(command="kill -9 $$") == "[Ended by the signal SIGKILL.]"

    async def test_a_signal_without_a_name(self, running: Workbench) -> None:
        if not sys.platform.startswith("linux"):
            pytest.skip("only Linux has real-time signals without names of their own")
        assert await running.complaint(command="kill -40 $$") == "[Ended by the signal 40.]"

    async def test_much_output(self, running: Workbench) -> None:
        said = await running.said(
            command="echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last"
        )
        assert said.startswith("first\nxxx")
        assert said.endswith("xxx\nlast\n[Exit code 0.]")
        assert "bytes are left out here" in said
        assert len(said) < 2 * OUTPUT_BYTES + 200

    async def test_bytes_that_are_no_text(self, running: Workbench) -> None:
        assert await running.said(command="printf '\\377'") == "\ufffd\n[Exit code 0.]"

    async def test_progress(self, running: Workbench) -> None:
        await running.said(command="echo one; echo; printf '\\033two\\n'")
        assert running.progress[-1] == "␛two"

    async def test_progress_is_not_faster_than_an_eye(self, tmp_path: Path) -> None:
        # A clock that stands still: there is one line at first, and the last at the end.
        bench = Workbench(run_command(VirtualClock()), tmp_path)
        await bench.said(command="head -c 5000000 /dev/zero | tr '\\0' '\\n' | sed 's/^/x/'; echo last")
        assert len(bench.progress) == 2
        assert bench.progress[-1] == "last"

    async def test_a_nul_in_the_command(self, running: Workbench) -> None:
        assert "could not be started" in await running.complaint(command="echo\0")

    async def test_a_workspace_that_is_gone(self, tmp_path: Path) -> None:
        bench = Workbench(run_command(), tmp_path / "gone")
        assert "could not be started" in await bench.complaint(command="true")


class TestTheEnd:
    @pytest.mark.parametrize("command", [_FAMILY, _STUBBORN])
    async def test_time_is_over(
        self, running: Workbench, lifeline: Lifeline, command: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(child_module, "END_SECONDS", 0.2)
        deadline = Deadline(DEFAULT_SECONDS, monkeypatch)
        call = asyncio.create_task(running.complaint(command=f"echo before; {command}"))
        assert await lifeline.first_line() == "started"
        deadline.pass_now()
        assert await call == (
            "before\n[Ended after 60 seconds, with everything it had started. What it did until then is done.]"
        )
        await lifeline.end()

    @pytest.mark.parametrize("command", [_FAMILY, _STUBBORN])
    async def test_cancelled_by_the_token(
        self, running: Workbench, lifeline: Lifeline, command: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(child_module, "END_SECONDS", 0.2)
        source = CancellationSource()
        call = asyncio.create_task(running.invoke(running.invocation(command=command), source.token))
        assert await lifeline.first_line() == "started"
        source.cancel()
        with pytest.raises(CancellationError):
            await call
        await lifeline.end()

    async def test_cancelled_from_outside_and_again_while_it_ends(
        self, running: Workbench, lifeline: Lifeline
    ) -> None:
        call = asyncio.create_task(running.invoke(running.invocation(command=_STUBBORN)))
        assert await lifeline.first_line() == "started"
        call.cancel()
        # The group has been asked to end, and does not.
        for _ in range(10):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await lifeline.end()
        # Nobody waits for the supervisor any more, but the loop must not close before it is buried.
        async with asyncio.timeout(DEADLINE):
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    @pytest.mark.parametrize("output", ["", ">/dev/null 2>&1"])
    async def test_processes_left_behind_are_ended(
        self, running: Workbench, lifeline: Lifeline, output: str
    ) -> None:
        call = asyncio.create_task(
            running.said(command=f"exec 3>alive; sleep 1000 {output} & echo started >&3")
        )
        assert await lifeline.first_line() == "started"
        assert await call == "[Exit code 0.]"
        await lifeline.end()

    async def test_processes_that_left_the_group_are_ended(
        self, running: Workbench, lifeline: Lifeline
    ) -> None:
        if not sys.platform.startswith("linux"):
            pytest.skip("only Linux lets a process adopt the orphans among its descendants")
        call = asyncio.create_task(running.said(command=_STRAY))
        assert await lifeline.first_line() == "started"
        assert await call == "[Exit code 0.]"
        await lifeline.end()

    @pytest.mark.parametrize("command", [_FAMILY, _STUBBORN, f"{_STRAY}; sleep 1000"])
    async def test_nothing_is_left_two_seconds_after_we_were_killed(
        self, tmp_path: Path, lifeline: Lifeline, command: str
    ) -> None:
        us = await asyncio.create_subprocess_exec(sys.executable, "-c", _ONE_COMMAND, command, cwd=tmp_path)
        assert await lifeline.first_line() == "started"
        us.kill()
        await us.wait()
        killed = time.monotonic()
        await lifeline.end()
        assert time.monotonic() - killed < 2

    @pytest.mark.parametrize("turns", range(4))
    async def test_cancelled_while_it_starts(self, tmp_path: Path, lifeline: Lifeline, turns: int) -> None:
        async def start() -> None:
            await run_child(
                ["/bin/sh", "-c", _STUBBORN],
                seconds=DEADLINE,
                folder=tmp_path,
                environment=os.environ,
                receive=lambda _data: None,
            )

        starting = asyncio.create_task(start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(DEADLINE):
                await starting
        # The shell may not have come as far as to open it: somebody else writes, to end the wait.
        lifeline.path.write_text("nobody\n")
        await lifeline.first_line()
        await lifeline.end()

    def test_a_loop_that_closes_with_a_command_in_it(self, running: Workbench, lifeline: Lifeline) -> None:
        async def run_and_leave() -> None:
            left.append(asyncio.create_task(running.invoke(running.invocation(command=_STUBBORN))))
            assert await lifeline.first_line() == "started"
            lifeline.close()

        left: list[asyncio.Task[ToolResult]] = []
        with lifeline.watched_without_a_loop() as is_over:
            asyncio.run(run_and_leave())
            assert left[0].cancelled()
            assert is_over()


class TestOurOwnModules:
    async def test_what_is_given_is_read_and_what_is_said_received(self) -> None:
        said = bytearray()
        async with asyncio.timeout(DEADLINE):
            status = await run_module(
                "json.tool",
                "--compact",
                seconds=DEADLINE,
                receive=said.extend,
                given=b'{"a": 1}' + b" " * 10**6,
            )
        assert status == 0
        assert said == b'{"a":1}\n'

    async def test_a_program_that_does_not_read(self) -> None:
        async with asyncio.timeout(DEADLINE):
            status = await run_module(
                "json.tool", "--help", seconds=DEADLINE, receive=lambda _data: None, given=b" " * 10**6
            )
        assert status == 0


class TestPace:
    async def test_the_first_line_at_once_and_then_the_last_of_each_while(self) -> None:
        clock = VirtualClock()
        passed_on: list[str] = []
        async with paced(passed_on.append, clock) as progress:
            for line in "abc":
                progress(line)
            await _settled()
            assert passed_on == ["c"]
            progress("d")
            progress("e")
            await _settled()
            assert passed_on == ["c"]
            clock.advance(PACE_SECONDS)
            await _settled()
            assert passed_on == ["c", "e"]
            clock.advance(PACE_SECONDS)
            await _settled()
            assert passed_on == ["c", "e"]
            progress("f")
        assert passed_on == ["c", "e", "f"]


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class TestHeadAndTail:
    @pytest.mark.parametrize("size", [1, 3, 7, 100])
    def test_the_middle_goes_first(self, size: int) -> None:
        output = HeadAndTail(10)
        whole = bytes(range(65, 65 + 26)) * 4
        for start in range(0, len(whole), size):
            output.receive(whole[start : start + size])
        said = output.text()
        assert said.startswith("ABCDEFGHIJ\n[84 bytes are left out here.")
        assert said.endswith("]\nQRSTUVWXYZ")

    @pytest.mark.parametrize("length", [0, 1, 10, 11, 20])
    def test_what_fits_is_whole(self, length: int) -> None:
        output = HeadAndTail(10)
        whole = ("é" * 10).encode()[:length]
        for index in range(length):
            output.receive(whole[index : index + 1])
        assert output.text() == whole.decode(errors="replace")
