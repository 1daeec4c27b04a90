"""`dragoman demo-agent`: the built-in demo agent, for clients that speak ACP."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from dragoman.cli.asking import greet_person
from dragoman.cli.errors import DONE, CommandError, UsageError
from dragoman.cli.run import CommandContext
from dragoman.demo.agent import serve_stdio
from dragoman.demo.pace import PACES
from dragoman.interruptible import run_interruptible
from dragoman.jsonrpc import ConnectionClosed

__all__ = ["run"]


def run(arguments: Namespace, context: CommandContext) -> int:
    sessions: Path = arguments.sessions or context.state_dir / "demo-agent"
    pace: str = arguments.pace
    if pace not in PACES:
        raise UsageError(f'"{pace}" is no pace; there are {", ".join(PACES)}.')
    greet_person("a client of the Agent Client Protocol")
    try:
        run_interruptible(lambda: serve_stdio(sessions, pace=pace))
    except ConnectionClosed as closed:
        raise CommandError(f"there is no client to talk to: {closed.reason}.") from closed
    return DONE
