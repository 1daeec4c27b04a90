"""A trace as a process: `python -m devtools.traces FILE` is the agent of it, for whoever starts agents.

With `--against COMMAND …` it is the client, and the command is the agent. Either way the first difference is told on
standard error, and is the exit status.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path

from devtools.traces.looking import Looking
from devtools.traces.player import OPTIONS, Difference, TracePlayer
from devtools.traces.reading import TraceError, connections, read_trace
from dragoman.clock import SystemClock
from dragoman.jsonrpc import connect_stdio
from dragoman.process import SupervisedProcess
from dragoman.traces.frames import Frame


def main() -> int:
    parser = ArgumentParser(prog="python -m devtools.traces", description=__doc__)
    parser.add_argument("file", type=Path, help="a trace, as --record writes it")
    parser.add_argument("--connection", metavar="NAME", help="which one of the file; without it, the first")
    parser.add_argument("--in-time", action="store_true", help="take as long as it took; without it, no time")
    parser.add_argument("--against", nargs=REMAINDER, metavar="COMMAND", help="be the client of this agent")
    arguments = parser.parse_args()
    try:
        frames = _frames(arguments)
        found = asyncio.run(_against(frames, arguments) if arguments.against else _agent(frames, arguments))
    except TraceError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if found is not None:
        sys.stderr.write(f"{found}\n")
    return 0 if found is None else 1


def _frames(arguments: Namespace) -> tuple[Frame, ...]:
    found = connections(read_trace(arguments.file))
    name = arguments.connection if arguments.connection is not None else next(iter(found), "")
    if name not in found:
        raise TraceError(
            f"{arguments.file} has no connection {name!r}; there are: {', '.join(found) or 'none'}"
        )
    return found[name]


async def _agent(frames: tuple[Frame, ...], arguments: Namespace) -> Difference | None:
    looking = Looking()
    clock = SystemClock() if arguments.in_time else None
    player = TracePlayer(frames, "agent", clock=clock, on_asked=looking.on_asked)
    try:
        # As long as its client wants it, whatever became of the trace.
        await (await connect_stdio(player, OPTIONS)).wait_closed()
        return await player.played() or player.difference
    finally:
        await looking.close()


async def _against(frames: tuple[Frame, ...], arguments: Namespace) -> Difference | None:
    here = str(Path.cwd())
    names = {cwd: here for cwd in _folders(frames) if cwd != here}
    player = TracePlayer(frames, "client", clock=SystemClock() if arguments.in_time else None, names=names)
    async with await SupervisedProcess.start(arguments.against, env=os.environ) as process:
        await process.connect(player, OPTIONS)
        return await player.played()


def _folders(frames: tuple[Frame, ...]) -> list[str]:
    """The folder that the trace was made in: it may not be here."""
    for frame in frames:
        params = (frame.message or {}).get("params")
        if isinstance(params, dict) and isinstance(cwd := params.get("cwd"), str):
            return [cwd]
    return []


if __name__ == "__main__":
    sys.exit(main())
