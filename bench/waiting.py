"""Conversations that wait for a result, all at once: what each costs, and how long one takes to be found.

    python -m bench.waiting [COUNT …]

The agents live in one process of their own (`crowd.py`), so that the memory counted here is the bridge's. Everything
else is the real thing: ACP over sockets, the tool server over HTTP, the machine, the index, SQLite.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from dragoman.acp.launch import RunningAgent
from dragoman.acp.link import AgentLink
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.session import opening
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.writer import Journals
from dragoman.jsonrpc import Peer, PeerOptions
from dragoman.lm import (
    CancellationSource,
    CancellationToken,
    Consumer,
    Message,
    ModelInfo,
    Request,
    RequestOptions,
    Response,
    TextPart,
    ToolDefinition,
    ToolResultPart,
    user,
)
from dragoman.store import Database, signing_key

_TOOLS = (ToolDefinition("look_up", "Look something up.", {"type": "object", "properties": {}}),)
_AT_ONCE = 20
_LOOKS = 25
# What a chat has said before: some turns of an ordinary length.
_TURNS, _WORDS = 10, " ".join(["word"] * 100)


class _Process:
    """What `RunningAgent` needs of a process, for a connection."""

    pid = 0
    stderr_tail = ""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._ended = asyncio.Event()

    async def wait(self) -> None:
        await self._ended.wait()

    async def stop(self) -> None:
        self._ended.set()
        self._close()


def _resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


class _Chat:
    def __init__(self, model: AgentModel, number: int) -> None:
        self._model = model
        self._history: list[Message] = []
        for turn in range(_TURNS):
            self._history += (
                user(f"chat {number}, turn {turn}: {_WORDS}"),
                Message("assistant", (TextPart(_WORDS),)),
            )

    async def ask(self, *content: str | ToolResultPart) -> tuple[Response, float]:
        """The response, and the seconds until its first part."""
        self._history.append(user(*content))
        consumer = Consumer("bench", "bench", ("/",))
        request = Request(tuple(self._history), RequestOptions(tools=_TOOLS), consumer)
        response = _Timed()
        began = time.perf_counter()
        await self._model.respond(request, response, CancellationToken())
        self._history.append(response.message())
        return response, response.first - began


class _Timed(Response):
    first = 0.0

    def report(self, part: object) -> None:
        self.first = self.first or time.perf_counter()
        super().report(part)  # type: ignore[arg-type]  # whatever the contract says


async def _measure(count: int, folder: Path) -> dict[str, float]:
    crowd = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.crowd", str(folder / "crowd"), stdout=asyncio.subprocess.PIPE
    )
    if crowd.stdout is None or await crowd.stdout.readline() != b"ready\n":
        raise AssertionError("the crowd did not come")

    async def launch(name: str, *_: object) -> RunningAgent:
        gone = CancellationSource()
        link = AgentLink(name, ("crowd",), lambda _reason: gone.cancel())
        peer = Peer(link, PeerOptions(name=name))
        await asyncio.get_running_loop().create_unix_connection(lambda: peer.stream, str(folder / "crowd"))
        return RunningAgent(name, _Process(peer.close), link, peer, gone.token)  # type: ignore[arg-type]

    settings = AgentSettings("crowd", "Crowd", ("crowd",), {}, folder, max_agents=10_000)
    info = ModelInfo("crowd", "Crowd", "crowd", "1", 100_000, 10_000)
    try:
        with patch.object(opening, "launch", launch), Database.open(folder / "state") as database:
            journals = Journals(SqliteJournals(database))
            model = AgentModel(info, settings, journals=journals, key=signing_key(database))
            # Everything that is loaded once is loaded by the first.
            first = _Chat(model, 0)
            await first.ask("go")
            before = _resident()
            chats = [_Chat(model, number) for number in range(1, count + 1)]
            histories = _resident() - before
            limit = asyncio.Semaphore(_AT_ONCE)

            async def begin(chat: _Chat) -> str:
                async with limit:
                    response, _ = await chat.ask("go")
                    return response.calls[0].call_id

            calls = await asyncio.gather(*map(begin, chats))
            each = (_resident() - before - histories) / count
            found: list[float] = []
            places = range(0, count, max(1, count // _LOOKS))
            for place in places:
                done, seconds = await chats[place].ask(ToolResultPart(calls[place], (TextPart("it"),)))
                if "It said 1." not in done.text:
                    raise AssertionError(done.text)
                found.append(seconds)
            await model.close()
    finally:
        crowd.terminate()
        await crowd.wait()
    return {"waiting": count, "KiB each": each / 1024, "ms to find one": statistics.median(found) * 1000}


def main() -> None:
    print(f"{'waiting':>10} {'KiB each':>10} {'ms to find one':>15}")
    for count in map(int, sys.argv[1:] or ("1", "100", "1000")):
        with tempfile.TemporaryDirectory() as folder:
            figures = asyncio.run(_measure(count, Path(folder)))
        print(f"{figures['waiting']:>10} {figures['KiB each']:>10.1f} {figures['ms to find one']:>15.2f}")
        print(json.dumps(figures), file=sys.stderr)


if __name__ == "__main__":
    main()
