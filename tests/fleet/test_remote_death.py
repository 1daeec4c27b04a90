"""A worker that dies, hangs or is cut off, as a gateway and its client see it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from bridge.consumer import Chat, Heard, result
from dragoman.backends.remote.fleet import Fleet
from dragoman.config import Config
from dragoman.lm import LanguageModelError, user
from dragoman.models import Models
from dragoman.process.deadline import boot_seconds
from fake_agent.steps import open_gate, prompt
from fleet.lossy import losing
from fleet.machines import QUICK, Machines, fake, machines, soon, until
from process.living import all_gone


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as each:
        yield each


@asynccontextmanager
async def _process(
    room: Machines, name: str, folder: Path, times: Literal["quick", "usual"] = "quick"
) -> AsyncIterator[Process]:
    """A worker in a process of its own."""
    program = str(Path(__file__).with_name("worker_process.py"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, room.url, name, str(folder), times, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        assert await soon(process.stdout.readline()) == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGCONT)
            process.kill()
        await process.wait()


def _pids(folder: Path) -> set[int]:
    lines = (folder / "journal").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return {int(entry["params"]["pid"]) for entry in entries if entry["method"] == "started"}


@pytest.mark.long
async def test_n1_a_worker_killed_in_mid_turn_is_an_honest_error_and_the_next_request_goes_on_elsewhere(
    room: Machines,
) -> None:
    first, second = room.folder / "one", room.folder / "two"
    async with _process(room, "w1", first) as process:
        gateway = await room.gateway()
        chat = room.chat(gateway, "fake")
        going = chat.begin(user(prompt(["say", "Half"], ["hang"])))
        await going.until(lambda heard: "Half" in heard.text)
        process.kill()
        heard = await going.end()
        assert "w1" in heard.text
        assert "continues on another machine" in heard.text
        await soon(all_gone(_pids(first)))
    running = await room.worker("w2", fake=fake(second))
    answer = await chat.do(["say", "Here again."])
    assert answer.text == "Here again."
    # It is the same conversation, and the agent there has read what was said before.
    [conversation] = running.models.conversations()
    assert conversation.journal.record.replies[0].number == 1  # type: ignore[attr-defined]
    assert len(conversation.journal.record.replies) == 2  # type: ignore[attr-defined]
    assert "Half" in (second / "journal").read_text()


@pytest.mark.long
async def test_n1_a_result_for_a_dead_worker_waits_for_its_lease_and_goes_on_elsewhere(
    room: Machines,
) -> None:
    first, second = room.folder / "one", room.folder / "two"
    async with _process(room, "w1", first) as process:
        gateway = await room.gateway()
        chat = room.chat(gateway, "fake")
        [call] = (await chat.do(["call", "look", {}], ["say", "Looked."])).message().calls
        process.kill()
        await process.wait()
        running = await room.worker("w2", fake=fake(second))
        # w1 owns the conversation as long as its lease lasts, and nobody is there.
        heard = await chat.give(result(call, "a rare thing"))
    assert heard.parts
    [conversation] = running.models.conversations()
    assert call.call_id.startswith(f"dg_{conversation.id}_")
    assert "a rare thing" in (second / "journal").read_text()


@pytest.mark.long
async def test_n1_a_response_of_a_killed_worker_fails_when_nobody_listens_there_and_not_at_the_fence(
    room: Machines,
) -> None:
    async with _process(room, "w1", room.folder / "one", "usual") as process:
        connection = await room.connection("gate")
        fleet = Fleet.on(connection, "gate")
        room.stack.push_async_callback(fleet.close)
        models = Models(Config(models={}), fleet=fleet)
        room.stack.push_async_callback(models.close)
        await fleet.workers.refresh()
        going = room.chat(models, "fake").begin(user(prompt(["say", "Half"], ["hang"])))
        await going.until(lambda heard: "Half" in heard.text)
        [peer] = fleet.streams._peers.values()
        process.kill()
        heard = await going.end()
        assert "no longer answers" in heard.text
        assert peer.validity.seconds_left(boot_seconds()) > 0


@pytest.mark.long
async def test_n2_a_worker_that_was_suspended_shows_nothing_when_it_wakes(room: Machines) -> None:
    folder = room.folder / "one"
    async with _process(room, "w1", folder) as process:
        gateway = await room.gateway()
        chat = room.chat(gateway, "fake")
        going = chat.begin(user(prompt(["say", "Half"], ["gate", "on"], ["say", "NEVER SHOWN"])))
        await going.until(lambda heard: "Half" in heard.text)
        os.kill(process.pid, signal.SIGSTOP)
        # What the agent says now waits in its pipe.
        open_gate(folder, "on")
        heard = await going.end()
        assert "no longer answers" in heard.text
        # Its agents end at the fence, although nobody could tell them.
        await soon(all_gone(_pids(folder)))
        os.kill(process.pid, signal.SIGCONT)
        # A new life takes requests.
        again = room.chat(gateway, "fake")
        assert (await soon(_served(again))).text == "Awake."
        assert "NEVER SHOWN" not in heard.text


async def _served(chat: Chat) -> Heard:
    """The answer of the first worker that is there."""
    while True:
        going = chat.begin(user(prompt(["say", "Awake."])))
        try:
            await going.task
        except LanguageModelError:
            chat.history.clear()
            await asyncio.sleep(0.1)
        else:
            return going.heard


async def test_a_gateway_that_was_suspended_shows_nothing_old(room: Machines) -> None:
    folder = room.folder / "one"
    offset = 0.0
    is_cut = False
    await room.worker("w1", fake=fake(folder))
    connection = losing(lambda *_: is_cut)(await room.connection("gate"))
    fleet = Fleet.on(connection, "gate")
    fleet.link.clock = lambda: boot_seconds() + offset
    room.stack.push_async_callback(fleet.close)
    models = Models(Config(models={}), fleet=fleet)
    room.stack.push_async_callback(models.close)
    await fleet.workers.refresh()
    chat = room.chat(models, "fake")
    going = chat.begin(user(prompt(["say", "Half"], ["gate", "on"], ["say", "NEVER SHOWN"])))
    await going.until(lambda heard: "Half" in heard.text)
    # While it sleeps it hears nothing and says nothing; the clock goes on.
    is_cut, offset = True, 30.0
    open_gate(folder, "on")
    heard = await going.end()
    assert "NEVER SHOWN" not in heard.text
    assert "no longer answers" in heard.text


@pytest.mark.long
async def test_n3_a_worker_that_is_cut_off_ends_its_agents_at_the_fence_and_begins_again(
    room: Machines,
) -> None:
    folder = room.folder / "one"
    is_cut = False
    running = await room.worker("w1", times=QUICK, wrapped=losing(lambda *_: is_cut), fake=fake(folder))
    life = running.worker.serving
    chat = room.chat(await room.gateway(), "fake")
    going = chat.begin(user(prompt(["say", "Half"], ["hang"])))
    await going.until(lambda heard: "Half" in heard.text)
    assert life is not None
    # Its renewals are lost, too: they do not go through `publish`.
    put = running.connection.js.publish

    async def lost(*_: object, **__: object) -> None:
        raise TimeoutError

    running.connection.js.publish = lost  # type: ignore[method-assign,assignment]
    is_cut = True
    heard = await going.end()
    assert "no longer answers" in heard.text
    await soon(all_gone(_pids(folder)))
    running.connection.js.publish = put  # type: ignore[method-assign]
    is_cut = False
    await soon(until(lambda: running.worker.serving not in (None, life)))
    await soon(until(lambda: running.worker.serving and running.worker.serving.has_started))
    answer = await room.chat(await room.gateway("other"), "fake").do(["say", "Again."])
    assert answer.text == "Again."
