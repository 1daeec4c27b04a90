"""What the bridge makes of an agent's trace: the trace plays the agent, in this process, and everything that its ear tells
a conversation is written down, a line for each.

The link, the ear, the narrator and whatever decides about permissions are the real ones. The conversation only listens: it
does at each point what the client in the trace did, and its machine stands still. The calls that an agent makes to its
tool server are not in a trace; each is made here when the agent says that it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from devtools.traces.player import OPTIONS, TracePlayer
from devtools.traces.reading import is_reply, method_of, read_trace

import virtual_clock
from dragoman.acp.content import TextBlock
from dragoman.acp.launch import RunningAgent
from dragoman.acp.link import AgentLink, ToolServerAddress, TurnEnd
from dragoman.acp.messages import (
    FileRequest,
    Header,
    HttpServer,
    PermissionRequest,
    SessionUpdate,
    StdioServer,
    ToolActivity,
)
from dragoman.backends.agent.conversation import Conversation, SharedContext
from dragoman.backends.agent.machine.types import (
    AgentTurnEnded,
    Announced,
    CallAnswer,
    Called,
    CallWithdrawn,
    Granted,
    MachineEvent,
    Noticed,
    Pending,
    Refused,
    Spoke,
    TurnCancelled,
)
from dragoman.backends.agent.profile.observations import Observations
from dragoman.backends.agent.profile.offer import RememberedOffer
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.profile.traits import traits_of
from dragoman.backends.agent.session.listener import AgentListener
from dragoman.backends.agent.session.session import AgentSession
from dragoman.backends.agent.toolserver import Endpoint, PendingCall, ToolServer
from dragoman.backends.agent.toolserver.endpoint import Addresses
from dragoman.conversations.ids import KEY_BYTES, IdSigner
from dragoman.conversations.records import Records, Scope
from dragoman.frontends.http.approvals import spelled_out
from dragoman.journal.writer import Journals
from dragoman.jsonrpc import Incoming, PeerOptions
from dragoman.lm import (
    CancellationToken,
    DataPart,
    JsonObject,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
)
from dragoman.lm.activity_text import Activities
from dragoman.lm.json import canonical, encode_text
from dragoman.permissions.action import PERMISSION_TOOLS
from dragoman.permissions.pipeline import PermissionServices
from dragoman.process import SupervisedProcess
from dragoman.traces.frames import Frame
from memory_peers import memory_pair
from virtual_clock import running_clock

__all__ = ["DATA", "Told", "agent_of", "listened"]

DATA = Path(__file__).parent / "data"
TOOLS = tuple(ToolDefinition(f"probe_{name}") for name in ("alpha", "beta", "gamma", "grow", "slow"))
# The agents that are called otherwise in the catalogue. The old Codex line is not in it.
_AGENTS = {"claude20": "claude-node20", "fast": "fast-agent"}
_OVER = ("completed", "failed")
_RANDOM = ("nonce",)


def agent_of(trace: Path) -> str:
    return trace.stem.partition("-")[0]


class Told:
    """What was heard of a trace: the events, and the same with what the client did as lines."""

    def __init__(self) -> None:
        self.events: list[MachineEvent] = []
        self.lines: list[str] = []
        self._keys: dict[str, str] = {}
        self._activities = Activities()

    def note(self, event: MachineEvent) -> None:
        self.events.append(event)
        self.lines += self._rendered(event)

    def did(self, frame: Frame) -> None:
        message = cast("dict[str, Any]", frame.message)
        if is_reply(frame):
            outcome = message["result"]["outcome"]
            self.lines.append(f"> {outcome.get('optionId', outcome['outcome'])}")
        elif method_of(frame) == "session/prompt":
            self.lines.append(f"> session/prompt {encode_text(message['params']['prompt'][0]['text'])}")
        else:
            self.lines.append(f"> {method_of(frame)}")

    def _rendered(self, event: MachineEvent) -> list[str]:
        match event:
            case Spoke(part=part) | Noticed(part=part):
                return self._written(part)
            case Announced(key=key, over=over):
                return [f"announced {self._key(key)}{' over' if over else ''}"]
            case Called(pending=Pending(kind=kind, part=part), announced=key):
                given = {name: value for name, value in part.input.items() if name not in _RANDOM}
                by = f" announced {self._key(key)}" if key else ""
                return [f"{kind} {part.name} {canonical(given)}{by}"]
            case CallWithdrawn():
                return ["withdrawn"]
            case AgentTurnEnded(last_words=words, error=error):
                end = f"end {encode_text(error.sentence)}" if error else "end"
                return [*(line for part in words for line in self._written(part)), end]
            case _:
                return [repr(event)]

    def _written(self, part: Part) -> list[str]:
        """As a consumer without activities gets it."""
        return [_part(shown) for shown in self._activities.present(part, structured=False)]

    def _key(self, key: str) -> str:
        """Agents make their names for calls up anew."""
        return self._keys.setdefault(key, f"#{len(self._keys) + 1}")


def _part(part: Part) -> str:
    match part:
        case TextPart(value=text):
            return f"text {encode_text(text)}"
        case ThinkingPart(text=text):
            return f"thinking {encode_text(text)}"
        case DataPart(mime_type=kind, data=data):
            return f"data {kind} {data.decode()}"
        case _:
            return repr(part)


class _Listening(Conversation):
    told: Told

    def dispatch(self, event: MachineEvent) -> None:
        if isinstance(event, Called) and event.pending.kind == "permission":
            # As an HTTP client is shown it: with the question.
            part = spelled_out(event.pending.part, self._shared.permissions.grants)
            assert isinstance(part, ToolCallPart)
            event = Called(msgspec.structs.replace(event.pending, part=part), event.announced)
        self.told.note(event)

    def turn_is(self, turn: Literal["running", "cancelling"]) -> None:
        self._state = replace(self._state, turn=turn)


class _Client:
    """Does what the client of a trace did, through our own link. A listener of the session."""

    def __init__(self, frames: tuple[Frame, ...], agent: str) -> None:
        self.told = Told()
        self.player = TracePlayer(
            frames, "agent", clock=running_clock(), on_awaited=lambda frame: self._do(self._act_on(frame))
        )
        self._work: set[asyncio.Task[None]] = set()
        self._link = AgentLink("Agent", ("agent", "--acp"), lambda _reason: None)
        traits = traits_of(_AGENTS.get(agent, agent))
        settings = AgentSettings("agent", "Agent", ("agent",), {}, Path("/here"), traits)
        clock = running_clock()
        around = SharedContext(
            settings,
            ToolServer(clock),
            IdSigner(b"k" * KEY_BYTES),
            PermissionServices(),
            Records(),
            clock,
            Journals(),
            Observations(),
            RememberedOffer("agent", ("agent",)),
            lambda: None,
            lambda _id: None,
        )
        self._conversation = _Listening("a" * 16, Scope("agent", ("/here",)), around)
        self._conversation.told = self.told
        self._listener = AgentListener(self._conversation, 0)
        endpoint = Endpoint(
            # Another than in the trace.
            "dg-5eed5eed",
            None,
            self._listener.on_call,
            self._listener.on_withdrawn,
            lambda: None,
            clock,
            Addresses("http://127.0.0.1:1", Path("socket")),
            _nothing,
        )
        endpoint.set_tools(TOOLS)
        offered = (*TOOLS, *(ToolDefinition(name) for name in PERMISSION_TOOLS.values()))
        self._conversation.permission_requests.set_tools(offered)
        peer, _ = memory_pair(self._link, self.player, PeerOptions(name="agent"), OPTIONS)
        # Nothing here asks for the process.
        process = cast("SupervisedProcess", None)
        running = RunningAgent("Agent", process, self._link, peer, CancellationToken())
        self._session = self._listener.session = AgentSession(
            running, endpoint, self._listener, traits, lambda **_seen: None
        )
        self._called: set[str] = set()
        # The agent's questions in the trace, by their ids, in their order, and those that came.
        self._asked = [
            frame.message["id"]
            for frame in frames
            if frame.message and method_of(frame) == "session/request_permission" and frame.direction == "a2c"
        ]
        self._came: list[tuple[PermissionRequest, Incoming]] = []
        self._more = asyncio.Event()

    # What the trace wants done.

    async def _act_on(self, frame: Frame) -> None:
        # When all that the agent said before has been heard.
        await running_clock().sleep(0)
        if "error" in (frame.message or {}):
            # The link refuses what it does not know.
            return
        self.told.did(frame)
        params = cast("dict[str, Any]", (frame.message or {}).get("params", {}))
        session = params.get("sessionId", "")
        link = self._link
        match method_of(frame):
            case None:
                self._do(self._answer(frame))
            case "initialize":
                self._do(link.initialize())
            case "session/new":
                self._do(link.new_session(("/here",), self._servers(params), self))
            case "session/load":
                self._do(
                    self._taken_up(session, link.load_session(session, ("/here",), self._servers(params)))
                )
            case "session/resume":
                self._do(
                    self._taken_up(session, link.resume_session(session, ("/here",), self._servers(params)))
                )
            case "session/prompt":
                self._conversation.turn_is("running")
                blocks = tuple(TextBlock(block["text"]) for block in params["prompt"])
                link.prompt(session, blocks, self._on_end)
            case "session/cancel":
                self._conversation.turn_is("cancelling")
                link.cancel(session)
            case method:
                raise NotImplementedError(method)

    def _servers(self, params: JsonObject) -> tuple[ToolServerAddress, ...]:
        name = self._session.endpoint.name
        return tuple(
            HttpServer(name, "http://127.0.0.1:2/mcp", (Header("Authorization", "Bearer x"),))
            if server.get("type") == "http"
            else StdioServer(name, "python3", ("shim.py",), (Header("TOKEN", "x"),))
            for server in cast("list[JsonObject]", params["mcpServers"])
        )

    async def _taken_up(self, session: str, taking: Coroutine[object, object, object]) -> None:
        await taking
        self._link.attach(session, self)

    async def _answer(self, frame: Frame) -> None:
        message = cast("dict[str, Any]", frame.message)
        number = self._asked.index(message["id"])
        while len(self._came) <= number:
            self._more.clear()
            await self._more.wait()
        request, incoming = self._came[number]
        if incoming.answered:
            # By the ear itself: it was for a tool of the consumer's.
            return
        outcome = message["result"]["outcome"]
        kind = next((o.kind for o in request.options if o.option_id == outcome.get("optionId")), "")
        decision: CallAnswer = TurnCancelled()
        if kind:
            decision = Granted() if kind.startswith("allow") else Refused()
        pending = next(
            event.pending
            for event in self.told.events
            if isinstance(event, Called) and event.pending.key == f"permission:{incoming.id!r}"
        )
        told = self._conversation.permission_requests.answer(pending, decision)
        if told is not None:
            self.told.note(Spoke(TextPart(told)))

    def _do(self, work: Coroutine[object, object, object]) -> None:
        async def done() -> None:
            await work

        task = asyncio.create_task(done())
        self._work.add(task)

    async def finish(self) -> None:
        """What was asked for was answered, or refused in a way that the link can tell."""
        await asyncio.gather(*self._work, return_exceptions=True)
        # What the end of the connection does is not in the trace.
        self._conversation.told = Told()
        self._session.agent.peer.close()

    # As a listener.

    def on_update(self, update: SessionUpdate) -> None:
        if isinstance(activity := update.update, ToolActivity):
            self._call(self._session.narrator.known(activity))
        self._listener.on_update(update)

    def _call(self, activity: ToolActivity) -> None:
        tool = self._session.own_tool((activity,))
        key = activity.tool_call_id
        if tool is None or activity.status not in _OVER or key in self._called:
            return
        self._called.add(key)
        given = activity.raw_input
        arguments = given.get("arguments", given) if isinstance(given, dict) else {}
        self._listener.on_call(PendingCall(key, tool, cast("JsonObject", arguments)))

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:
        self._listener.on_permission(request, incoming)
        self._came.append((request, incoming))
        self._more.set()

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        self._listener.on_file(request, incoming)

    def _on_end(self, end: TurnEnd) -> None:
        self._listener.on_turn_end(end)
        self._called.clear()


async def _nothing(_endpoint: Endpoint) -> None:
    pass


def listened(trace: Path) -> Told:
    """Play it. Fails with both frames where the bridge says something else than the client did."""

    async def listen() -> Told:
        client = _Client(read_trace(trace), agent_of(trace))
        found = await client.player.played()
        assert found is None, f"{trace.name}: {found}"
        await client.finish()
        return client.told

    return virtual_clock.run(listen())
