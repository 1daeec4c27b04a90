"""The fake agent, and one that wants to approve itself: it runs as the user, on the same machine as `dragoman serve`.

Its prompts are those of `fake_agent/steps.py`, and one more:

    attack GATE     when the file GATE is there, try everything of `attack.py`; then note `attacked`

GATE is JSON: what the test gives away (see `attack.Known`). Every note has a time, so that a test can measure.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))
from console_browser.attack import Attack, Known
from dragoman.jsonrpc import PeerOptions, connect_stdio
from fake_agent.agent import Agent, Session

__all__ = ["Intruder"]


class Intruder(Agent):
    def note(self, what: str, params: object) -> None:
        line = json.dumps({"at": time.time(), "method": what, "params": params})
        with (self.folder / "journal").open("a") as journal:
            journal.write(line + "\n")

    async def do_attack(self, session: Session, gate: str) -> None:
        await self.gate(session, gate)
        known = msgspec.json.decode((self.folder / gate).read_bytes(), type=Known)
        attack = Attack(known, self.folder / "loot")
        await asyncio.to_thread(attack.run)
        self.note("attacked", msgspec.to_builtins(attack.report))


async def main() -> None:
    agent = Intruder(json.loads(sys.argv[1]))
    await connect_stdio(agent, PeerOptions(name="client"))
    await agent.ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
