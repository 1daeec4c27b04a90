"""A process that has journals with open permission requests in a state folder, until its input ends.

    holder.py STATE

It prints a line when it has them. A line on its input makes it decide the request of that id.
"""

import asyncio
import sys
import time
from pathlib import Path

from dragoman.journal.agent_events import PermissionDecided
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.permission_event import permission_requested
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.permissions.action import Action
from dragoman.store import Database


def _action(command: str) -> Action:
    return Action(
        agent="claude",
        agent_name="Claude",
        risk="execute",
        kind="execute",
        title="Bash",
        command=command,
        input={"command": command},
        folder="/folder",
    )


def _decided(id_: str) -> PermissionDecided:
    return PermissionDecided(id_, is_allowed=True, by="rule", where="terminal", seconds=0.0)


async def main(state: Path) -> None:
    with Database.open(state) as database:
        journals = SqliteJournals(database)
        sequences: dict[str, int] = {}

        async def append(journal: str, *events: AnyEvent) -> None:
            at = time.time()
            stamped = [(at, each) for each in events]
            sequences[journal] = await journals.append(journal, sequences.get(journal, 0), stamped)

        await append("chatchatchatchat", JournalStarted("chat", "claude", ("/folder",), "chatchatchatchat"))
        await append(
            "agentagentagenta",
            JournalStarted("agent", "claude", ("/folder",), "chatchatchatchat", parent="chatchatchatchat"),
            permission_requested("dg_1", _action("make \x1b[2J")),
            # A rule has decided this one.
            permission_requested("dg_2", _action("git log")),
            _decided("dg_2"),
        )
        await append(
            "editoreditoredit",
            JournalStarted("agent", "claude", ("/folder",), "stdio:editor"),
            permission_requested("dg_3", _action("git push")),
        )
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            id_ = line.strip()
            await append("agentagentagenta" if id_ == "dg_1" else "editoreditoredit", _decided(id_))
            print("decided", flush=True)


asyncio.run(main(Path(sys.argv[1])))
