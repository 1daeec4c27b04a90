"""Many conversations: which agents run, what is in memory, and that nobody notices."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.consumer import TOOLS, Bridge, Chat, result, soon
from dragoman.backends.agent import registry
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.memory_limit import MemoryLimit
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.registry import ConversationRegistry
from dragoman.lm import LanguageModelError
from dragoman.lm.messages import user
from dragoman.store import Database
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_NO_RETRY = Timing(retry=0.0)
# More than a supervisor takes, and less than an agent.
_LITTLE_MEMORY = 20_000_000


def _directory(bridge: Bridge) -> ConversationRegistry:
    assert bridge.model is not None
    model = bridge.model._model
    assert isinstance(model, AgentModel)
    return model._registry


def _running(bridge: Bridge) -> list[str]:
    """The conversations with an agent, the longest unused first."""
    return [each.id for each in _directory(bridge)._here.values() if each.has_agent]


async def _named(bridge: Bridge, chat: Chat, words: str) -> str:
    """Say something there, and see which conversation it is."""
    assert words in (await chat.say(words)).text
    return list(_directory(bridge)._here)[-1]


async def test_b4_with_too_many_agents_the_longest_unused_is_parked(bridge: Bridge) -> None:
    chats = [bridge.chat(configured={"max_agents": 2}) for _ in range(3)]
    first, second, third = [await _named(bridge, chat, f"chat {number}") for number, chat in enumerate(chats)]
    assert _running(bridge) == [second, third]
    # The first one goes on as if nothing had been; now another is the longest unused.
    assert await _named(bridge, chats[0], "and on") == first
    assert _running(bridge) == [third, first]


async def test_b5_an_agent_with_work_pending_is_never_parked(bridge: Bridge) -> None:
    waiting = bridge.chat(configured={"max_agents": 1})
    [call] = (await waiting.do(["call", TOOLS[0].name, {}])).calls
    streaming = bridge.chat().begin(
        user(prompt(["say", "on the way"], ["gate", "go on"], ["say", " and there"]))
    )
    await streaming.until(lambda heard: "on the way" in heard.text)
    for number in range(2):
        await bridge.chat().say(f"chat {number}")
    # Only the two that work are left: the others are parked as soon as they are idle.
    await _until(lambda: len(_running(bridge)) == 2)
    bridge.open_gate("go on")
    assert (await streaming.end()).text == "on the way and there"
    assert "here it is" in (await waiting.give(result(call, "here it is"))).text


async def test_b7_what_is_over_is_put_away_and_found_again(
    bridge: Bridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_RESTING_ITEMS", 7)
    with Database.open(tmp_path / "state") as database:
        bridge.store_in(database)
        chats = [bridge.chat(timing=_NO_RETRY, configured={"max_agents": 1}) for _ in range(5)]
        for number, chat in enumerate(chats):
            await chat.say(f"chat {number} {'.' * 300}")
        stored = _directory(bridge)
        assert len(stored.records) == 5
        # The one that spoke last, and the one before while the end of its agent is being stored.
        assert len(stored._here) <= 2
        assert len(list(stored.records)) < 5, "some are in the store only"
        assert stored._resting_items <= 7
        assert len(await chats[0].echo()) > 1, "the agent is told what came before"
        assert len(stored.records) == 5, "it is the same conversation"
        await bridge.close()


async def test_f16_half_a_character_in_what_is_said_stops_nobody(bridge: Bridge, tmp_path: Path) -> None:
    with Database.open(tmp_path / "state") as database:
        store = bridge.store_in(database)
        assert "cut" in (await bridge.chat().say("cut \ud83d")).text
        assert [each.title for each in await store.journals("agent")] == ["cut \ufffd"]
        await bridge.close()


async def test_b7_without_a_store_what_is_too_much_is_forgotten(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_RESTING_ITEMS", 7)
    chats = [bridge.chat(timing=_NO_RETRY, configured={"max_agents": 1}) for _ in range(5)]
    for number, chat in enumerate(chats):
        await chat.say(f"chat {number} {'.' * 300}")
    assert len(_directory(bridge).records) < 5
    assert "chat 0" in str(await chats[0].echo()), "and all of it is told again"


async def test_b4_after_a_burst_agents_beyond_the_limit_are_parked_as_they_become_idle(
    bridge: Bridge,
) -> None:
    chats = [bridge.chat(configured={"max_agents": 2}) for _ in range(5)]
    busy = [
        chat.begin(user(prompt(["say", "on the way"], ["gate", f"go {number}"], ["say", " and there"])))
        for number, chat in enumerate(chats)
    ]
    for going in busy:
        await going.until(lambda heard: "on the way" in heard.text)
    burst = _running(bridge)
    assert len(burst) == 5
    for number, going in enumerate(busy):
        bridge.open_gate(f"go {number}")
        assert (await going.end()).text == "on the way and there"
    await _until(lambda: _running(bridge) == burst[-2:])
    # Those that were parked go on when they are asked.
    assert len(await chats[0].echo()) >= 1


async def test_b4_above_the_limit_of_memory_idle_agents_are_parked(bridge: Bridge) -> None:
    limit = MemoryLimit(_LITTLE_MEMORY)
    first, second = (bridge.chat(configured={"memory": limit}) for _ in range(2))
    await first.say("one")
    await _until(lambda: _running(bridge) == [])
    assert "two" in (await second.say("two")).text
    await _until(lambda: _running(bridge) == [])
    assert len(await first.echo()) >= 1


async def test_b4_above_the_limit_of_memory_no_further_agent_starts(bridge: Bridge) -> None:
    limit = MemoryLimit(_LITTLE_MEMORY)
    busy = bridge.chat(configured={"memory": limit}).begin(
        user(prompt(["say", "on the way"], ["gate", "go on"], ["say", " and there"]))
    )
    await busy.until(lambda heard: "on the way" in heard.text)
    with pytest.raises(LanguageModelError, match="of memory; all together may take") as refused:
        await bridge.chat().say("two")
    assert (refused.value.kind, refused.value.retry_after) == ("unavailable", 10.0)
    assert "max_memory" in (refused.value.hint or "")
    assert len(_running(bridge)) == 1
    bridge.open_gate("go on")
    assert (await busy.end()).text == "on the way and there"
    assert "two" in (await bridge.chat().say("two")).text


async def _until(is_so: Callable[[], bool]) -> None:
    async def look() -> None:
        while not is_so():  # noqa: ASYNC110 - it changes in the course of other tasks, which set no event
            await asyncio.sleep(0.01)

    await soon(look())
