"""The link to an agent: whatever form an answer has, whoever asked has one."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.backends.agent.acp.link import AgentLink, TurnEnd
from dragoman.backends.agent.acp.messages import PromptResponse
from dragoman.jsonrpc import Incoming, Notification, Peer, memory_pair
from dragoman.lm import LanguageModelError

# As an agent in JavaScript writes half of an emoji.
_HALF = rb'"\ud83d"'


class _Agent:
    """Gives every request the same answer, to the letter."""

    def __init__(self, result: bytes) -> None:
        self._result = result
        self._peer: Peer | None = None

    def connected(self, peer: Peer) -> None:
        self._peer = peer

    def request(self, incoming: Incoming) -> None:
        assert self._peer is not None
        assert isinstance(incoming.id, int)
        self._peer.stream.write(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (incoming.id, self._result))

    def notification(self, notification: Notification) -> None:
        raise AssertionError(notification)

    def closed(self, reason: str) -> None:
        pass


def _linked(result: bytes) -> AgentLink:
    link = AgentLink("Fake", lambda _reason: None)
    memory_pair(link, _Agent(result))
    return link


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (b'{"stopReason":"refusal"}', "refusal"),
        (b'{"stopReason":"refusal","_meta":{"last":%s}}' % _HALF, "refusal"),
        (b'{"stopReason":"refusal","usage":{"of":%s}}' % _HALF, "refusal"),
        # Nobody can say why; but that it is over.
        (b'{"stopReason":7}', "end_turn"),
        (b"null", "end_turn"),
    ],
)
async def test_f10_f16_a_turn_ends_whatever_the_agent_says_at_its_end(result: bytes, reason: str) -> None:
    ended: asyncio.Future[TurnEnd] = asyncio.get_running_loop().create_future()
    _linked(result).prompt("s", (), ended.set_result)
    end = await asyncio.wait_for(ended, 10)
    assert isinstance(end, PromptResponse)
    assert end.stop_reason == reason


@pytest.mark.parametrize("result", [b'{"sessionId":7}', b"[]"])
async def test_f10_an_answer_that_cannot_be_read_is_a_failure_of_the_agents(result: bytes) -> None:
    with pytest.raises(LanguageModelError, match="in a way that cannot be read") as failure:
        await asyncio.wait_for(_linked(result).load_session("s", ("/",), ()), 10)
    assert failure.value.kind == "agent_failed"


async def test_f16_half_a_character_in_an_answer_costs_only_itself() -> None:
    created = await asyncio.wait_for(
        _linked(b'{"modes":{"currentModeId":"plan","note":%s}}' % _HALF).load_session("s", ("/",), ()), 10
    )
    assert created.mode == "plan"


@pytest.mark.parametrize(
    ("result", "is_taken"),
    [
        (b'{"outcome":"injected","_meta":%s}' % _HALF, True),
        (b'{"outcome":"promptRequired"}', False),
        (b"null", False),
    ],
)
async def test_f10_f16_what_became_of_words_in_mid_turn_is_told(result: bytes, *, is_taken: bool) -> None:
    told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    _linked(result).steer("s", (), told.set_result)
    assert await asyncio.wait_for(told, 10) == is_taken
