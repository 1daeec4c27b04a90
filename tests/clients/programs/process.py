"""Programs as clients: a process for each turn, with a home of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from clients.drivers import OFFLINE

__all__ = ["Output", "Program"]

# A test run in the background of a shell ignores Ctrl-C and Ctrl-\, and its children would inherit that.
_LAUNCH = (
    "import os, signal, sys; "
    "[signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGQUIT)]; "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Output:
    """What a program has written."""

    def __init__(self) -> None:
        self.out = ""
        self.err = ""


class Program:
    shows_items = False

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "work"
        self.folder.mkdir(parents=True)
        self.env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **OFFLINE,
        }

    async def close(self) -> None:
        """Nothing runs between two turns."""

    async def execute(
        self,
        *command: str,
        given: str = "",
        on_output: Callable[[Output], bool] = lambda _output: False,
    ) -> Output:
        """Run it to its end. If `on_output` says so, it gets Ctrl-C."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _LAUNCH),
            *command,
            cwd=self.folder,
            env=self.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C goes to all processes of a terminal.
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(given.encode())
        process.stdin.close()
        output = Output()
        interrupted = False
        errors = asyncio.create_task(self._errors(process, output))
        try:
            assert process.stdout is not None
            while chunk := await process.stdout.read(65_536):
                output.out += chunk.decode()
                if on_output(output) and not interrupted:
                    interrupted = True
                    os.killpg(process.pid, signal.SIGINT)
            await errors
            status = await process.wait()
        finally:
            if process.returncode is None:
                # The test gives up: its report has what the program said, and that it still ran.
                print(f"{command[0]} does not end:\n{output.out}\n{output.err}")
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        assert interrupted or status == 0, f"{command} ended with {status}:\n{output.out}\n{output.err}"
        return output

    async def _errors(self, process: asyncio.subprocess.Process, output: Output) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(65_536):
            output.err += chunk.decode()
