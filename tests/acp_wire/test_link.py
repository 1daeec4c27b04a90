"""The link to an agent: every request gets a result or an error, whatever the form of the response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path

import pytest

from dragoman.acp.link import AgentLink, TurnEnd
from dragoman.acp.messages import (
    PROTOCOL_VERSION,
    AuthMethod,
    FileRequest,
    Initialized,
    PermissionRequest,
    PromptResponse,
    SessionCreated,
    SessionUpdate,
)
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.session.opening import configure
from dragoman.jsonrpc import Incoming, Notification, Peer
from dragoman.lm import LanguageModelError
from memory_peers import memory_pair

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
        # The reason is unknown, but the turn is over.
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
    ("said", "reported"),
    [
        ("Is it the url?.", "Fake could not answer: Is it the url?"),
        ("Internal error", "Fake could not answer: Internal error."),
        ("No credit left...", "Fake could not answer: No credit left."),
    ],
)
async def test_an_error_of_an_agents_is_told_in_words_for_people(said: str, reported: str) -> None:
    ended: asyncio.Future[TurnEnd] = asyncio.get_running_loop().create_future()
    error = json.dumps({"code": -32603, "message": said, "data": {"details": "It is down"}}).encode()
    _linked(error, b"error").prompt("s", (), ended.set_result)
    end = await asyncio.wait_for(ended, 10)
    assert isinstance(end, LanguageModelError)
    next_step = "Try again; if it stays so, start it by hand and see what it says: 'my fake' --acp"
    assert end.sentence == f"{reported} It is down. {next_step}"


_METHODS = Initialized(
    PROTOCOL_VERSION, auth_methods=(AuthMethod("key", "A key", "from the site."), AuthMethod("web"))
)


async def test_f9_a_login_that_is_needed_is_told_with_the_ways_and_in_the_agents_own_words() -> None:
    link = _linked(b'{"code":-32000,"message":"Authentication required"}', b"error")
    link.info = _METHODS
    with pytest.raises(LanguageModelError) as failure:
        await asyncio.wait_for(link.load_session("s", ("/",), ()), 10)
    assert failure.value.kind == "auth_required"
    assert failure.value.message == "Fake requires a login: Authentication required."
    assert str(failure.value.hint).splitlines() == [
        "Log in with the agent's own program, then try again. It is started as: 'my fake' --acp",
        'Or set `auth = "key"` of this model, and the agent is asked to do it: A key (from the site).',
        'Or set `auth = "web"` of this model, and the agent is asked to do it: web.',
    ]


_BUSY = b'{"code":-32000,"message":"busy, try later"}'


def _failing(link: AgentLink, method: str) -> Awaitable[object]:
    match method:
        case "session/new":
            return link.new_session(("/",), (), _NoListener())
        case "session/load":
            return link.load_session("s", ("/",), ())
        case "session/resume":
            return link.resume_session("s", ("/",), ())
        case "session/set_mode":
            return link.set_mode("s", "plan")
        case "session/set_config_option":
            return link.set_option("s", "model", "large")
        case _:
            return link.initialize()


class _NoListener:
    def on_update(self, update: SessionUpdate) -> None:
        raise AssertionError(update)

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:
        raise AssertionError(request, incoming)

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        raise AssertionError(request, incoming)


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "session/new",
        "session/load",
        "session/resume",
        "session/set_mode",
        "session/set_config_option",
    ],
)
async def test_f8_f9_without_a_way_to_log_in_an_error_is_what_the_agent_says_that_it_is(method: str) -> None:
    with pytest.raises(LanguageModelError) as failure:
        await asyncio.wait_for(_failing(_linked(_BUSY, b"error"), method), 10)
    assert failure.value.kind == "agent_failed"
    assert failure.value.message.endswith(": busy, try later.")


@pytest.mark.parametrize(("info", "kind"), [(None, "agent_failed"), (_METHODS, "auth_required")])
async def test_f8_f9_a_prompt_that_fails_keeps_the_agents_own_words(
    info: Initialized | None, kind: str
) -> None:
    ended: asyncio.Future[TurnEnd] = asyncio.get_running_loop().create_future()
    link = _linked(_BUSY, b"error")
    link.info = info or link.info
    link.prompt("s", (), ended.set_result)
    end = await asyncio.wait_for(ended, 10)
    assert isinstance(end, LanguageModelError)
    assert end.kind == kind
    assert end.message.endswith(": busy, try later.")


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (None, "Internal error."),
        ("It is down", "Internal error. It is down."),
        ({"message": "It is down"}, "Internal error. It is down."),
        ({"details": {"message": "It is down."}}, "Internal error. It is down."),
        ({"error": {"message": "It is down"}, "status": 503}, "Internal error. It is down."),
        ({"message": "internal error"}, "Internal error."),
        ({"message": "It is down", "details": "Since noon"}, "Internal error. It is down. Since noon."),
        ({"details": 7}, "Internal error."),
        ([1, 2], "Internal error."),
        ("\x1b[31mred\x1b[0m\r\n\x07bell \u202e", "Internal error. red ␇bell <U+202E>."),
    ],
)
async def test_what_an_agent_says_beside_its_error_is_kept_and_acts_on_nothing(
    data: object, reported: str
) -> None:
    error = json.dumps({"code": -32603, "message": "Internal error", "data": data}).encode()
    with pytest.raises(LanguageModelError) as failure:
        await asyncio.wait_for(_linked(error, b"error").set_mode("s", "plan"), 10)
    assert failure.value.message == f"Fake could not do what it was asked to: {reported}"


async def test_a_long_error_of_an_agent_is_cut() -> None:
    error = json.dumps({"code": -32603, "message": "m" * 100_000, "data": "d" * 100_000}).encode()
    with pytest.raises(LanguageModelError) as failure:
        await asyncio.wait_for(_linked(error, b"error").set_mode("s", "plan"), 10)
    assert "mmm… ddd" in failure.value.message
    assert failure.value.message.endswith("ddd…")
    assert len(failure.value.message) < 2_000


@pytest.mark.parametrize(
    "error",
    [
        b'{"code":429,"message":"Try again later."}',
        b'{"code":-32603,"message":"Internal error","data":{"details":"429 rate limit exceeded"}}',
        b'{"code":-32603,"message":"Internal error","data":{"message":"You have hit your usage limit."}}',
        b'{"code":-32000,"message":"Too Many Requests"}',
        b'{"code":-32603,"message":"RESOURCE_EXHAUSTED: quota"}',
        b'{"code":-32603,"message":"API error: status 429"}',
    ],
)
async def test_an_agents_rate_limit_is_told_as_one(error: bytes) -> None:
    ended: asyncio.Future[TurnEnd] = asyncio.get_running_loop().create_future()
    link = _linked(error, b"error")
    link.info = _METHODS
    link.prompt("s", (), ended.set_result)
    end = await asyncio.wait_for(ended, 10)
    assert isinstance(end, LanguageModelError)
    assert end.kind == "rate_limited"
    assert end.hint == "Wait until the limit of the account ends, or use another model."
    assert not end.is_transient, "the agent has retried; another prompt would stand in its session twice"


async def test_f9_a_login_that_fails_is_told_in_the_agents_own_words_once() -> None:
    link = _linked(b'{"code":-32000,"message":"No.","data":{"details":"The key has expired"}}', b"error")
    link.info = _METHODS
    with pytest.raises(LanguageModelError) as failure:
        await asyncio.wait_for(link.authenticate("key"), 10)
    assert failure.value.kind == "auth_required"
    assert failure.value.message == 'Fake could not log in with "key": No. The key has expired.'


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
    reported: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    _linked(result).steer("s", (), reported.set_result)
    assert await asyncio.wait_for(reported, 10) == is_taken


@pytest.mark.parametrize(
    ("info", "kind", "hint"),
    [(None, "bad_request", "Check `mode` and `options`"), (_METHODS, "auth_required", "Log in with")],
)
async def test_a_mode_that_cannot_be_set_is_told_in_the_agents_own_words(
    info: Initialized | None, kind: str, hint: str
) -> None:
    link = _linked(_BUSY, b"error")
    link.info = info or link.info
    settings = AgentSettings("fake", "Fake", (), {}, Path("/"), mode="plan")
    with pytest.raises(LanguageModelError) as failure:
        await asyncio.wait_for(configure(link, "s", SessionCreated("s"), settings), 10)
    assert failure.value.kind == kind
    assert failure.value.message.endswith(": busy, try later.")
    assert str(failure.value.hint).startswith(hint)
