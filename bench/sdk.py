"""What one would write in an afternoon: the ACP SDK's client, and Starlette for HTTP.

    python -m bench.sdk PORT|stdio AGENT…

One agent for all, a session for each request. The same protocols as `floor.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import acp
import uvicorn
import uvloop
from acp.schema import AgentMessageChunk, TextContentBlock
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

__all__: list[str] = []


class _Client(acp.Client):
    def __init__(self) -> None:
        self.says: dict[str, Callable[[str], None]] = {}

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text)):
                self.says[session_id](text)


class _Agent:
    def __init__(self, client: _Client, connection: acp.Agent) -> None:
        self._client = client
        self._connection = connection

    async def prompt(self, text: str, say: Callable[[str], None]) -> None:
        session = (await self._connection.new_session(cwd="/", mcp_servers=[])).session_id
        self._client.says[session] = say
        await self._connection.prompt(session_id=session, prompt=[acp.text_block(text)])
        # Its client handles updates in tasks of their own, which are not done when the answer is.
        for _ in range(3):
            await asyncio.sleep(0)


async def _stdio(agent: _Agent) -> None:
    reader, writer = await acp.stdio_streams()
    tasks: set[asyncio.Task[None]] = set()

    def send(message: dict[str, object]) -> None:
        writer.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    async def take(message: dict[str, Any]) -> None:
        number = message["id"]

        def say(text: str) -> None:
            part = {"type": "text", "value": text}
            send({"method": "lm/responsePart", "params": {"requestId": number, "part": part}})

        if message["method"] == "lm/provideLanguageModelChatResponse":
            await agent.prompt(message["params"]["messages"][-1]["content"][0]["value"], say)
        send({"id": number, "result": {}})
        await writer.drain()

    while line := await reader.readline():
        task = asyncio.create_task(take(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _http(agent: _Agent, port: int) -> None:
    async def complete(request: Request) -> StreamingResponse:
        text = (await request.json())["messages"][-1]["content"]
        said: asyncio.Queue[str | None] = asyncio.Queue()

        async def run() -> None:
            await agent.prompt(text, said.put_nowait)
            said.put_nowait(None)

        async def events() -> AsyncIterator[str]:
            task = asyncio.create_task(run())
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
            while (piece := await said.get()) is not None:
                choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
                yield f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n"
            await task
            yield "data: [DONE]\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", http="h11")).serve()


async def _run(way: str, command: list[str]) -> None:
    client = _Client()  # type: ignore[abstract]  # nothing else is asked of it here
    async with acp.spawn_agent_process(client, *command) as (connection, _):
        await connection.initialize(protocol_version=1)
        agent = _Agent(client, connection)
        await (_stdio(agent) if way == "stdio" else _http(agent, int(way)))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, suppress(KeyboardInterrupt):
        runner.run(_run(sys.argv[1], sys.argv[2:]))
