"""Running a command in the workspace, within limits of time and output."""

from __future__ import annotations

import os
import signal
from typing import Annotated

from msgspec import Meta

from dragoman.clock import Clock, SystemClock
from dragoman.lm import CancellationToken, gfm, until_cancelled
from dragoman.lm.parts import ToolResult
from dragoman.permissions.layout import broken, on_one_line, shown_exactly
from dragoman.permissions.sensitive import Places
from dragoman.process import Exit, SpawnError
from dragoman.tools.builtin.approval_words import COMMAND, command_key
from dragoman.tools.builtin.child import run_child
from dragoman.tools.builtin.files import FILES_WHEN
from dragoman.tools.builtin.output import HeadAndTail
from dragoman.tools.builtin.pace import paced
from dragoman.tools.builtin.workspace import Workspace, WorkspaceError
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation
from dragoman.visible import visible_exactly

__all__ = [
    "DEFAULT_SECONDS",
    "MAX_COMMAND_LENGTH",
    "MAX_SECONDS",
    "OUTPUT_BYTES",
    "run_command",
]

DEFAULT_SECONDS = 60
# Builds and test suites; what takes longer is better started by the person.
MAX_SECONDS = 600
# Of the beginning and of the end each: together some ten thousand tokens.
OUTPUT_BYTES = 20_000
# A person must be able to read all of it before they say yes.
MAX_COMMAND_LENGTH = 10_000
# A line of progress is short; a piece of output may be long and have no ends of lines.
_PROGRESS_BYTES = 1_000

# For programs that would ask for a key press, draw a screen or colour their output: there is no terminal.
_NO_TERMINAL = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


def run_command(clock: Clock | None = None) -> DefinedTool:
    pace_clock = clock or SystemClock()

    @tool(
        name="run_command",
        description=(
            "Runs a shell command (sh) in the workspace folder and returns its output, standard output and error"
            " together, and its exit code. There is no input. When it ends, what it has left running in the background is ended too."
            f" At most the first and the last {OUTPUT_BYTES:,} bytes of output are returned."
        ),
        display_name="Run command",
        user_description="Run a command in the workspace",
        reference_name="runCommand",
        icon="$(terminal)",
        when=FILES_WHEN,
    )
    async def run(
        command: Annotated[
            str, Meta(description="The command line", min_length=1, max_length=MAX_COMMAND_LENGTH)
        ],
        timeout_seconds: Annotated[
            float, Meta(description="When to give up", gt=0, le=MAX_SECONDS)
        ] = DEFAULT_SECONDS,
        *,
        invocation: Invocation,
        token: CancellationToken,
    ) -> ToolResult:
        try:
            return await until_cancelled(_run(command, timeout_seconds, invocation, pace_clock), token)
        except WorkspaceError as error:
            return ToolResult.error(str(error))
        except SpawnError as error:
            # No such folder any more; a NUL in the command.
            return ToolResult.error(f"The command could not be started. {error}")

    @run.prepare
    def ask(command: str, timeout_seconds: float, *, invocation: Invocation) -> PreparedInvocation:
        folder = Workspace.of(invocation.workspace).folders[0]
        why = Places.around(invocation.workspace, invocation.own).why_mentioning(command, str(folder))
        sensitive = (
            "" if why is None else f"\n\nSensitive, so asked about every time: {gfm.code(on_one_line(why))}."
        )
        return PreparedInvocation(
            invocation_message=f"Running {visible_exactly(command)}",
            confirmation=Confirmation(
                "Run this command?",
                f"Command:\n{gfm.fence(broken(shown_exactly(command)), 'sh')}\n\n"
                f"Folder: {gfm.code(on_one_line(str(folder)))}, for at most {timeout_seconds:g} seconds.{sensitive}",
            ),
            approval_key=command_key(folder, command),
            covers=COMMAND,
            risk="execute",
            sensitive=why,
        )

    return run


async def _run(command: str, seconds: float, invocation: Invocation, clock: Clock) -> ToolResult:
    folder = Workspace.of(invocation.workspace).folders[0]
    output = HeadAndTail(OUTPUT_BYTES)
    async with paced(invocation.progress, clock) as progress:

        def receive(data: bytes) -> None:
            output.receive(data)
            last_line = data[-_PROGRESS_BYTES:].decode(errors="replace").rstrip().rpartition("\n")[2]
            if last_line:
                progress(visible_exactly(last_line))

        ended = await run_child(
            ["/bin/sh", "-c", command],
            seconds=seconds,
            folder=folder,
            environment={**os.environ, **_NO_TERMINAL},
            receive=receive,
        )
    match ended:
        case None:
            end = f"[Ended after {seconds:g} seconds, with everything it had started. What it did until then is done.]"
        case Exit(code=int(code)):
            end = f"[Exit code {code}.]"
        case Exit(signal=int(number)):
            end = f"[Ended by the signal {_signal_name(number)}.]"
        case _:
            end = "[Ended in an unknown way.]"
    said = output.text()
    separator = "" if not said or said.endswith("\n") else "\n"
    text = f"{said}{separator}{end}"
    return ToolResult.text(text) if ended is not None and ended.succeeded else ToolResult.error(text)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
