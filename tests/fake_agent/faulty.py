"""The fake agent with faults: beside what its prompts say, it does what it is ordered to at any moment.

An order is a file `order.PID` in its folder, and a SIGUSR1. What it says, calls and asks for carries a word of its own,
`«NAME@PID.NUMBER»`, and is noted before it is done, so that afterwards nobody can lose, double or invent anything unseen.

Steps, beside those of `steps.py`:

    word NAME                 say a word
    words NAME COUNT SECONDS  say so many, with so much time between them
    use TOOL NAME             call a tool with a word, and say one when it has come back
    permit NAME               ask for leave to run a word
    at NAME                   note that this is reached, and go on when the gate `go-NAME` is open
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from itertools import count
from typing import Any

from dragoman.jsonrpc import INTERNAL_ERROR, Incoming, PeerOptions, RpcResponse, connect_stdio
from fake_agent.agent import Agent, Session

# More than a pipe and all buffers on the way hold, in a turn's time.
_FLOOD_WORDS = 4_000
_LATE_SECONDS = 0.4
_BROKEN = (
    b"progress: 10%\n[]\n42\nnull\n\xff\xfe\n{\n"
    b'{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": 1}}\n'
    b'{"jsonrpc": "2.0", "method": "session/update", "params": [7]}\n'
    b'{"jsonrpc": "2.0", "id": 99999, "result": {}}\n'
    b'{"jsonrpc": "2.0", "id": null, "error": {"code": "no", "message": 3}}\n'
)
_HALF = b'{"jsonrpc": "2.0", "method": "session/upd'


class FaultyAgent(Agent):
    def __init__(self, options: dict[str, Any]) -> None:
        self._numbers = count(1)
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._delay = 0.0
        self._twice = False
        self._stubborn = False
        super().__init__(options)

    def note(self, what: str, params: object) -> None:
        entry = {"method": what, "params": params, "pid": os.getpid(), "at": time.time()}
        with (self.folder / "journal").open("a") as journal:
            journal.write(json.dumps(entry) + "\n")

    # Orders.

    def on_order(self) -> None:
        order = (self.folder / f"order.{os.getpid()}").read_text()
        self.note("ordered", order)
        getattr(self, f"order_{order}")()

    def order_exits(self) -> None:
        os._exit(0)

    def order_floods(self) -> None:
        for session in self.sessions.values():
            self.note("floods", session.name)
            self.spawn(self._flood(session))

    async def _flood(self, session: Session) -> None:
        for _ in range(_FLOOD_WORDS):
            self.say(session, self._said("F"))
            await self.peer.drain()
        self.note("flooded", session.name)

    def order_silent(self) -> None:
        self._speaks.clear()
        for session in self.sessions.values():
            session.deaf = True

    def order_late(self) -> None:
        self._delay = _LATE_SECONDS

    def order_twice(self) -> None:
        self._twice = True

    def order_frames(self) -> None:
        self.peer.stream.write(_BROKEN)

    def order_half_frame(self) -> None:
        self.peer.stream.write(_HALF)

    def order_stubborn(self) -> None:
        self._stubborn = self.lives_on = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for session in self.sessions.values():
            session.deaf = True

    # What an order has changed.

    async def _waits(self) -> None:
        """Everything is late, or never comes. That it is so is noted: an order that changes nothing is none."""
        if self._delay:
            self.note("is late", None)
            await asyncio.sleep(self._delay)
        if not self._speaks.is_set():
            self.note("is silent", None)
            await self._speaks.wait()

    async def open(self, incoming: Incoming, params: dict[str, Any]) -> None:
        if "slow" in self.options:
            await self.gate(None, self.options["slow"])
        await self._waits()
        try:
            await super().open(incoming, params)
        except Exception as error:
            self.note("cannot open", repr(error))
            incoming.fail(INTERNAL_ERROR, f"the tools cannot be reached: {error}")
        self._answer_again(incoming, {})

    async def do(self, session: Session, step: list[Any]) -> None:
        await self._waits()
        await super().do(session, step)

    async def stop(self, session: Session) -> None:
        if self._delay:
            self.note("is late", None)
        await asyncio.sleep(self._delay)
        await super().stop(session)
        if session.deaf:
            self.note("is silent", None)

    def _answer_again(self, incoming: Incoming, result: dict[str, Any]) -> None:
        if self._twice:
            self.note("answers twice", incoming.method)
            again = {"jsonrpc": "2.0", "id": incoming.id, "result": result}
            self.peer.stream.write(json.dumps(again).encode() + b"\n")

    async def take_turn(self, session: Session, blocks: list[dict[str, Any]], incoming: Incoming) -> None:
        await super().take_turn(session, blocks, incoming)
        self._answer_again(incoming, {"stopReason": "end_turn"})

    async def perform(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        session.deaf = self._stubborn or not self._speaks.is_set()
        text = blocks[-1].get("text", "")
        if text.startswith("[["):
            await super().perform(session, blocks)
        else:
            await self._waits()
            self.say(session, self._said("H"))

    # Steps.

    def _word(self, name: str) -> str:
        return f"«{name}@{os.getpid()}.{next(self._numbers)}»"

    def _said(self, name: str) -> str:
        word = self._word(name)
        self.note("said", word)
        return word + " "

    def do_word(self, session: Session, name: str) -> None:
        self.say(session, self._said(name))

    async def do_words(self, session: Session, name: str, times: int, seconds: float) -> None:
        for _ in range(times):
            self.say(session, self._said(name))
            await asyncio.sleep(seconds)

    async def do_use(self, session: Session, tool: str, name: str) -> None:
        assert session.tools is not None
        word = self._word(name)
        self.note("called", word)
        try:
            params = {"name": tool, "arguments": {"word": word}}
            result = json.loads(await session.tools._request("tools/call", params))
        except asyncio.CancelledError:
            self.note("gave up", word)
            raise
        text = "".join(part.get("text", "") for part in result["content"])
        self.note("result", {"word": word, "text": text, "isError": bool(result.get("isError"))})
        self.say(session, self._said(name))

    async def do_permit(self, session: Session, name: str) -> None:
        word = self._word(name)
        self.note("asked", word)
        call = {"toolCallId": word, "title": f"Run {word}", "kind": "execute"}
        options = [
            {"optionId": f"the-{kind}", "kind": kind, "name": kind} for kind in ("allow_once", "reject_once")
        ]
        params = {"sessionId": session.name, "toolCall": call, "options": options}
        reply = await self.answered("session/request_permission", params)
        outcome = (
            json.loads(reply.result)["outcome"] if isinstance(reply, RpcResponse) else {"outcome": "none"}
        )
        self.note("outcome", {"word": word, "outcome": outcome.get("optionId", outcome["outcome"])})
        self.say(session, self._said(name))

    async def do_at(self, session: Session, name: str) -> None:
        self.note("at", name)
        await self.gate(session, f"go-{name}")


async def main() -> None:
    agent = FaultyAgent(json.loads(sys.argv[1]))
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, agent.on_order)
    await connect_stdio(agent, PeerOptions(name="client"))
    await agent.ended.wait()
    if agent.lives_on:
        await asyncio.Event().wait()
    for session in agent.sessions.values():
        if session.tools is not None:
            await session.tools.close()


if __name__ == "__main__":
    asyncio.run(main())
