"""`respond` on another machine: a gateway, a worker, and a real NATS server between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.consumer import result
from dragoman.lm import TextPart
from fleet.machines import Machines, fake, machines, script


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as each:
        yield each


async def test_a_scripted_answer_arrives_whole_and_in_order(room: Machines) -> None:
    words = [f"word{n} " for n in range(500)]
    await room.worker("w1", story=script(room.folder, {"do": [{"say": "".join(words), "pace": 100_000}]}))
    gateway = await room.gateway()
    heard = await room.chat(gateway, "story").say("tell")
    assert heard.text == "".join(words)
    assert len([part for part in heard.parts if isinstance(part, TextPart)]) == 500


async def test_calls_and_results_of_an_agent_cross_requests(room: Machines) -> None:
    await room.worker("w1", fake=fake(room.folder / "agent"))
    chat = room.chat(await room.gateway(), "fake")
    heard = await chat.do(["say", "Looking."], ["call", "look", {"word": "x"}], ["say", "Done."])
    [call] = heard.message().calls
    answer = await chat.give(result(call, "a thing"))
    assert "a thing" in answer.text
    assert answer.text.endswith("Done.")
    assert await chat.echo()
