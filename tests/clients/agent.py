"""The agent behind the clients: the fake agent, with its steps anywhere in the prompt.

A client may put words of its own around what the user said, so the last JSON array of steps in the prompt counts.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

# It runs as a script, beside the other agents of the tests.
sys.path.insert(0, str(Path(__file__).parents[1]))
from fake_agent.agent import Agent, Session, serve


class PromptedAgent(Agent):
    async def connect(self, session: Session, servers: list[dict[str, Any]]) -> None:
        if servers:
            self.note("session_with_tools", {"session": session.name})
        await super().connect(session, servers)

    async def perform(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        if session.tools is None:
            # A side request, which quotes what the user said.
            self.say(session, "A short title")
            return
        found = [steps for block in blocks for steps in _scripts(block.get("text", ""))]
        for step in found[-1] if found else [["say", "There was nothing to do."]]:
            await self.do(session, step)


def _scripts(text: str) -> list[list[Any]]:
    decoder = json.JSONDecoder()
    found = []
    at = text.find('[["')
    while at >= 0:
        try:
            steps, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            found.append(steps)
        at = text.find('[["', end)
    return found


if __name__ == "__main__":
    asyncio.run(serve(PromptedAgent(json.loads(sys.argv[1]))))
