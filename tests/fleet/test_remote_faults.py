"""What goes wrong between a gateway and a worker, and what a client hears of it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from dragoman.config import Config, FleetModel
from dragoman.fleet.lease import NameTaken, NodeLease
from dragoman.fleet.messages import ACCEPTED_FORM, REQUEST_FORM, STREAM_FORM, Cancel, RequestMessage
from dragoman.fleet.streams import make_streams
from dragoman.fleet.subjects import requests_subject, streams_subject
from dragoman.lm import LanguageModelError, Request, user
from dragoman.models import Models
from dragoman.store.errors import JournalStoreError
from fake_agent.steps import open_gate, prompt
from fleet.machines import Machines, fake, machines, script, soon, until
from nats_servers import PROGRAM, free_port, wait_for_port


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as each:
        yield each


async def test_a_drain_that_takes_too_long_cuts_what_is_under_way_and_says_so(room: Machines) -> None:
    running = await room.worker("w1", drain_seconds=0.2, fake=fake(room.folder / "agent"))
    chat = room.chat(await room.gateway(), "fake")
    going = chat.begin(user(prompt(["say", "Half"], ["hang"])))
    await going.until(lambda heard: "Half" in heard.text)
    await running.drained()
    heard = await going.end()
    assert heard.text.startswith("Half")
    assert "w1, on which this conversation ran, stops" in heard.text
    assert "continues on another machine" in heard.text


async def test_a_late_renewal_of_its_former_life_does_not_end_a_worker(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.frontends.worker.worker._AGAIN_SECONDS", 0.01)
    running = await room.worker("w1", story=script(room.folder, {"do": [{"say": "hi"}]}))
    former = running.worker.serving
    assert former is not None
    hold, taken = running.worker._hold, ["Another worker named 'w1' runs."]

    @asynccontextmanager
    async def held() -> AsyncIterator[NodeLease]:
        if taken:
            raise NameTaken(taken.pop())
        async with hold() as lease:
            yield lease

    running.worker._hold = held
    cast("NodeLease", former._lease)._term.end()

    def is_back() -> bool:
        serving = running.worker.serving
        return serving not in (None, former) and serving.has_started

    await soon(until(is_back))
    assert not taken
    assert (await room.chat(await room.gateway(), "story").say("hello")).text == "hi"


async def test_a_cancel_that_overtakes_its_request_counts(room: Machines) -> None:
    """They come to two subjects, and a large request takes longer."""
    running = await room.worker("w1", fake=fake(room.folder / "agent"))
    connection = await room.connection("gate")
    await connection.publish(streams_subject("w1"), STREAM_FORM.encode(Cancel("s1", "gate/1")))
    await soon(until(lambda: "s1" in running.worker.serving._cancelled))  # type: ignore[union-attr]
    for stream in ("s1", "s2"):
        request = RequestMessage(stream, "gate/1", "fake", Request((user("hello"),)))
        await connection.publish(requests_subject("w1"), REQUEST_FORM.encode(request))
    await soon(until(lambda: running.streams))
    assert running.served_requests == 1


def test_a_model_of_a_fleet_that_is_not_configured_says_what_to_add() -> None:
    with pytest.raises(LanguageModelError, match="fleet, and there is none") as failed:
        Models(Config(models={"far": FleetModel()})).get("far")
    assert "`url`" in failed.value.sentence


async def test_a_request_that_a_worker_cannot_read_is_refused_with_a_reason(room: Machines) -> None:
    await room.worker("w1", story=script(room.folder, {"do": [{"say": "hi"}]}))
    connection = await room.connection("gate")
    answer = await connection.request(requests_subject("w1"), b"\xc1", 30)
    error = ACCEPTED_FORM.decode(answer).error
    assert error is not None
    assert "same version" in error.error().sentence
    assert error.public is not None
    assert "w1" not in error.public


async def test_a_model_that_a_worker_has_no_more_is_named_without_the_worker(room: Machines) -> None:
    running = await room.worker("w1", story=script(room.folder, {"do": [{"say": "hi"}]}))
    gateway = await room.gateway()
    assert running.worker.serving is not None
    running.worker.serving._offered = ()
    with pytest.raises(LanguageModelError, match="w1 has no model") as failed:
        await room.chat(gateway, "story").say("hello")
    assert failed.value.public == "There is no model 'story' any more."


async def test_an_index_that_cannot_be_read_costs_recognition_and_nothing_else(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.worker("w1", story=script(room.folder, {"do": [{"say": "hi"}]}))
    gateway = await room.gateway()

    async def fails(*_: object) -> list[str]:
        raise JournalStoreError("no index")

    fleet = gateway.get("story")._model._fleet  # type: ignore[attr-defined]
    monkeypatch.setattr(fleet.store, "hinted", fails)
    assert (await room.chat(gateway, "story").say("hello")).text == "hi"


async def test_an_error_of_the_model_keeps_its_kind(room: Machines) -> None:
    await room.worker(
        "w1", story=script(room.folder, {"do": [{"fail": "rate_limited", "message": "too fast"}]})
    )
    with pytest.raises(LanguageModelError, match="too fast") as failed:
        await room.chat(await room.gateway(), "story").say("hello")
    assert failed.value.kind == "rate_limited"


@pytest.mark.long
async def test_what_an_agent_offers_is_known_at_the_gateway(room: Machines) -> None:
    state = {
        "modes": {
            "currentModeId": "ask",
            "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "do", "name": "Do"}],
        }
    }
    await room.worker("w1", fake=fake(room.folder / "agent", state=state))
    gateway = await room.gateway()
    changed = asyncio.Event()
    gateway.watch_offers(lambda _: changed.set())
    await room.chat(gateway, "fake").do(["say", "Hello."])
    await soon(changed.wait())
    offering = gateway.offering("fake")
    assert offering is not None
    assert offering.offer.options
    assert await offering.look() == offering.offer
    with pytest.raises(LanguageModelError, match="another machine"):
        await offering.log_in("any")


async def test_a_stream_goes_on_when_nats_has_restarted(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "nats.conf"
    file.write_text(f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{tmp_path}/jetstream" }}\n')

    def start() -> subprocess.Popen[bytes]:
        with (tmp_path / "nats.log").open("ab") as log:
            return subprocess.Popen([PROGRAM, "-c", file], stdout=log, stderr=log)

    server = start()
    folder = tmp_path / "agent"
    try:
        await wait_for_port(port)
        async with AsyncExitStack() as stack:
            room = Machines(f"nats://127.0.0.1:{port}", tmp_path, stack)
            await make_streams(await room.connection("admin"), 1, None)
            running = await room.worker("w1", fake=fake(folder))
            chat = room.chat(await room.gateway(), "fake")
            going = chat.begin(
                user(prompt(["say", "One."], ["gate", "on"], ["say", " Two."], ["say", " Three."]))
            )
            await going.until(lambda heard: "One." in heard.text)
            server.kill()
            server.wait()
            await soon(until(lambda: not running.connection.is_connected))
            open_gate(folder, "on")
            server = start()
            assert (await going.end()).text == "One. Two. Three."
    finally:
        server.kill()
        server.wait()
