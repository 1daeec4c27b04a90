"""The extension's side of `dragoman vscode`, over real pipes: what VS Code and its chat would send."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dragoman.cli.vscode import _OPTIONS as CONNECTION
from dragoman.config import load
from dragoman.frontends.vscode.server import VsCodeServer
from dragoman.jsonrpc import (
    METHOD_NOT_FOUND,
    ErrorResponse,
    Incoming,
    Notification,
    Peer,
    PeerOptions,
    RpcReply,
    RpcResponse,
)
from dragoman.models import Models
from dragoman.process import SupervisedProcess
from fake_agent.demo import COMMAND as DEMO
from fake_agent.steps import COMMAND
from memory_peers import memory_pair

__all__ = [
    "DEADLINE_SECONDS",
    "PERMISSIONS",
    "TOOLS",
    "Answer",
    "Chat",
    "Editor",
    "editor_here",
    "editor_in",
    "image",
    "noted",
    "returned",
    "soon",
    "tool",
]

_T = TypeVar("_T")

# Longer than anything here takes on a busy machine. Only a test that fails reaches it.
DEADLINE_SECONDS = 30.0


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema}


TOOLS = [tool("look_up"), tool("count"), tool("show")]
PERMISSIONS = [
    {"name": f"dragoman-agent-action-{risk}", "description": ""}
    for risk in ("read", "edit", "delete", "execute", "fetch", "other", "sensitive")
]


async def soon(work: Awaitable[_T], seconds: float = DEADLINE_SECONDS) -> _T:
    return await asyncio.wait_for(work, seconds)


@dataclass
class Answer:
    """A request for a response, from its sending to its result."""

    editor: Editor
    id: int = 0
    parts: list[dict[str, Any]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    reply: RpcReply | None = None

    @property
    def text(self) -> str:
        return "".join(part["value"] for part in self.parts if part["type"] == "text")

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [part for part in self.parts if part["type"] == "tool_call"]

    @property
    def error(self) -> ErrorResponse:
        assert isinstance(self.reply, ErrorResponse), self.reply
        return self.reply

    @property
    def kind(self) -> object:
        """The kind of error, in our own words."""
        data = self.error.error.data
        return data.get("kind") if isinstance(data, dict) else None

    async def until(self, is_so: Callable[[Answer], object]) -> None:
        async def look() -> None:
            while not is_so(self):
                assert self.reply is None, self
                self.news.clear()
                await self.news.wait()

        await soon(look(), self.editor.patience)

    async def settled(self) -> Answer:
        async def look() -> None:
            while self.reply is None:
                self.news.clear()
                await self.news.wait()

        await soon(look(), self.editor.patience)
        return self

    def cancel(self) -> None:
        self.editor.peer.notify("lm/cancel", {"requestId": self.id})

    @property
    def message(self) -> dict[str, Any]:
        """As the chat gives it back: the last marker first, all text in one part, then the calls."""
        markers = [part for part in self.parts if part.get("mimeType") == "stateful_marker"]
        text = [{"type": "text", "value": self.text}] if self.text else []
        return {"role": "assistant", "content": [*markers[-1:], *text, *self.calls]}


class Editor:
    def __init__(self, patience: float = DEADLINE_SECONDS) -> None:
        self.patience = patience
        self._peer: Peer | None = None
        self.answers: dict[int, Answer] = {}
        self.closed_because: str | None = None
        self.logged: list[dict[str, Any]] = []
        self.logged_more = asyncio.Event()
        self.models_changed = asyncio.Event()
        # How often it was told that the list of conversations has changed.
        self.conversation_changes = 0
        self.conversations_changed = asyncio.Event()
        # The documents that are open, by path: what their editors hold, saved or not.
        self.buffers: dict[str, str] = {}
        # What its terminals have shown, by id, and how their commands ended.
        self.terminals: dict[str, str] = {}
        self.exits: dict[str, dict[str, Any]] = {}
        self.terminal_news = asyncio.Event()
        # What it was asked to do, and what it does not answer or refuses.
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.silent: set[str] = set()
        self.refuses: dict[str, str] = {}

    @property
    def peer(self) -> Peer:
        assert self._peer is not None
        return self._peer

    # As a receiver.

    def connected(self, peer: Peer) -> None:
        self._peer = peer

    def request(self, incoming: Incoming) -> None:
        params = json.loads(incoming.params)
        self.asked.append((incoming.method, params))
        if incoming.method in self.refuses:
            incoming.fail(METHOD_NOT_FOUND, self.refuses[incoming.method])
        elif incoming.method in self.silent:
            return
        elif incoming.method == "terminal/create":
            self.terminals[params["id"]] = ""
            incoming.reply({})
        elif incoming.method == "fs/readTextFile":
            incoming.reply(self._read(Path(params["path"])))
        elif incoming.method == "fs/writeTextFile":
            incoming.reply({"text": self._write(Path(params["path"]), params["text"], params["expected"])})
        else:
            incoming.fail(METHOD_NOT_FOUND, f"{incoming.method} is not served")

    def _read(self, path: Path) -> dict[str, object]:
        """As VS Code does: the text of a document with unsaved changes, and whether there is a document."""
        held = self.buffers.get(str(path))
        return {"text": None if held == _on_disk(path) else held, "isOpen": held is not None}

    def _write(self, path: Path, text: str, expected: str | None) -> str | None:
        """As VS Code does: the document is changed and saved, if it is what it should be."""
        on_disk = _on_disk(path)
        if self.buffers.get(str(path), on_disk) != expected:
            return None
        self.buffers[str(path)] = text
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return text

    def notification(self, notification: Notification) -> None:
        params = json.loads(notification.params)
        if notification.method == "lm/responsePart":
            answer = self.answers[params["requestId"]]
            assert answer.reply is None, "a part behind its result"
            answer.parts.append(params["part"])
            answer.news.set()
        elif notification.method == "log":
            self.logged.append(params)
            self.logged_more.set()
        elif notification.method == "terminal/output":
            self.terminals[params["id"]] += params["data"]
            self.terminal_news.set()
        elif notification.method == "terminal/exit":
            self.exits[params.pop("id")] = params
            self.terminal_news.set()
        elif notification.method == "conversations/changed":
            self.conversation_changes += 1
            self.conversations_changed.set()
        elif notification.method == "lm/modelsChanged":
            self.models_changed.set()

    def closed(self, reason: str) -> None:
        self.closed_because = reason

    # Asking.

    async def ask(self, method: str, params: object) -> Any:
        return json.loads(await soon(self.peer.request(method, params), self.patience))

    async def terminals_until(self, is_so: Callable[[Editor], object]) -> None:
        while not is_so(self):
            self.terminal_news.clear()
            await soon(self.terminal_news.wait(), self.patience)

    async def logs(self, words: str) -> None:
        """Until it has logged something with these words."""
        while not any(words in each["message"] for each in self.logged):
            self.logged_more.clear()
            await soon(self.logged_more.wait(), self.patience)

    async def initialize(self, folder: Path, **features: bool) -> Any:
        return await self.ask(
            "initialize",
            {
                "protocolVersion": 1,
                "client": {"name": "test", "version": "1"},
                "workspaceFolders": [str(folder)],
                "features": {"thinking": True, "data": True, **features},
            },
        )

    def respond(
        self, model: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]], **options: object
    ) -> Answer:
        answer = Answer(self)

        def on_reply(reply: RpcReply) -> None:
            answer.reply = reply
            answer.news.set()

        params = {"modelId": model, "messages": messages, "options": {"tools": tools, **options}}
        identity = self.peer.call("lm/provideLanguageModelChatResponse", params, on_reply)
        assert isinstance(identity, int)
        answer.id = identity
        self.answers[identity] = answer
        return answer

    async def approve(self, call: dict[str, Any], **edited: object) -> dict[str, Any]:
        """The person has said yes: what VS Code does then, and the result it puts into the history."""
        asked = {"name": call["name"], "input": {**call["input"], **edited}}
        invoked = await self.ask("tools/invoke", asked)
        return {"type": "tool_result", "callId": call["callId"], "content": invoked["content"]}


@dataclass
class Chat:
    """A chat in the editor: its history is all that identifies it."""

    editor: Editor
    model: str = "demo"
    tools: list[dict[str, Any]] = field(default_factory=lambda: [*TOOLS, *PERMISSIONS])
    history: list[dict[str, Any]] = field(default_factory=list)
    # Of every request, beside its tools.
    options: dict[str, Any] = field(default_factory=dict)

    def begin(self, *contents: dict[str, Any] | str) -> Answer:
        """Each in a message of its own."""
        for part in contents:
            content = {"type": "text", "value": part} if isinstance(part, str) else part
            self.history.append({"role": "user", "content": [content]})
        return self.editor.respond(self.model, list(self.history), self.tools, **self.options)

    async def end(self, answer: Answer) -> Answer:
        await answer.settled()
        assert isinstance(answer.reply, RpcResponse), answer.reply
        assert json.loads(answer.reply.result) == {}
        if answer.text or answer.calls:
            self.history.append(answer.message)
        return answer

    async def say(self, *contents: dict[str, Any] | str) -> Answer:
        return await self.end(self.begin(*contents))


def _on_disk(path: Path) -> str | None:
    return path.read_bytes().decode() if path.exists() else None


def returned(call: dict[str, Any], *content: dict[str, Any] | str, **more: object) -> dict[str, Any]:
    """The result of a call."""
    parts = [{"type": "text", "value": part} if isinstance(part, str) else part for part in content]
    return {"type": "tool_result", "callId": call["callId"], "content": parts, **more}


def image(data: bytes) -> dict[str, Any]:
    return {"type": "data", "mimeType": "image/png", "data": base64.b64encode(data).decode()}


def noted(folder: Path, method: str) -> list[dict[str, Any]]:
    """What the fake agents were sent, or did, by its name."""
    journal = folder / "journal"
    # The last line may be half written.
    lines = journal.read_text().split("\n")[:-1] if journal.exists() else []
    return [entry["params"] for entry in map(json.loads, lines) if entry["method"] == method]


@asynccontextmanager
async def editor_in(
    folder: Path, *, initialized: bool = True, configured: str = "", **options: object
) -> AsyncIterator[tuple[Editor, SupervisedProcess]]:
    """`dragoman vscode` with two models: the demo agent, and the fake agent with these options. `configured` is more TOML."""
    config = _configuration(folder, configured, options)
    command = (
        sys.executable,
        "-m",
        "dragoman",
        "vscode",
        "--config",
        str(config),
        "--state-dir",
        str(folder),
    )
    async with await SupervisedProcess.start(command, cwd=folder) as process:
        editor = Editor()
        await process.connect(editor, PeerOptions(name="dragoman"))
        if initialized:
            await editor.initialize(folder)
        yield editor, process


@asynccontextmanager
async def editor_here(
    folder: Path, *, initialized: bool = True, configured: str = "", **options: object
) -> AsyncIterator[Editor]:
    """As `editor_in`, with the server in this process. The agents are processes still.

    The server logs nothing to this editor, and does not see that its configuration changes.
    """
    models = Models(load(_configuration(folder, configured, options)), folder)
    server = VsCodeServer(models)
    editor = Editor()
    try:
        ours, _ = memory_pair(server, editor, CONNECTION, PeerOptions(name="dragoman"))
        if initialized:
            await editor.initialize(folder)
        yield editor
        ours.close("the test is over")
    finally:
        await server.close()


def _configuration(folder: Path, configured: str, options: dict[str, object]) -> Path:
    arguments = json.dumps({"folder": str(folder), **options})
    demo = [*DEMO, "--pace", "instant", "--sessions", str(folder / "sessions")]
    config = folder / "dragoman.toml"
    # A JSON string is a TOML string, too.
    config.write_text(
        f'[models.demo]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps(demo)}\n'
        f'[models.fake]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps([*COMMAND, arguments])}\n'
        + configured
    )
    return config
