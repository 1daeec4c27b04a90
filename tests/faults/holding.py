"""What a bridge holds while nobody asks anything of it: files, sockets, processes, tasks. After a fault it is no more.

What is right is not written down anywhere: it is measured, in a run in which nothing fails, with one conversation and with
two. What one more conversation takes is the difference.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from faults.chat import Chat, script
from faults.plan import Front, Transport
from faults.world import World, fds_of

__all__ = ["Holding", "held_by", "measured"]

# Connections of an agent's to its tools come and go.
_SPARE = {"socket": 3}


async def held_by(world: World) -> Counter[str]:
    held = Counter(fds_of(world.pid))
    held["process"] = len(world.remaining())
    held.update({f"task {name}": number for name, number in (await world.tasks()).items()})
    return held


@dataclass(frozen=True)
class Holding:
    """With one conversation that has an agent, and with two."""

    one: Counter[str]
    two: Counter[str]

    def exceeded(self, held: Counter[str], agents: int) -> dict[str, str]:
        """What is more than that, for so many agents."""
        more = max(agents - 1, 0)
        right = {
            kind: self.one[kind] + more * max(self.two[kind] - self.one[kind], 0) + _SPARE.get(kind, 0)
            for kind in held
        }
        return {
            kind: f"{number} instead of {right[kind]}"
            for kind, number in held.items()
            if number > right[kind]
        }


async def measured(folder: Path, front: Front, transport: Transport) -> Holding:
    world = World(folder, front=front, http=transport == "http")
    try:
        await world.start()
        found = []
        for chat in (Chat("A"), Chat("B")):
            chat.say(script(chat.name, 0, ("speak",), None))
            await chat.send(world.editor).settled()
            found.append(await _at_rest(world))
        await world.end("shutdown")
    finally:
        world.close()
    return Holding(*found)


async def _at_rest(world: World) -> Counter[str]:
    """When it no longer changes: what has been answered is still being written down."""
    before: Counter[str] | None = None
    while before != (before := await held_by(world)):  # noqa: ASYNC110 - what is in another process tells nobody
        await asyncio.sleep(0.2)
    return before
