"""An agent that does everything late, twice, without a word or never, as far as ACP lets it. It runs as a process.

It has a model behind it (chat completions at `CARELESS_URL`), a shell and a tool for files, and uses the tools of servers.
It is in no catalogue, so what Dragoman does with it, it does with every agent that was never tried.

- late: it connects to the tool servers after it has answered `session/new`; it tells the history of a session that it
  loads for two seconds after its answer; it stops half a second after it is told to; it prints to standard output first.
- twice: it lists the tools twice, announces each call twice, ends each call twice, answers each prompt twice, tells each
  piece of history twice.
- without a word: it has no name and no version, makes calls of servers' tools without announcing every second one, and
  stops waiting for such a call after `CARELESS_SECONDS` without withdrawing it.
- never: it does not list tools again, does not look at `_meta`, and does not mind what it is answered to requests that no
  client knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import msgspec

from dragoman.acp.messages import HttpServer, StdioServer
from dragoman.demo.mcp import ToolClient
from dragoman.jsonrpc import (
    METHOD_NOT_FOUND,
    Incoming,
    Notification,
    Peer,
    PeerOptions,
    RpcReply,
    RpcResponse,
    connect_stdio,
)

# It runs as a script, and the developers' tools are not installed.
sys.path.insert(0, str(Path(__file__).parents[2]))
from devtools.mcp_over_http import connect

Json: TypeAlias = dict[str, Any]

_LATE_SECONDS = 0.5
_HISTORY_SECONDS = 2.0
_OWN = (
    ("bash", "Run a command.", ("command",)),
    ("write", "Write a file.", ("file_path", "content")),
)
_REFUSED = "The user has refused that."


class Session:
    def __init__(self, name: str, cwd: str) -> None:
        self.name = name
        self.cwd = cwd
        self.messages: list[Json] = []
        self.tools: ToolClient | None = None
        self.offered: list[Json] = []
        self.turn: asyncio.Task[str] | None = None


class Agent:
    def __init__(self) -> None:
        self.url = os.environ["CARELESS_URL"]
        self.seconds = float(os.environ["CARELESS_SECONDS"])
        self.folder = Path(os.environ["HOME"])
        self.sessions: dict[str, Session] = {}
        self.ended = asyncio.Event()
        self.numbers = itertools.count(1)
        self.tasks: set[asyncio.Task[Any]] = set()
        self._peer: Peer | None = None

    @property
    def peer(self) -> Peer:
        assert self._peer is not None
        return self._peer

    # As a receiver.

    def connected(self, peer: Peer) -> None:
        self._peer = peer
        peer.stream.write(b"Careless 0.0: have a nice day\n")

    def closed(self, reason: str) -> None:
        self.ended.set()

    def notification(self, notification: Notification) -> None:
        session = self.sessions.get(json.loads(notification.params).get("sessionId", ""))
        if notification.method == "session/cancel" and session is not None and session.turn is not None:
            asyncio.get_running_loop().call_later(_LATE_SECONDS, session.turn.cancel)

    def request(self, incoming: Incoming) -> None:
        params = json.loads(incoming.params)
        match incoming.method:
            case "initialize":
                incoming.reply(
                    {
                        "protocolVersion": 1,
                        "agentCapabilities": {
                            "loadSession": True,
                            "promptCapabilities": {"image": True},
                            "mcpCapabilities": {"http": True},
                        },
                    }
                )
            case "session/new" | "session/load":
                self.spawn(self.open(incoming, params))
            case "session/prompt":
                self.spawn(self.prompt(self.sessions[params["sessionId"]], params["prompt"], incoming))
            case method:
                incoming.fail(METHOD_NOT_FOUND, f"no {method} here")

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # Sessions.

    async def open(self, incoming: Incoming, params: Json) -> None:
        name = params.get("sessionId") or f"careless-{os.getpid()}-{next(self.numbers)}"
        session = self.sessions[name] = Session(name, params["cwd"])
        kept = self.folder / f"{name}.json"
        if kept.exists():
            session.messages = json.loads(kept.read_text())
        incoming.reply({"sessionId": name})
        # What no client knows, and what is of no session.
        self.tell(Session("nobody", ""), {"sessionUpdate": "agent_message_chunk", "content": _text("lost")})
        self.tell(session, {"sessionUpdate": "something_new", "value": 1})
        self.peer.call("_careless/hello", {}, lambda _reply: None)
        if incoming.method == "session/load":
            await self.tell_history(session)
        await asyncio.sleep(_LATE_SECONDS)
        for server in params["mcpServers"]:
            kind: Any = HttpServer if server.get("type") == "http" else StdioServer
            session.tools = await connect(msgspec.convert(server, kind), self.folder, lambda: None)
            listed = [await session.tools.tools() for _ in range(2)][-1]
            session.offered = [
                _function(f"{server['name']}__{tool.name}", tool.description or "", tool.input_schema)
                for tool in listed
            ]

    async def tell_history(self, session: Session) -> None:
        kinds = {"user": "user_message_chunk", "assistant": "agent_message_chunk"}
        told = [each for each in session.messages if each["role"] in kinds and each.get("content")]
        for message in told:
            for _ in range(2):
                content = message["content"]
                words = content if isinstance(content, str) else json.dumps(content)
                self.tell(session, {"sessionUpdate": kinds[message["role"]], "content": _text(words)})
                await asyncio.sleep(_HISTORY_SECONDS / len(told) / 2)
            if message is told[-2]:
                # It has to think about its last answer.
                await asyncio.sleep(_HISTORY_SECONDS)

    def tell(self, session: Session, update: Json) -> None:
        self.peer.notify("session/update", {"sessionId": session.name, "update": update})

    # A turn.

    async def prompt(self, session: Session, blocks: list[Json], incoming: Incoming) -> None:
        print(f"prompted: {blocks}", file=sys.stderr, flush=True)
        session.messages.append({"role": "user", "content": [_for_model(block) for block in blocks]})
        session.turn = self.spawn(self.go_on(session))
        try:
            reason = await session.turn
        except asyncio.CancelledError:
            reason = "cancelled"
        session.turn = None
        self._settle(session)
        (self.folder / f"{session.name}.json").write_text(json.dumps(session.messages))
        incoming.reply({"stopReason": reason})
        twice = {"jsonrpc": "2.0", "id": incoming.id, "result": {"stopReason": reason}}
        self.peer.stream.write(json.dumps(twice).encode() + b"\n")

    def _settle(self, session: Session) -> None:
        """Every call has a result, as its model insists."""
        made = [call["id"] for each in session.messages for call in each.get("tool_calls", ())]
        done = {each["tool_call_id"] for each in session.messages if each["role"] == "tool"}
        for call in made:
            if call not in done:
                session.messages.append({"role": "tool", "tool_call_id": call, "content": "Interrupted."})

    async def go_on(self, session: Session) -> str:
        while True:
            text, calls = await self.ask_model(session)
            session.messages.append(
                {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
            )
            if not calls:
                return "end_turn"
            results = await asyncio.gather(*(self.make(session, call) for call in calls))
            for call, result in zip(calls, results, strict=True):
                session.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def ask_model(self, session: Session) -> tuple[str, list[Json]]:
        own = [_function(name, about, _schema(fields)) for name, about, fields in _OWN]
        body = {
            "model": "any",
            "stream": True,
            "messages": session.messages,
            "tools": [*own, *session.offered],
        }
        text, calls = "", []
        async with (
            httpx2.AsyncClient(timeout=None) as http,
            http.stream("POST", f"{self.url}/v1/chat/completions", json=body) as answer,
        ):
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                for choice in json.loads(line.removeprefix("data: "))["choices"]:
                    if words := choice["delta"].get("content"):
                        text += words
                        self.tell(session, {"sessionUpdate": "agent_message_chunk", "content": _text(words)})
                    calls += choice["delta"].get("tool_calls", ())
        return text, [{name: call[name] for name in ("id", "type", "function")} for call in calls]

    async def make(self, session: Session, call: Json) -> str:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        number = next(self.numbers)
        announced: Json = {
            "sessionUpdate": "tool_call",
            "toolCallId": call["id"],
            "title": name,
            "status": "pending",
            "rawInput": arguments,
        }
        is_own = name in {own for own, _, _ in _OWN}
        if is_own or number % 2:
            for _ in range(2):
                self.tell(session, announced)
        if is_own:
            result = await self.act(session, call["id"], name, arguments)
        else:
            result = await self.call_server(session, name.partition("__")[2], arguments)
        for _ in range(2):
            self.tell(
                session,
                {"sessionUpdate": "tool_call_update", "toolCallId": call["id"], "status": "completed"},
            )
        return result

    async def call_server(self, session: Session, tool: str, arguments: Json) -> str:
        assert session.tools is not None
        made = self.spawn(session.tools._request("tools/call", {"name": tool, "arguments": arguments}))
        done, _ = await asyncio.wait({made}, timeout=self.seconds)
        if not done:
            # The call goes on, and its result is not looked at.
            return "It took too long."
        return "".join(each.get("text", f"[{each['type']}]") for each in json.loads(made.result())["content"])

    async def act(self, session: Session, id_: str, name: str, arguments: Json) -> str:
        kind = "execute" if name == "bash" else "edit"
        options = [
            {"optionId": f"{answer}-once", "kind": f"{answer}_once", "name": answer}
            for answer in ("allow", "reject")
        ]
        asked = {"toolCallId": id_, "title": name, "kind": kind, "rawInput": arguments}
        params = {"sessionId": session.name, "toolCall": asked, "options": options}
        replied: asyncio.Future[RpcReply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: RpcReply) -> None:
            # A turn that was cancelled meanwhile does not wait for it any more.
            with contextlib.suppress(asyncio.InvalidStateError):
                replied.set_result(reply)

        self.peer.call("session/request_permission", params, on_reply)
        reply = await replied
        outcome = json.loads(reply.result)["outcome"] if isinstance(reply, RpcResponse) else {}
        if outcome.get("optionId") != "allow-once":
            return _REFUSED
        if name == "write":
            file = Path(session.cwd, arguments["file_path"])
            await asyncio.to_thread(file.write_text, arguments["content"])
            return "Written."
        process = await asyncio.create_subprocess_shell(
            arguments["command"],
            cwd=session.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        return said.decode(errors="replace")


def _text(words: str) -> Json:
    return {"type": "text", "text": words}


def _for_model(block: Json) -> Json:
    match block["type"]:
        case "image":
            url = f"data:{block['mimeType']};base64,{block['data']}"
            return {"type": "image_url", "image_url": {"url": url}}
        case _:
            return _text(block.get("text") or json.dumps(block))


def _function(name: str, about: str, schema: Json) -> Json:
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


def _schema(fields: tuple[str, ...]) -> Json:
    return {
        "type": "object",
        "properties": {field: {"type": "string"} for field in fields},
        "required": list(fields),
    }


async def main() -> None:
    agent = Agent()
    await connect_stdio(agent, PeerOptions(name="client"))
    await agent.ended.wait()
    for session in agent.sessions.values():
        if session.tools is not None:
            await session.tools.close()


if __name__ == "__main__":
    asyncio.run(main())
