"""The link to an agent: whatever form an answer has, whoever asked has one."""

from __future__ import annotations

import asyncio
import json

import pytest

from dragoman.backends.agent.acp.link import AgentLink, TurnEnd
from dragoman.backends.agent.acp.messages import PROTOCOL_VERSION, AuthMethod, Initialized, PromptResponse
from dragoman.jsonrpc import Incoming, Notification, Peer, memory_pair
from dragoman.lm import LanguageModelError

# As an agent in JavaScript writes half of an emoji.
_HALF = rb'"\ud83d"'


class _Agent:
    """Gives every request the same answer, to the letter."""

    def __init__(self, result: bytes, field: bytes = b"result") -> None:
        self._result = result
        self._field = field
        self._peer: Peer | None = None

    def connected(self, peer: Peer) -> None:
        self._peer = peer

    def request(self, incoming: Incoming) -> None:
        assert self._peer is not None
        assert isinstance(incoming.id, int)
        answer = b'"%s":%s' % (self._field, self._result)
        self._peer.stream.write(b'{"jsonrpc":"2.0","id":%d,%s}\n' % (incoming.id, answer))

    def notification(self, notification: Notification) -> None:
        raise AssertionError(notification)

    def closed(self, reason: str) -> None:
        pass


def _linked(result: bytes, field: bytes = b"result") -> AgentLink:
    link = AgentLink("Fake", ("my fake", "--acp"), lambda _reason: None)
    memory_pair(link, _Agent(result, field))
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
    with pytest.raises(LanguageModelError, match="its answer cannot be read") as failure:
        await asyncio.wait_for(_linked(result).load_session("s", ("/",), ()), 10)
    assert failure.value.kind == "agent_failed"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Is it the url?.", "Fake could not answer: Is it the url?"),
        ("Internal error", "Fake could not answer: Internal error."),
        ("No credit left...", "Fake could not answer: No credit left."),
    ],
)
async def test_an_error_of_an_agents_is_told_in_words_for_people(said: str, told: str) -> None:
    ended: asyncio.Future[TurnEnd] = asyncio.get_running_loop().create_future()
    error = json.dumps({"code": -32603, "message": said, "data": {"details": "It is down"}}).encode()
    _linked(error, b"error").prompt("s", (), ended.set_result)
    end = await asyncio.wait_for(ended, 10)
    assert isinstance(end, LanguageModelError)
    next_step = "Try again; if it stays so, start it by hand and see what it says: 'my fake' --acp"
    assert end.sentence == f"{told} It is down. {next_step}"


async def test_whoever_must_log_in_is_told_with_what() -> None:
    link = _linked(b'{"code":-32000,"message":"Authentication required"}', b"error")
    link.info = Initialized(
        PROTOCOL_VERSION, auth_methods=(AuthMethod("key", "A key", "from the site."), AuthMethod("web"))
    )
    with pytest.raises(LanguageModelError) as failure:
        await asyncio.wait_for(link.load_session("s", ("/",), ()), 10)
    assert failure.value.kind == "auth_required"
    assert str(failure.value.hint).splitlines() == [
        "Log in with the agent's own program, then try again. It is started as: 'my fake' --acp",
        'Or set `auth = "key"` of this model, and the agent is asked to do it: A key (from the site).',
        'Or set `auth = "web"` of this model, and the agent is asked to do it: web.',
    ]


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
