"""How long agents run for conversations over HTTP: one-shot requests leave none behind."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.consumer import Bridge
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.memory_limit import MemoryLimit
from dragoman.backends.agent.profile.settings import AgentSettings, Timing
from dragoman.backends.agent.profile.traits import traits_of
from dragoman.clock import Clock, SystemClock
from dragoman.lm import GuardedModel, ModelInfo
from dragoman.process.memory import MemoryUse
from dragoman.process.supervisor import descendants, processes
from fake_agent.steps import COMMAND, prompt
from http_server.kit import Held, Json, Site, function, site_of, soon
from process.living import alive, all_gone
from virtual_clock import VirtualClock

pytestmark = pytest.mark.long

_CHAT = "/v1/chat/completions"
_ONE_TURN = Timing().one_turn


@asynccontextmanager
async def _served(
    folder: Path, clock: Clock, timing: Timing | None = None, *, takes_up: str = "resume", **settings: Any
) -> AsyncIterator[tuple[Site, Bridge]]:
    """A server with an agent, `m`, whose sessions can be resumed, or taken up in another way."""
    bridge = Bridge(folder)
    command = (*COMMAND, f'{{"folder": "{folder}", "{takes_up}": true}}')
    made = AgentSettings(
        "fake", "Fake", command, {}, folder, traits_of("demo"), timing or Timing(), max_agents=100, **settings
    )
    info = ModelInfo("fake", "Fake", "fake", "1", 100_000, 10_000)
    bridge.model = GuardedModel(AgentModel(info, made, permissions=bridge.permissions, clock=clock))
    try:
        with contextmanager(site_of)(Held(bridge.permissions, m=bridge.model)) as site:
            yield site, bridge
    finally:
        await bridge.close()
        await soon(all_gone(bridge.pids))


def _below() -> int:
    """How many processes are below this one."""
    return len(descendants(processes(), os.getpid()))


async def test_eighty_one_shot_conversations_leave_no_process(tmp_path: Path) -> None:
    before = _below()
    async with _served(tmp_path, SystemClock(), Timing(one_turn=0.0)) as (site, bridge):
        at_once = asyncio.Semaphore(4)

        async def ask(number: int) -> None:
            async with at_once:
                body = {"model": "m", "messages": [{"role": "user", "content": prompt(["say", f"{number}"])}]}
                answered = await site.post(_CHAT, body)
                assert answered.json["choices"][0]["message"]["content"] == f"{number}"

        await asyncio.gather(*map(ask, range(80)))
        assert len(bridge.pids) == 80
        await soon(all_gone(bridge.pids))

        async def supervisors_gone() -> None:
            while _below() > before:  # noqa: ASYNC110 - nothing tells when they end
                await asyncio.sleep(0.01)

        await soon(supervisors_gone())


async def test_an_agent_is_parked_a_minute_after_its_only_turn_and_the_conversation_goes_on(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    async with _served(tmp_path, clock) as (site, bridge):
        said: list[Json] = [{"role": "user", "content": "hello"}]
        first = await site.post(_CHAT, {"model": "m", "messages": said})
        await bridge.until_idle()
        clock.advance(_ONE_TURN - 1)
        await asyncio.sleep(0)
        assert alive(bridge.pids) == bridge.pids
        clock.advance(1)
        await bridge.until_parked()
        said += [{"role": "assistant", "content": first.json["choices"][0]["message"]["content"]}]
        said += [{"role": "user", "content": "and now?"}]
        second = await site.post(_CHAT, {"model": "m", "messages": said})
        # The same session, in another process.
        assert [note["sessionId"] for note in bridge.noted("session/resume")] == [
            bridge.noted("session/prompt")[0]["sessionId"]
        ]
        places = [each.headers["x-dragoman-conversation"].partition(";")[0] for each in (first, second)]
        assert places[0] == places[1]
        # With a second turn it has the usual time.
        await bridge.until_idle()
        clock.advance(_ONE_TURN)
        await asyncio.sleep(0)
        assert len(alive(bridge.pids)) == 1
        clock.advance(Timing().idle)
        await bridge.until_parked()


async def _first_turn(site: Site, bridge: Bridge) -> list[Json]:
    """Return the history after one turn."""
    said: list[Json] = [{"role": "user", "content": "hello"}]
    first = await site.post(_CHAT, {"model": "m", "messages": said})
    await bridge.until_idle()
    return [*said, {"role": "assistant", "content": first.json["choices"][0]["message"]["content"]}]


async def test_an_agent_that_can_load_its_session_is_parked_early_as_well(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with _served(tmp_path, clock, takes_up="load") as (site, bridge):
        await _first_turn(site, bridge)
        clock.advance(_ONE_TURN)
        await bridge.until_parked()


async def test_an_agent_that_cannot_take_up_its_session_has_the_usual_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with _served(tmp_path, clock, takes_up="nothing") as (site, bridge):
        said = await _first_turn(site, bridge)
        (pid,) = bridge.pids
        clock.advance(_ONE_TURN)
        await site.post(_CHAT, {"model": "m", "messages": [*said, {"role": "user", "content": "and now?"}]})
        # What it has read and done is still there.
        assert len(bridge.noted("session/new")) == 1
        await bridge.until_idle()
        clock.advance(Timing().idle - 1)
        await asyncio.sleep(0)
        assert alive({pid}) == {pid}
        clock.advance(1)
        await bridge.until_parked()


async def test_without_memory_an_agent_that_cannot_take_up_its_session_is_parked_last(tmp_path: Path) -> None:
    clock = VirtualClock()
    sizes: dict[int, int] = {}
    limit = MemoryLimit(100, lambda _pids: MemoryUse(sum(sizes.values()), dict(sizes)))
    poor, rich = tmp_path / "poor", tmp_path / "rich"
    poor.mkdir()
    rich.mkdir()
    async with (
        _served(poor, clock, takes_up="nothing", memory=limit) as (forgetful, poors),
        _served(rich, clock, memory=limit) as (site, riches),
    ):
        await _first_turn(forgetful, poors)
        said = await _first_turn(site, riches)
        await site.post(_CHAT, {"model": "m", "messages": [*said, {"role": "user", "content": "and now?"}]})
        await riches.until_idle()
        clock.advance(_ONE_TURN)
        # Memory is short.
        sizes |= dict.fromkeys(poors.pids | riches.pids, 40)
        limit.relieve()
        await soon(all_gone(riches.pids))
        sizes = dict.fromkeys(poors.pids, 80)
        assert limit.relieve() == 0
        assert alive(poors.pids) == poors.pids
        # There is none left: the conversation goes on with what was said.
        sizes = dict.fromkeys(poors.pids, 101)
        limit.relieve()
        await soon(all_gone(poors.pids))


async def test_an_agent_that_waits_for_a_result_is_not_parked(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with _served(tmp_path, clock) as (site, bridge):
        steps = prompt(["announce", "1", "look"], ["call", "look", {}])
        asking = asyncio.create_task(site.create(input=steps, tools=[function("look")], store=False))
        await bridge.until_pending(1)
        clock.advance(Timing().gather_limit)
        asked = await soon(asking)
        clock.advance(_ONE_TURN)
        await asyncio.sleep(0)
        assert alive(bridge.pids) == bridge.pids
        (call,) = asked.response["output"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "green"}
        after = await site.create(
            input=[{"role": "user", "content": steps}, call, output], tools=[function("look")]
        )
        assert "look returned: green" in str(after.response["output"])
        assert len(bridge.pids) == 1


async def test_a_request_that_says_it_is_the_only_one_leaves_its_agent_at_once(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with _served(tmp_path, clock) as (site, bridge):
        first = await site.create(input="hello", headers={"x_dragoman_one_shot": "true"})
        clock.advance(0)
        await bridge.until_parked()
        await soon(all_gone(bridge.pids))
        # Nothing is lost, should it have been wrong.
        history = [{"role": "user", "content": "hello"}, *first.response["output"]]
        again = await site.create(input=[*history, {"role": "user", "content": "still there?"}])
        places = [each.headers["x-dragoman-conversation"].partition(";")[0] for each in (first, again)]
        assert places[0] == places[1]


async def test_when_memory_is_short_conversations_with_one_turn_are_parked_first(tmp_path: Path) -> None:
    clock = VirtualClock()
    sizes: dict[int, int] = {}
    limit = MemoryLimit(100, lambda _pids: MemoryUse(sum(sizes.values()), dict(sizes)))
    async with _served(tmp_path, clock, memory=limit) as (site, bridge):
        said: list[Json] = [{"role": "user", "content": "hello"}]
        first = await site.post(_CHAT, {"model": "m", "messages": said})
        said += [{"role": "assistant", "content": first.json["choices"][0]["message"]["content"]}]
        said += [{"role": "user", "content": "and now?"}]
        await site.post(_CHAT, {"model": "m", "messages": said})
        (long,) = bridge.pids
        await site.post(_CHAT, {"model": "m", "messages": [{"role": "user", "content": "a title"}]})
        (short,) = bridge.pids - {long}
        # Neither has been idle for long, and 80 of 100 is short.
        sizes.update({long: 40, short: 40})
        limit.relieve()
        await soon(all_gone({short}))
        del sizes[short]
        assert alive({long}) == {long}
        # The other one has been idle for a while.
        clock.advance(_ONE_TURN)
        sizes[long] = 80
        limit.relieve()
        await soon(all_gone({long}))
