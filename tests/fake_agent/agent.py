"""An agent that does what a test tells it to, however bad: a process of its own that speaks real ACP.

It is made of our own JSON-RPC peer, because the official SDK cannot misbehave. `steps.py` has the words of a prompt; its
one argument is a JSON object of options:

    folder          where its journal, its sessions and the gates are
    http            whether it takes tool servers over HTTP
    load, resume    whether it can take sessions up again
    close           whether it can close them
    images          whether it takes pictures
    relists         whether it lists the tools again when they have changed
    lists_late      it lists the tools again so many seconds after it has answered
    lists           which of its sessions look at the tools: "all", "none", or "second"
    refuse          {METHOD: [CODE, TEXT]}: errors
    start           "exit": the process ends instead of answering `initialize`; "hang": it never answers
    authentication  the methods of `initialize`
    login           the one that it wants, before it opens a session
    slow            its sessions are open when that gate is
    history         when it tells the history of a session that it loads: "before" its answer (the default), "after" it,
                    in pieces; "prompt": when it is prompted; "answer": in the middle of its answer
    pause           between two pieces of a history that is told later, in seconds
    name            the name that it gives itself; none otherwise
    steers          whether it takes words in mid-turn: true, or the outcome that it answers instead
    state           {…}: what it says of the modes and options of a session that it opens, and remembers what it is told
    takes_not       values of modes and options that it refuses
    lost            values of modes and options, and ways to log in, that it never answers for
    swaps           {wanted: taken}: values of modes and options that it says it takes, and reports another one of
    commands        what it says of its commands, when a session has begun
    login_file      it is logged in when that file is there, as after a login in a terminal
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.acp.messages import HttpServer, StdioServer
from dragoman.jsonrpc import (
    METHOD_NOT_FOUND,
    ErrorResponse,
    Incoming,
    Notification,
    Peer,
    PeerOptions,
    RpcReply,
    RpcResponse,
    connect_stdio,
)

if TYPE_CHECKING:
    from dragoman.demo.mcp import ToolClient

# It runs as a script, and the developers' tools are not installed.
sys.path.insert(0, str(Path(__file__).parents[2]))

# Between two looks whether a gate is open.
_LOOK_SECONDS = 0.01
_STDERR_LINE = "this agent talks a lot about nothing at all, line "


class TurnOver(Exception):
    """The turn ends here, with a stop reason or an error."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Session:
    def __init__(self, name: str) -> None:
        self.name = name
        self.tools: ToolClient | None = None
        self.server = ""
        self.turn: asyncio.Task[None] | None = None
        self.deaf = False
        self.stops_at: str | None = None
        self.after: list[Any] = []
        # What it does at the next prompt.
        self.again: list[Any] | None = None
        # What it was told in earlier turns, and has not told again.
        self.history: list[tuple[str, dict[str, Any]]] = []
        self.terminal = ""


class Agent:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.folder = Path(options["folder"])
        self.sessions: dict[str, Session] = {}
        self.ended = asyncio.Event()
        self.lives_on = False
        self.logged_in = not {"login", "login_file"} & options.keys()
        # The next prompt is the end.
        self.doomed = False
        self.made = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self._peer: Peer | None = None
        self.note("started", {"pid": os.getpid()})

    @property
    def has_login_file(self) -> bool:
        return Path(self.options.get("login_file", "/nowhere")).exists()

    def note(self, what: str, params: object) -> None:
        with (self.folder / "journal").open("a") as journal:
            journal.write(json.dumps({"method": what, "params": params}) + "\n")

    @property
    def peer(self) -> Peer:
        assert self._peer is not None
        return self._peer

    # As a receiver.

    def connected(self, peer: Peer) -> None:
        self._peer = peer

    def closed(self, reason: str) -> None:
        self.ended.set()

    def notification(self, notification: Notification) -> None:
        params = json.loads(notification.params)
        self.note(notification.method, params)
        session = self.sessions.get(params.get("sessionId", ""))
        if notification.method == "session/cancel" and session is not None:
            self.spawn(self.stop(session))

    def request(self, incoming: Incoming) -> None:
        params = json.loads(incoming.params)
        self.note(incoming.method, params)
        refused = self.options.get("refuse", {}).get(incoming.method)
        if refused is not None:
            incoming.fail(*refused)
        elif incoming.method == "initialize":
            self.initialize(incoming)
        elif incoming.method == "session/prompt" and self.doomed:
            os._exit(9)
        elif incoming.method == "session/prompt":
            session = self.sessions[params["sessionId"]]
            session.turn = self.spawn(self.take_turn(session, params["prompt"], incoming))
        elif incoming.method in ("session/new", "session/load", "session/resume"):
            self.spawn(self.open(incoming, params))
        elif incoming.method == "_session/steering":
            self.steer(incoming, params)
        elif incoming.method == "authenticate" and params["methodId"] in self.options.get("lost", []):
            pass
        elif incoming.method == "authenticate":
            self.logged_in = params["methodId"] == self.options.get("login")
            incoming.reply(None)
        elif incoming.method in ("session/set_mode", "session/set_config_option"):
            self.set(incoming, params)
        elif incoming.method == "session/close":
            incoming.reply({})
        else:
            incoming.fail(METHOD_NOT_FOUND, f"no {incoming.method} here")

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def set(self, incoming: Incoming, params: dict[str, Any]) -> None:
        value = params.get("value", params.get("modeId"))
        if value in self.options.get("takes_not", []):
            incoming.fail(-32602, f"{value} is not for you")
            return
        if value in self.options.get("lost", []):
            return
        taken = self.options.get("swaps", {}).get(value, value)
        if taken != value and "modeId" in params:
            self.tell(params["sessionId"], {"sessionUpdate": "current_mode_update", "currentModeId": taken})
        options = self.options.get("state", {}).get("configOptions")
        for option in options or []:
            if option["id"] == params.get("configId"):
                option["currentValue"] = taken
        incoming.reply({} if options is None or "modeId" in params else {"configOptions": options})

    # Sessions.

    def initialize(self, incoming: Incoming) -> None:
        match self.options.get("start"):
            case "exit":
                print("no licence was found", file=sys.stderr, flush=True)
                os._exit(3)
            case "hang":
                return
        can: dict[str, object] = {name: {} for name in ("resume", "close") if self.options.get(name)}
        incoming.reply(
            {
                "protocolVersion": 1,
                "agentCapabilities": {
                    "loadSession": bool(self.options.get("load")),
                    "promptCapabilities": {"image": bool(self.options.get("images"))},
                    "mcpCapabilities": {"http": self.options.get("http", True)},
                    "sessionCapabilities": can,
                },
                **(
                    {"agentInfo": {"name": self.options["name"], "version": "1"}}
                    if "name" in self.options
                    else {}
                ),
                "authMethods": self.options.get("authentication", []),
                "_meta": {"steering": {"supported": bool(self.options.get("steers"))}},
            }
        )

    async def open(self, incoming: Incoming, params: dict[str, Any]) -> None:
        if not (self.logged_in or self.has_login_file):
            incoming.fail(-32000, "Authentication required")
            return
        if "slow" in self.options:
            await self.gate(None, self.options["slow"])
        self.made += 1
        name = params.get("sessionId") or f"s{os.getpid()}-{self.made}"
        told = self.folder / name
        if incoming.method != "session/new" and not told.exists():
            incoming.fail(-32002, "there is no such session")
            return
        session = self.sessions[name] = Session(name)
        if incoming.method == "session/load" or (
            incoming.method == "session/resume" and "history" in self.options
        ):
            session.history = [json.loads(line) for line in told.read_text().splitlines()]
            if self.options.get("history", "before") == "before":
                await self.tell_history(session)
        told.touch()
        lists = self.options.get("lists", "all")
        if lists == "all" or (lists == "second" and self.made == 2):
            await self.connect(session, params["mcpServers"])
        named = {"sessionId": name} if incoming.method == "session/new" else {}
        incoming.reply({**named, **self.options.get("state", {})})
        if "commands" in self.options:
            commands = self.options["commands"]
            self.tell(name, {"sessionUpdate": "available_commands_update", "availableCommands": commands})
        if "lists_late" in self.options:
            self.spawn(self.list_late(session))
        if self.options.get("history") == "after":
            await self.tell_history(session)

    async def list_late(self, session: Session) -> None:
        await asyncio.sleep(self.options["lists_late"])
        await self.list_tools(session)

    async def tell_history(self, session: Session) -> None:
        """What it was told, as the user's words and as its own."""
        history, session.history = session.history, []
        for role, content in history:
            self.tell(session.name, {"sessionUpdate": f"{role}_message_chunk", "content": content})
            if "pause" in self.options:
                await asyncio.sleep(self.options["pause"])
        self.note("told", {"pieces": len(history)})

    async def connect(self, session: Session, servers: list[dict[str, Any]]) -> None:
        for server in servers:
            kind: Any = HttpServer if server.get("type") == "http" else StdioServer
            self.note("transport", {"kind": kind.__name__})
            address = msgspec.convert(server, kind)
            session.server = server["name"]
            session.tools = await self.client(session, address)
            await self.list_tools(session)

    async def client(self, session: Session, address: HttpServer | StdioServer) -> ToolClient:
        """Each transport is imported when it is used: tests start more than a thousand of these processes."""
        connect: Any
        if isinstance(address, HttpServer):
            from devtools.mcp_over_http import connect  # noqa: PLC0415
        else:
            from dragoman.demo.mcp import connect  # noqa: PLC0415
        connected: ToolClient = await connect(address, self.folder, lambda: self.on_change(session))
        return connected

    def on_change(self, session: Session) -> None:
        if self.options.get("relists", True):
            self.spawn(self.list_tools(session))

    async def list_tools(self, session: Session) -> None:
        if session.tools is not None:
            self.note("lists", {})
            names = [tool.name for tool in await session.tools.tools()]
            self.note("listed", {"tools": names})

    async def stop(self, session: Session) -> None:
        if session.stops_at is not None:
            await self.gate(session, session.stops_at)
        if session.turn is not None and not session.deaf:
            session.turn.cancel()

    async def take_turn(self, session: Session, blocks: list[dict[str, Any]], incoming: Incoming) -> None:
        session.deaf, session.stops_at, session.after = False, None, []
        with (self.folder / session.name).open("a") as told:
            told.write("".join(json.dumps(["user", block]) + "\n" for block in blocks))
        try:
            if self.options.get("history") == "answer":
                self.say(session, "so, ")
            if self.options.get("history") in ("prompt", "answer"):
                await self.tell_history(session)
            await self.perform(session, blocks)
        except TurnOver as over:
            if over.code is not None:
                incoming.fail(over.code, over.reason)
            else:
                incoming.reply({"stopReason": over.reason})
        except asyncio.CancelledError:
            incoming.reply({"stopReason": "cancelled"})
        else:
            incoming.reply({"stopReason": "end_turn"})
        session.turn = None
        for step in session.after:
            await self.do(session, step)

    def steer(self, incoming: Incoming, params: dict[str, Any]) -> None:
        outcome = self.options["steers"]
        if outcome is True:
            words = " ".join(block.get("text", "") for block in params["prompt"])
            self.say(self.sessions[params["sessionId"]], f"<steered: {words}>")
            outcome = "injected"
        incoming.reply({"outcome": outcome})

    async def perform(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        try:
            steps = json.loads(blocks[-1].get("text", ""))
        except ValueError:
            steps = None
        if session.again is not None:
            steps, session.again = session.again, None
        if isinstance(steps, list):
            for step in steps:
                await self.do(session, step)
        else:
            heard = [block.get("text") or f"[{block['type']}]" for block in blocks]
            self.say(session, f"echo: {json.dumps(heard)}")

    # Steps.

    async def do(self, session: Session, step: list[Any]) -> None:
        name, *words = step
        done = getattr(self, f"do_{name}")(session, *words)
        if done is not None:
            await done

    def tell(self, session: str, update: dict[str, Any]) -> None:
        self.peer.notify("session/update", {"sessionId": session, "update": update})

    def say(self, session: Session, text: str, kind: str = "agent_message_chunk") -> None:
        with (self.folder / session.name).open("a") as told:
            told.write(json.dumps(["agent", {"type": "text", "text": text}]) + "\n")
        self.tell(session.name, {"sessionUpdate": kind, "content": {"type": "text", "text": text}})

    def do_say(self, session: Session, text: str) -> None:
        self.say(session, text)

    def do_again(self, session: Session, steps: list[Any]) -> None:
        session.again = steps

    def do_think(self, session: Session, text: str) -> None:
        self.say(session, text, "agent_thought_chunk")

    def do_update(self, session: Session, update: dict[str, Any]) -> None:
        self.tell(session.name, update)

    def do_halves(self, session: Session, *texts: list[int]) -> None:
        for codes in texts:
            content = {"type": "text", "text": "".join(map(chr, codes))}
            params = {
                "sessionId": session.name,
                "update": {"sessionUpdate": "agent_message_chunk", "content": content},
            }
            line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})
            self.peer.stream.write(line.encode() + b"\n")

    def do_raw(self, _session: Session, data: str) -> None:
        self.peer.stream.write(base64.b64decode(data))

    def do_long(self, _session: Session, size: int) -> None:
        self.peer.stream.write(b"x" * size + b"\n")

    def do_stderr(self, _session: Session, lines: int) -> None:
        for number in range(lines):
            sys.stderr.write(f"{_STDERR_LINE}{number}\n")
        sys.stderr.flush()

    async def do_flood(self, session: Session, count: int) -> None:
        for number in range(count):
            self.say(session, f"{number} ")
            await self.peer.drain()
        self.note("flooded", {"count": count})

    async def do_repeat(self, session: Session, count: int, size: int) -> None:
        for _ in range(count):
            self.say(session, "y" * size)
            await self.peer.drain()

    async def do_tools(self, session: Session) -> None:
        assert session.tools is not None
        names = [tool.name for tool in await session.tools.tools()]
        self.say(session, f"tools: {json.dumps(names)}")

    def do_announce(self, session: Session, call: str, tool: str) -> None:
        self.tell(
            session.name,
            {
                "sessionUpdate": "tool_call",
                "toolCallId": call,
                "title": tool,
                "status": "pending",
                "rawInput": {"server": session.server, "tool": tool},
            },
        )

    async def do_call(self, session: Session, tool: str, arguments: dict[str, Any]) -> None:
        assert session.tools is not None
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": self.made}}
        result = json.loads(await session.tools._request("tools/call", params))
        said = "".join(map(_shown, result["content"]))
        self.note("result", {"tool": tool, "text": said, "isError": bool(result.get("isError"))})
        failed = " as an error" if result.get("isError") else ""
        self.say(session, f"<{tool} returned{failed}: {said}>")

    async def do_ask(
        self, session: Session, call: dict[str, Any], kinds: list[str], then: str = "say"
    ) -> None:
        call = {**call, "rawInput": _filled(call.get("rawInput"), session.server)}
        options = [{"optionId": f"the-{kind}", "kind": kind, "name": kind} for kind in kinds]
        params = {"sessionId": session.name, "toolCall": call, "options": options}
        reply = await self.answered("session/request_permission", params)
        answer = (
            json.loads(reply.result) if isinstance(reply, RpcResponse) else {"outcome": {"outcome": "none"}}
        )
        outcome = answer["outcome"]
        self.note("outcome", outcome)
        if "_meta" in answer:
            self.note("remark", answer["_meta"])
        if then == "say":
            self.say(session, f"<{call['toolCallId']}: {outcome.get('optionId', outcome['outcome'])}>")

    def do_put(self, _session: Session, path: str, text: str | None = None) -> None:
        if text is None:
            Path(path).unlink()
        else:
            Path(path).write_bytes(text.encode())

    async def do_read(self, session: Session, path: str, where: dict[str, int] | None = None) -> None:
        params = {"sessionId": session.name, "path": path, **(where or {})}
        await self.file(session, "fs/read_text_file", params)

    async def do_write(self, session: Session, path: str, content: str) -> None:
        params = {"sessionId": session.name, "path": path, "content": content}
        await self.file(session, "fs/write_text_file", params)

    async def do_terminal(self, session: Session, params: dict[str, Any]) -> None:
        reply = await self.answered("terminal/create", {"sessionId": session.name, **params})
        if isinstance(reply, RpcResponse):
            session.terminal = json.loads(reply.result)["terminalId"]
            self.say(session, "<terminal: created>")
        else:
            self.say(session, f"<terminal: {_error(reply)['message']}>")

    async def do_term(self, session: Session, method: str) -> None:
        params = {"sessionId": session.name, "terminalId": session.terminal}
        reply = await self.answered(f"terminal/{method}", params)
        self.note(
            f"terminal {method}",
            json.loads(reply.result) if isinstance(reply, RpcResponse) else _error(reply),
        )

    async def file(self, session: Session, method: str, params: dict[str, Any]) -> None:
        reply = await self.answered(method, params)
        self.note("file", json.loads(reply.result) if isinstance(reply, RpcResponse) else _error(reply))
        self.say(
            session, f"<{method}: {'done' if isinstance(reply, RpcResponse) else _error(reply)['message']}>"
        )

    async def answered(self, method: str, params: dict[str, Any]) -> RpcReply:
        """The client's reply. A request that is given up is withdrawn."""
        replied: asyncio.Future[RpcReply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: RpcReply) -> None:
            # Noted as it comes, in the order of the wire.
            self.note("replied", {"method": method})
            if not replied.done():
                replied.set_result(reply)

        identity = self.peer.call(method, params, on_reply)
        try:
            return await replied
        except asyncio.CancelledError:
            self.peer.withdraw(identity)
            raise

    def do_note(self, _session: Session, name: str) -> None:
        self.note(name, None)

    async def do_all(self, session: Session, steps: list[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            for step in steps:
                group.create_task(self.do(session, step))

    async def do_row(self, session: Session, steps: list[Any]) -> None:
        for step in steps:
            await self.do(session, step)

    async def gate(self, _session: Session | None, name: str) -> None:
        while not (self.folder / name).exists():  # noqa: ASYNC110 - a file tells nobody that it is there
            await asyncio.sleep(_LOOK_SECONDS)

    do_gate = gate

    async def do_until(self, session: Session, name: str, step: list[Any]) -> None:
        work = asyncio.create_task(self.do(session, step))
        await self.gate(session, name)
        work.cancel()
        await asyncio.wait({work})

    def do_doom(self, _session: Session) -> None:
        self.doomed = True

    def do_after(self, session: Session, steps: list[Any]) -> None:
        session.after = steps

    async def do_hang(self, _session: Session) -> None:
        await asyncio.Event().wait()

    async def do_deaf(self, session: Session) -> None:
        session.deaf = True
        await asyncio.Event().wait()

    def do_slow_stop(self, session: Session, name: str) -> None:
        session.stops_at = name

    def do_stop(self, _session: Session, reason: str) -> None:
        raise TurnOver(reason)

    def do_error(self, _session: Session, code: int, text: str) -> None:
        raise TurnOver(text, code)

    async def do_exit(self, _session: Session, code: int) -> None:
        # What was said is on its way first.
        await asyncio.sleep(0)
        print("the disk of this agent is on fire", file=sys.stderr, flush=True)
        os._exit(code)

    async def do_close(self, _session: Session) -> None:
        self.lives_on = True
        self.peer.close()


def _error(reply: RpcReply) -> dict[str, Any]:
    assert isinstance(reply, ErrorResponse)
    return {"code": reply.error.code, "message": reply.error.message}


def _shown(part: dict[str, Any]) -> str:
    match part["type"]:
        case "text":
            return str(part["text"])
        case "resource":
            return f"[{part['resource']['mimeType']}: {part['resource'].get('text')}]"
        case kind:
            return f"[{kind}]"


def _filled(value: Any, server: str) -> Any:
    """The raw input of a tool call: a test does not know the random name of its tool server."""
    if not isinstance(value, dict):
        return value
    return {name: server if inner == "{server}" else inner for name, inner in value.items()}


async def serve(agent: Agent) -> None:
    await connect_stdio(agent, PeerOptions(name="client"))
    await agent.ended.wait()
    if agent.lives_on:
        await asyncio.Event().wait()
    for session in agent.sessions.values():
        if session.tools is not None:
            await session.tools.close()


if __name__ == "__main__":
    asyncio.run(serve(Agent(json.loads(sys.argv[1]))))
