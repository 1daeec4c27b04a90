"""An editor that talks to the demo agent, and holds everything it hears against the official SDK's models."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from acp import schema
from pydantic import BaseModel

from dragoman.backends.scripted import Script, load_script
from dragoman.demo.agent import SCRIPT
from dragoman.demo.agent.server import AgentServer
from dragoman.demo.agent.store import SessionStore
from dragoman.jsonrpc import METHOD_NOT_FOUND, Incoming, Notification, Peer, PeerOptions
from dragoman.lm import JsonObject
from dragoman.process import SupervisedProcess
from fake_agent.demo import COMMAND, reply_to
from memory_peers import memory_pair

__all__ = [
    "Editor",
    "Permission",
    "agent_command",
    "in_process",
    "in_this_process",
    "prompted_command",
    "soon",
    "text",
]

_T = TypeVar("_T")

# Longer than anything here takes on a busy machine. It is only reached by a test that fails.
_DEADLINE = 20.0


def agent_command(state: Path, *options: str) -> tuple[str, ...]:
    """The agent as it is installed."""
    program = (sys.executable, "-m", "dragoman", "demo-agent")
    return (*program, "--state-dir", str(state), "--pace", "instant", *options)


def prompted_command(state: Path) -> tuple[str, ...]:
    """The same with the prompts of tests."""
    return (*COMMAND, "--sessions", str(state / "demo-agent"), "--pace", "instant")


async def soon(work: Awaitable[_T]) -> _T:
    return await asyncio.wait_for(work, _DEADLINE)


def text(value: str) -> JsonObject:
    return {"type": "text", "text": value}


_RESULTS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/close": schema.CloseSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}


def _checked(value: object, model: type[BaseModel]) -> JsonObject:
    """`value`, which must be all and only what the model knows: the SDK's own reading drops what it does not like."""
    read = model.model_validate(value)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == value
    return cast("JsonObject", value)


@dataclass
class Permission:
    """A request for permission that waits for an answer."""

    params: JsonObject
    incoming: Incoming

    @property
    def call(self) -> JsonObject:
        return cast("JsonObject", self.params["toolCall"])

    @property
    def call_id(self) -> str:
        return str(self.call["toolCallId"])

    def choose(self, kind: str) -> None:
        options = cast("list[JsonObject]", self.params["options"])
        chosen = next(option["optionId"] for option in options if option["kind"] == kind)
        self.incoming.reply({"outcome": {"outcome": "selected", "optionId": chosen}})

    def cancel(self) -> None:
        self.incoming.reply({"outcome": {"outcome": "cancelled"}})


def _allow(permission: Permission) -> None:
    permission.choose("allow_once")


@dataclass
class Editor:
    """A client of the agent. Permissions are allowed, unless `decide` is set to something else."""

    decide: Callable[[Permission], object] = _allow
    heard: list[JsonObject] = field(default_factory=list)
    asked: list[Permission] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _peer: Peer | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def peer(self) -> Peer:
        assert self._peer is not None
        return self._peer

    # As a receiver.

    def connected(self, peer: Peer) -> None:
        self._peer = peer

    def request(self, incoming: Incoming) -> None:
        if incoming.method != "session/request_permission":
            incoming.fail(METHOD_NOT_FOUND, "not here")
            return
        params = _checked(json.loads(incoming.params), schema.RequestPermissionRequest)
        permission = Permission(params, incoming)
        self.asked.append(permission)
        self.decide(permission)
        self._tell()

    def notification(self, notification: Notification) -> None:
        assert notification.method == "session/update"
        self.heard.append(_checked(json.loads(notification.params), schema.SessionNotification))
        self._tell()

    def closed(self, reason: str) -> None:
        self.ended.set()
        self._tell()

    def _tell(self) -> None:
        self._news.set()

    # Asking.

    async def ask(self, method: str, **params: object) -> JsonObject:
        result = json.loads(await soon(self.peer.request(method, params)))
        return _checked(result, _RESULTS[method])

    async def start(self, cwd: Path, *servers: JsonObject) -> str:
        """A new session, after the handshake if there was none yet."""
        await self.ask("initialize", protocolVersion=1)
        return await self.new(cwd, *servers)

    async def new(self, cwd: Path, *servers: JsonObject) -> str:
        created = await self.ask("session/new", cwd=str(cwd), mcpServers=servers)
        return str(created["sessionId"])

    async def prompt(self, session: str, *blocks: JsonObject | str) -> JsonObject:
        content = [text(block) if isinstance(block, str) else block for block in blocks]
        return await self.ask("session/prompt", sessionId=session, prompt=content)

    async def say(self, session: str, words: str) -> str:
        """What the agent answers to these words."""
        before = len(self.heard)
        result = await self.prompt(session, words)
        assert result["stopReason"] == "end_turn"
        return self.text(session, before)

    def cancel(self, session: str) -> None:
        self.peer.notify("session/cancel", {"sessionId": session})

    # What was heard.

    def updates(self, session: str, kind: str | None = None, since: int = 0) -> list[JsonObject]:
        found = [
            cast("JsonObject", each["update"]) for each in self.heard[since:] if each["sessionId"] == session
        ]
        return [update for update in found if kind in (None, update["sessionUpdate"])]

    def text(self, session: str, since: int = 0, kind: str = "agent_message_chunk") -> str:
        blocks = [cast("JsonObject", update["content"]) for update in self.updates(session, kind, since)]
        return "".join(str(block["text"]) for block in blocks if block["type"] == "text")

    def states(self, session: str, call_id: str) -> list[object]:
        """The states a tool call went through."""
        found = [update for update in self.updates(session) if update.get("toolCallId") == call_id]
        return [update["status"] for update in found if "status" in update]

    async def until(self, what: Callable[[], object]) -> None:
        """Until something is so, after what was heard."""

        async def wait() -> None:
            while not what():
                self._news.clear()
                await self._news.wait()

        await soon(wait())


@asynccontextmanager
async def in_this_process(
    folder: Path, *, script: Script | None = None, pace: str = "instant"
) -> AsyncIterator[Editor]:
    """An agent without a process of its own, for what does not need one."""
    server = AgentServer(script or load_script(SCRIPT), SessionStore(folder), pace=pace, prompts=reply_to)
    editor = Editor()
    memory_pair(editor, server)
    try:
        yield editor
    finally:
        editor.peer.close()
        await soon(server.ended.wait())
        await soon(server.close())


@asynccontextmanager
async def in_process(
    state: Path, *, installed: bool = False
) -> AsyncIterator[tuple[Editor, SupervisedProcess]]:
    """The agent as it is started by a client."""
    async with await SupervisedProcess.start(
        (agent_command if installed else prompted_command)(state)
    ) as process:
        editor = Editor()
        await process.connect(editor, PeerOptions(name="demo agent"))
        yield editor, process
