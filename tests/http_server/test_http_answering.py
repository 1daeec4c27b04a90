"""An answer between a model and its client: who waits for whom."""

import asyncio

import pytest

from dragoman.backends.scripted import act, fail, reply, say
from dragoman.frontends.http.answering import ResponseRun
from dragoman.frontends.http.client import FEATURES
from dragoman.frontends.http.errors import ApiError
from dragoman.lm import Consumer, LanguageModel, Request, TextPart, user
from http_server.kit import scripted, soon


def _answer(model: LanguageModel) -> ResponseRun:
    request = Request((user("x"),), consumer=Consumer(features=FEATURES))
    return ResponseRun(model, lambda sink, token: model.respond(request, sink, token))


async def test_a_model_that_is_far_ahead_waits_for_its_client() -> None:
    words = "word " * 2_000
    async with _answer(scripted(words)) as answer:

        async def until_it_waits() -> None:
            while answer._room.is_set():  # noqa: ASYNC110 - a step of the model at a time
                await asyncio.sleep(0)

        await soon(until_it_waits())
        ahead = len(answer._parts)
        assert ahead < 1_000
        text = [part.value async for part in answer.parts() if isinstance(part, TextPart)]
    assert "".join(text) == words


async def test_a_client_is_not_kept_from_its_headers_by_a_model_that_thinks_for_long() -> None:
    gate = asyncio.Event()
    async with _answer(scripted(reply(act(gate.wait), fail("agent_failed", "Later.")))) as answer:
        await soon(answer.begun(0.01))
        gate.set()
        with pytest.raises(ApiError, match="Later"):
            await soon(answer.begun())


async def test_whoever_leaves_ends_the_model() -> None:
    never = asyncio.Event()
    async with _answer(scripted(reply(say("Wait. "), act(never.wait)))) as answer:
        await soon(answer.begun())
    assert answer._task is not None
    assert answer._task.done()
    assert answer.is_cancelled
