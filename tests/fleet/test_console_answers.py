"""A client at one gateway, a person at the console of another one, and an agent on a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from console.asking import session_of
from dragoman.backends.remote.question_mirror import QuestionMirror
from dragoman.config import ConsoleConfig
from dragoman.fleet.lease import LeaseTimes
from dragoman.frontends.console.console import Console
from dragoman.models import Models
from fake_agent.steps import prompt
from fleet.gateways_and_worker import until
from fleet.machines import Machines, RunningWorker, fake, machines
from http_server.kit import Answered, Json, Site, site_of, soon

# Through agents and connections: each takes a second or more.
pytestmark = pytest.mark.long

_RUN: list[object] = [
    "ask",
    {"toolCallId": "p", "title": "Run it", "kind": "execute", "rawInput": {"command": "git log"}},
    ["allow_once", "reject_once"],
]


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as fleet:
        yield fleet


@pytest.fixture
async def runner(room: Machines, tmp_path: Path) -> RunningWorker:
    return await room.worker("w1", times=LeaseTimes(), m=fake(tmp_path / "w"))


async def _gateway(room: Machines, name: str) -> Models:
    models = await room.gateway(name)
    connection = await room.connection(f"{name}-questions")
    await room.stack.enter_async_context(
        QuestionMirror.running(connection, name, models.permissions.inbox, presence_seconds=0.1)
    )
    return models


async def _console(room: Machines, name: str) -> tuple[Console, Models]:
    models = await _gateway(room, name)
    console = Console(ConsoleConfig(), (), models, "http://127.0.0.1:8427/")
    room.stack.push_async_callback(console.close)
    return console, models


async def _site(room: Machines, name: str, config: ConsoleConfig | None = None) -> Site:
    models = await _gateway(room, name)
    return room.stack.enter_context(
        contextmanager(site_of)(models, store=room.folder / "shared", console=config)
    )


def _asking(site: Site, **fields: object) -> asyncio.Task[Answered]:
    return asyncio.create_task(site.create(input=prompt(_RUN), **fields))


def _said(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


@pytest.mark.parametrize("word", ["allow", "deny"])
async def test_w1_a_client_at_one_gateway_and_a_person_at_another(
    room: Machines, runner: RunningWorker, word: str
) -> None:
    site = await _site(room, "g1")
    console, models = await _console(room, "g2")
    console.feed.open(session_of())
    inbox = runner.models.permissions.inbox
    await until(inbox, lambda: inbox.is_reachable("any"))
    answering = _asking(site)
    there = models.permissions.inbox
    await until(there, lambda: len(there))
    [copy] = there
    outcome = await soon(console.decider.decide(copy.id, session_of(name="ann"), word))  # type: ignore[arg-type]
    assert outcome["by"] == "ann"
    said = _said((await soon(answering)).response)
    assert f"<p: the-{word if word == 'allow' else 'reject'}_once>" in said
    [decided] = runner.models.permissions.record.newest_first()
    assert (decided.allowed, decided.by) == (word == "allow", "person")


async def test_w2_nobody_at_any_console_is_refused_at_once_with_an_address(
    room: Machines, runner: RunningWorker
) -> None:
    site = await _site(room, "g1")
    await _console(room, "g2")
    inbox = runner.models.permissions.inbox
    await until(inbox, lambda: inbox.address)
    said = _said((await soon(_asking(site))).response)
    assert "<p: the-reject_once>" in said
    assert "No person has the console open. Open http://127.0.0.1:8427/" in said


async def test_w1_a_stored_response_goes_on_in_the_background_while_a_person_decides_elsewhere(
    room: Machines, runner: RunningWorker
) -> None:
    site = await _site(room, "g1", ConsoleConfig(decide_seconds=1))
    console, models = await _console(room, "g2")
    console.feed.open(session_of())
    inbox = runner.models.permissions.inbox
    await until(inbox, lambda: inbox.is_reachable("any"))
    held = (await soon(_asking(site))).json
    assert held["status"] == "in_progress"
    [copy] = models.permissions.inbox
    await soon(console.decider.decide(copy.id, session_of(), "allow"))

    async def completed() -> Json:
        path = f"/v1/responses/{held['id']}"
        while (found := (await site.get(path)).json)["status"] == "in_progress":  # noqa: ASYNC110 - as a client does
            await asyncio.sleep(0.05)
        response: Json = found
        return response

    assert "<p: the-allow_once>" in _said(await soon(completed()))
