"""Two connected peers, driven by Hypothesis.

Whatever happens in whatever order, every request settles exactly once, and what is handed out keeps the order in which
it was sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dragoman.jsonrpc import (
    ConnectionClosed,
    ErrorResponse,
    Incoming,
    Notification,
    Peer,
    PeerOptions,
    RequestId,
    RpcReply,
    RpcResponse,
)
from memory_peers import memory_pair

sides = st.sampled_from([0, 1])
# Small ones share a write; a few large ones fill the buffers.
paddings = st.sampled_from(["", "x" * 100_000])
# Reached by large messages to a side that does not read, and never reached.
limits = st.sampled_from([350_000, 100_000_000])


def number_of(params: bytes) -> int:
    return msgspec.json.decode(params, type=tuple[int, str])[0]


class End:
    """One side: its receiver, and a model of what it has sent and heard."""

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.open: list[Incoming] = []
        # Numbers of the messages the other side sent, as they were handed out here; those it sent, in order.
        self.heard: list[int] = []
        self.sent: list[int] = []
        self.asked: dict[int, RequestId] = {}
        self.settled: Counter[int] = Counter()
        self.results: dict[int, bytes] = {}
        self.closed_calls = 0

    def connected(self, peer: Peer) -> None:
        self.peer = peer

    def request(self, incoming: Incoming) -> None:
        assert not self.closed_calls
        self.heard.append(number_of(incoming.params))
        self.open.append(incoming)

    def notification(self, notification: Notification) -> None:
        assert not self.closed_calls
        self.heard.append(number_of(notification.params))

    def replied(self, number: int, reply: RpcReply) -> None:
        self.settled[number] += 1
        match reply:
            case RpcResponse(result=result):
                self.results[number] = result
            case ErrorResponse(error=error):
                assert error.code in (-1, -32800)
            case ConnectionClosed():
                assert self.peer is not None
                assert self.peer.closed is not None

    def closed(self, reason: str) -> None:
        self.closed_calls += 1


class TwoPeers(RuleBasedStateMachine):
    @initialize(max_unsent=limits)
    def connect(self, max_unsent: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.ends = End(), End()
        self.numbers = 0

        async def connect() -> tuple[Peer, Peer]:
            options = PeerOptions(max_unsent=max_unsent)
            return memory_pair(*self.ends, options, options)

        self.peers = self.loop.run_until_complete(connect())

    def next_number(self, side: int) -> int:
        self.numbers += 1
        self.ends[side].sent.append(self.numbers)
        return self.numbers

    @rule(side=sides, padding=paddings)
    def notify(self, side: int, padding: str) -> None:
        number = self.next_number(side)
        try:
            self.peers[side].notify("n", (number, padding))
        except ConnectionClosed:
            self.ends[side].sent.remove(number)

    @rule(side=sides, padding=paddings)
    def ask(self, side: int, padding: str) -> None:
        end, number = self.ends[side], self.next_number(side)
        try:
            end.asked[number] = self.peers[side].call(
                "r", (number, padding), lambda reply: end.replied(number, reply)
            )
        except ConnectionClosed:
            end.sent.remove(number)

    @precondition(lambda self: any(end.open for end in self.ends))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        end = data.draw(st.sampled_from([end for end in self.ends if end.open]))
        incoming = data.draw(st.sampled_from(end.open))
        succeeds = data.draw(st.booleans())
        # After the last draw: Hypothesis may end an example at any draw, and a removed request needs an answer.
        end.open.remove(incoming)
        if incoming.token.cancelled():
            incoming.fail(-32800, "withdrawn")
        elif succeeds:
            incoming.reply(number_of(incoming.params))
        else:
            incoming.fail(-1, "no")

    @precondition(lambda self: any(end.asked for end in self.ends))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        side = data.draw(st.sampled_from([side for side in (0, 1) if self.ends[side].asked]))
        identity = data.draw(st.sampled_from(sorted(self.ends[side].asked.values(), key=str)))
        try:
            self.peers[side].withdraw(identity)
        except ConnectionClosed:
            assert self.peers[side].closed is not None

    @rule(side=sides, pause=st.booleans())
    def hold_back(self, side: int, *, pause: bool) -> None:
        (self.peers[side].pause_reading if pause else self.peers[side].resume_reading)(self)

    @rule(turns=st.integers(1, 5))
    def turn(self, turns: int) -> None:
        async def turn() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())

    @rule(side=sides, breaking=st.booleans())
    def close(self, side: int, *, breaking: bool) -> None:
        writer = self.peers[side].stream._writer
        if breaking and writer is not None:
            writer.abort()
        else:
            self.peers[side].close()

    @invariant()
    def order_is_kept_and_nothing_settles_twice(self) -> None:
        for end, other in (self.ends, self.ends[::-1]):
            assert end.heard == other.sent[: len(end.heard)]
            assert all(times == 1 for times in end.settled.values())
            assert end.settled.keys() <= end.asked.keys()
            assert all(result == b"%d" % number for number, result in end.results.items())
            assert end.closed_calls <= 1

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self.end()
        finally:
            # Hypothesis drops an assertion that fails after it ended the example: no loop may stay open then.
            self.loop.close()

    def end(self) -> None:
        for peer in self.peers:
            peer.resume_reading(self)
        self.turn(200)
        ended = [peer.closed is not None for peer in self.peers]
        if not any(ended):
            for end, other in (self.ends, self.ends[::-1]):
                assert end.heard == other.sent
                assert {number for number in end.asked if not end.settled[number]} == {
                    number_of(incoming.params) for incoming in other.open
                }
        for peer in self.peers:
            peer.close()
        self.turn(200)
        for end in self.ends:
            assert all(end.settled[number] == 1 for number in end.asked)
            assert end.closed_calls == 1
            assert all(incoming.token.cancelled() for incoming in end.open)


TwoPeers.TestCase.settings = settings(deadline=None, stateful_step_count=40)
TestTwoPeers = TwoPeers.TestCase
