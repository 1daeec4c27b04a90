"""Two real servers with a real agent: one with the agent, and one in front of it that knows it as an endpoint."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import httpx2

__all__ = ["MODEL", "WAYS", "Json", "Servers", "Way", "served", "servers"]

Json: TypeAlias = dict[str, Any]
Way: TypeAlias = Literal["direct", "chain"]

WAYS: tuple[Way, ...] = ("direct", "chain")
MODEL = "scripted"
_AGENT = Path(__file__).with_name("agent.py")
# Between two looks at the agent's journal.
_LOOK_SECONDS = 0.01


@dataclass
class Servers:
    # Base URLs, with `/v1`.
    urls: dict[Way, str]
    # Where the agent has its journal and looks for gates.
    folder: Path

    def journal(self) -> list[Json]:
        journal = self.folder / "journal"
        lines = journal.read_text().splitlines() if journal.exists() else []
        return [json.loads(line) for line in lines]

    def prompts(self, word: str) -> list[Json]:
        """What the agent was prompted with, as far as the word is in it. Side requests, such as one for a title, are left out:
        their sessions have no tools.
        """
        journal = self.journal()
        asked = [event["params"] for event in journal if event["method"] == "session/prompt"]
        with_tools = {
            event["params"]["session"] for event in journal if event["method"] == "session_with_tools"
        }
        return [
            params
            for params in asked
            if word in json.dumps(params["prompt"]) and params["sessionId"] in with_tools
        ]

    def open_gate(self, name: str) -> None:
        (self.folder / name).touch()

    async def until(self, holds: Callable[[list[Json]], bool]) -> None:
        """Wait for something in the agent's journal."""
        while not holds(self.journal()):  # noqa: ASYNC110 - a file tells nobody that it has grown
            await asyncio.sleep(_LOOK_SECONDS)

    async def under_way(self, way: Way) -> int:
        """How many responses run in that server."""
        async with httpx2.AsyncClient() as http:
            answer = await http.get(self.urls[way].removesuffix("/v1") + "/metrics")
        [line] = [
            line for line in answer.text.splitlines() if line.startswith("dragoman_responses_under_way ")
        ]
        return int(line.split()[1])

    async def until_idle(self) -> None:
        for way in self.urls:
            while await self.under_way(way):  # noqa: ASYNC110 - metrics are asked for
                await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def servers(folder: Path) -> AsyncIterator[Servers]:
    agent = folder / "agent"
    agent.mkdir(parents=True)
    options = json.dumps({"folder": str(agent), "http": True, "load": True, "name": "scripted"})
    command = json.dumps([sys.executable, str(_AGENT), options])
    async with AsyncExitStack() as stack:
        with_agent = f'[models.{MODEL}]\nkind = "acp"\ncommand = {command}\n'
        direct = await stack.enter_async_context(served(folder / "direct", with_agent))
        in_front = f'[models.{MODEL}]\nkind = "responses"\nbase_url = "{direct}"\nmodel = "{MODEL}"\n'
        chain = await stack.enter_async_context(served(folder / "chain", in_front))
        yield Servers({"direct": direct, "chain": chain}, agent)


@asynccontextmanager
async def served(folder: Path, settings: str) -> AsyncIterator[str]:
    """The base URL of `dragoman serve` with these settings."""
    (folder / "workspace").mkdir(parents=True)
    config = folder / "dragoman.toml"
    config.write_text(settings)
    log = folder / "log"
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dragoman", "serve", "--port", "0"),
            *("--config", str(config), "--state-dir", str(folder / "state")),
            cwd=folder / "workspace",
            stdin=asyncio.subprocess.DEVNULL,
            stderr=written,
        )
    try:
        while " serving at " not in (said := log.read_text()):
            assert process.returncode is None, said
            await asyncio.sleep(_LOOK_SECONDS)
        yield next(line for line in said.splitlines() if " serving at " in line).split()[-1]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
