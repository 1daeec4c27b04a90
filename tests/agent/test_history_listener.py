"""The history of a session that is taken up: when it has ended, and that nothing is allowed meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dragoman.acp.link import AgentLink
from dragoman.acp.messages import decode_update
from dragoman.backends.agent.profile.observations import HistoryTiming
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.session.history_listener import HistoryListener
from dragoman.jsonrpc import Notification, PeerOptions, RpcReply, RpcResponse
from memory_peers import memory_pair
from virtual_clock import VirtualClock, run, running_clock

_REQUESTS = 3
_TIMING = Timing(history_end=1, history_pause=5, history=60)


def _chunk(role: str, text: str) -> bytes:
    update = {"sessionUpdate": f"{role}_message_chunk", "content": {"type": "text", "text": text}}
    return json.dumps({"sessionId": "s", "update": update}).encode()


def _other() -> bytes:
    return json.dumps({"sessionId": "s", "update": {"sessionUpdate": "current_mode_update"}}).encode()


def _waited(
    *sent: tuple[float, bytes],
    known: HistoryTiming | None = None,
    words: str = "go on",
    answer: str = "so it is",
) -> tuple[HistoryTiming, float]:
    """When the agent sent its history, and how long the wait took; 0 is the moment of its answer."""

    async def wait() -> tuple[HistoryTiming, float]:
        clock: VirtualClock = running_clock()
        listener = HistoryListener(words, answer)

        before = [each for each in sent if each[0] <= 0]
        for _, update in before:
            listener.on_update(decode_update(update))
        listener.on_answer()
        later = [each for each in sent if each[0] > 0]
        told_later = asyncio.ensure_future(_tell(listener, later, clock))
        found = await listener.wait_complete(known, _TIMING, clock)
        took = clock.now()
        told_later.cancel()
        return found, took

    return run(wait())


async def _tell(listener: HistoryListener, sent: list[tuple[float, bytes]], clock: VirtualClock) -> None:
    for at, update in sent:
        await clock.sleep(at - clock.now())
        listener.on_update(decode_update(update))


_DONE = (_chunk("user", "go  on"), _chunk("agent", "well, so\nit is"))


@pytest.mark.parametrize(
    ("sent", "known", "found", "seconds"),
    [
        # All in time: a moment in case that more comes. The first time also where it cannot be seen that it is all.
        ([(0, _DONE[0]), (0, _DONE[1])], None, "before", 1),
        ([(0, _chunk("agent", "whatever"))], None, "before", 5),
        ([(0, _chunk("agent", "whatever"))], "before", "before", 1),
        ([], None, "none", 5),
        ([], "none", "none", 1),
        # Modes and commands are no history.
        ([(0, _other()), (1, _other())], None, "none", 5),
        # Late: the user's last words alone are not the end, the last answer after them is.
        ([(0, _DONE[0]), (2.5, _DONE[1])], None, "late", 3.5),
        ([(4, _DONE[0]), (4.1, _DONE[1])], "late", "late", 5.1),
        # Nor are they in an early turn.
        (
            [(0, _DONE[0]), (0, _chunk("agent", "no")), (2, _chunk("user", "more")), (3, _DONE[1])],
            None,
            "late",
            8,
        ),
        # Once it is late, it is no more believed to come in time.
        ([(0.5, _chunk("agent", "old")), (3, _chunk("agent", "older"))], "before", "late", 8),
    ],
)
def test_h21_the_end_of_a_history(
    sent: list[tuple[float, bytes]], known: HistoryTiming | None, found: HistoryTiming, seconds: float
) -> None:
    how, took = _waited(*sent, known=known)
    assert how == found
    assert took == pytest.approx(seconds)


def test_h21_a_history_without_end_is_given_up() -> None:
    sent = [(at / 2, _chunk("agent", "and ")) for at in range(1, 300)]
    found, seconds = _waited(*sent)
    assert found == "unusable"
    assert seconds == pytest.approx(60, abs=1)


def test_h21_without_last_words_only_silence_is_the_end() -> None:
    assert _waited((0, _DONE[0]), (0, _DONE[1]), words="") == ("before", 5)
    assert _waited((0, _DONE[0]), (0, _DONE[1]), answer="") == ("before", 5)


class _Agent:
    """The other end of the link: asks for things in the middle of a history."""

    def __init__(self) -> None:
        self.replies: list[RpcReply] = []
        self.is_answered = asyncio.Event()

    def on_reply(self, reply: RpcReply) -> None:
        self.replies.append(reply)
        if len(self.replies) == _REQUESTS:
            self.is_answered.set()

    def connected(self, peer: Any) -> None:
        self.peer = peer

    def closed(self, reason: str) -> None:
        pass

    def notification(self, notification: Notification) -> None:
        pass

    def request(self, incoming: Any) -> None:
        incoming.reply({})


def test_i4_nothing_is_allowed_while_a_history_is_told() -> None:
    async def ask() -> list[RpcReply]:
        link, agent = AgentLink("Agent", ("agent",), lambda _reason: None), _Agent()
        memory_pair(link, agent, PeerOptions(name="agent"), PeerOptions(name="client"))
        link.offers_files = True
        link.attach("s", HistoryListener("", ""))
        call = {"toolCallId": "t", "title": "rm", "kind": "execute"}
        options = [{"optionId": "yes", "kind": "allow_once", "name": "yes"}]
        params: dict[str, Any] = {"sessionId": "s", "toolCall": call, "options": options}
        agent.peer.call("session/request_permission", params, agent.on_reply)
        agent.peer.call("fs/read_text_file", {"sessionId": "s", "path": "/x"}, agent.on_reply)
        agent.peer.call("fs/write_text_file", {"sessionId": "s", "path": "/x", "content": ""}, agent.on_reply)
        await asyncio.wait_for(agent.is_answered.wait(), 10)
        return agent.replies

    permission, *files = asyncio.run(ask())
    assert isinstance(permission, RpcResponse)
    assert json.loads(permission.result) == {"outcome": {"outcome": "cancelled"}}
    assert not any(isinstance(reply, RpcResponse) for reply in files)
