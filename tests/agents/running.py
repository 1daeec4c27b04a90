"""A real agent behind each of our front ends, with a model of ours behind it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

from agents.rows import Row
from dragoman.jsonrpc import PeerOptions
from dragoman.process import SupervisedProcess
from http_server.kit import function
from model_server import ModelServer, model_server
from vscode.editor import PERMISSIONS, Answer, Chat, Editor, tool

__all__ = ["JOURNALS", "TOOLS", "Client", "Desk", "Lines", "answered", "at_desk", "served"]

Json: TypeAlias = dict[str, Any]

# opencode's session takes most of a minute now and then, and the bridge then starts another.
PATIENCE_SECONDS = 150.0
# The variable that names a folder for copies of the rows' state, with their journals.
JOURNALS = "DRAGOMAN_KEEP_JOURNALS"
TOOLS = [tool(name) for name in ("look_up", "count", "show", "ask_person")]


@dataclass
class Desk:
    """One agent, the folder it works in, and `dragoman vscode` in front of it."""

    row: Row
    folder: Path
    models: ModelServer
    command: tuple[str, ...]
    env: dict[str, str]
    editor: Editor = field(init=False)
    process: SupervisedProcess = field(init=False)
    _stack: AsyncExitStack = field(init=False, default_factory=AsyncExitStack)
    _chat: Chat | None = field(init=False, default=None)

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def chat(self) -> Chat:
        """The chat that scenarios share: each costs a start of the agent otherwise."""
        if self._chat is None:
            self._chat = self.new_chat()
        self._chat.tools = [*TOOLS, *PERMISSIONS]
        return self._chat

    def new_chat(self, history: list[Json] | None = None) -> Chat:
        return Chat(self.editor, self.row.name, [*TOOLS, *PERMISSIONS], history or [])

    def forget_chat(self) -> None:
        """After a scenario that failed, the next begins with a new one."""
        self._chat = None

    async def open(self) -> None:
        config = self.folder / "dragoman.toml"
        # JSON's strings and lists are TOML's, too.
        lines = [
            f"[models.{self.row.name}]",
            'kind = "acp"',
            *([f"agent = {json.dumps(self.row.agent)}"] if self.row.agent else []),
            f"command = {json.dumps(self.command)}",
            "env_inherit = false",
            *([f"tool_limit_seconds = {self.row.limit_seconds}"] if self.row.limit_seconds else []),
            *(f"{name} = {json.dumps(value)}" for name, value in self.row.settings.items()),
            f"[models.{self.row.name}.env]",
            *(f"{name} = {json.dumps(value)}" for name, value in self.env.items()),
        ]
        config.write_text("\n".join(lines) + "\n")
        process = await SupervisedProcess.start(self.dragoman("vscode"), cwd=self.workspace)
        self.process = await self._stack.enter_async_context(process)
        self.editor = Editor(PATIENCE_SECONDS)
        await process.connect(self.editor, PeerOptions(name="dragoman"))
        await self.editor.initialize(self.workspace)

    def dragoman(self, *words: str) -> tuple[str, ...]:
        files = {"--config": "dragoman.toml", "--state-dir": "state", "--record": "wire.jsonl"}
        named = (word for option, name in files.items() for word in (option, str(self.folder / name)))
        return (sys.executable, "-m", "dragoman", *words, *named)

    async def close(self) -> None:
        await self._stack.aclose()

    async def open_again(self) -> None:
        """`dragoman vscode` ends and is started anew, as when a window is reloaded."""
        await self.close()
        self._stack = AsyncExitStack()
        self.forget_chat()
        await self.open()

    def kill_agents(self) -> int:
        """Every process of the agent, known by its home."""
        home = f"HOME={self.folder / 'home'}".encode()
        found = 0
        for process in Path("/proc").iterdir():
            try:
                is_agents = home in (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if is_agents:
                os.kill(int(process.name), signal.SIGKILL)
                found += 1
        return found


@asynccontextmanager
async def at_desk(row: Row, folder: Path) -> AsyncIterator[Desk]:
    for name in ("home", "workspace", "state"):
        (folder / name).mkdir(parents=True)
    started = row.installed()
    async with model_server() as models:
        env = row.environment(folder / "home", models.url, started.path)
        desk = Desk(row, folder, models, started.command, env)
        try:
            await desk.open()
            yield desk
        finally:
            await desk.close()
            if journals := os.environ.get(JOURNALS):
                shutil.copytree(folder / "state", Path(journals) / row.name, dirs_exist_ok=True)


async def answered(
    chat: Chat, answer: Answer, give: Callable[[Json], Awaitable[Json]]
) -> tuple[str, list[Json]]:
    """See a turn through, giving each call what `give` says: all of its text, and all calls."""
    text, calls = answer.text, list(answer.calls)
    while answer.calls:
        # All are asked for before any is answered, as VS Code does it.
        results = [await give(call) for call in answer.calls]
        answer = await chat.say(*results)
        text += answer.text
        calls += answer.calls
        assert len(calls) < 20, "the model does not come to an end"
    return text, calls


class Lines:
    """`dragoman chat --json`: one prompt, its events, and an answer to every question."""

    def __init__(self, desk: Desk, prompt: str, decide: Callable[[Json], str]) -> None:
        self._command = desk.dragoman("chat", desk.row.name, "--json", "-p", prompt)
        self._cwd = desk.workspace
        self._decide = decide
        self.events: list[Json] = []

    async def run(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._cwd,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Our own log, of which a failed test shows the end.
            stderr=None,
            limit=2**24,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                async for line in process.stdout:
                    event = json.loads(line)
                    self.events.append(event)
                    if event["event"] == "asked":
                        answer = {"callId": event["callId"], "decision": self._decide(event)}
                        process.stdin.write(json.dumps(answer).encode() + b"\n")
                return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def of(self, name: str) -> list[Json]:
        return [event for event in self.events if event["event"] == name]

    @property
    def text(self) -> str:
        return "".join(event["text"] for event in self.of("text"))


class Client:
    """An OpenAI-style client of `dragoman serve` with functions of its own."""

    def __init__(self, http: httpx2.AsyncClient, model: str, *functions: str) -> None:
        self._http = http
        self._body = {"model": model, "tools": [function(name) for name in functions]}
        self._last: Json = {}

    async def create(self, given: str | list[Json], **headers: str) -> list[Json]:
        """The items of the response to this input, which follows the last response."""
        body = self._body | {"input": given, **self._last}
        answer = await self._http.post("/v1/responses", json=body, headers=headers)
        assert answer.status_code == httpx2.codes.OK, answer.text
        response: Json = answer.json()
        assert response["status"] == "completed", response
        self._last = {"previous_response_id": response["id"]}
        return list(response["output"])


@asynccontextmanager
async def served(desk: Desk) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of `dragoman serve` with the agent of the desk."""
    process = await asyncio.create_subprocess_exec(
        *desk.dragoman("serve", "--port", "0"), cwd=desk.workspace, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # Behind what a person must know of the agent.
            while b" serving at " not in (line := await process.stderr.readline()):
                assert line, "it has ended"
        address = line.split()[-1].decode().removesuffix("/v1")
        async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE_SECONDS) as http:
            yield http
    finally:
        process.terminate()
        # Read on, so that it can write its log and end.
        _, log = await process.communicate()
        print(log.decode(errors="replace"), file=sys.stderr)
