"""A gateway asks another one to cancel a background response."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.fleet.cancelling import GatewayCancels
from dragoman.fleet.connection import FleetConnection, Received
from dragoman.fleet.subjects import cancels_subject
from nats_servers import nats_server


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[FleetConnection, FleetConnection]]:
    async with (
        nats_server(tmp_path) as url,
        FleetConnection.open((url,), "a") as a,
        FleetConnection.open((url,), "b") as b,
    ):
        yield a, b


async def test_the_owner_gets_the_id_and_nobody_else_does(
    both: tuple[FleetConnection, FleetConnection],
) -> None:
    a, b = both
    taken: dict[str, list[str]] = {"a": [], "b": []}

    def of(gateway: str, id_: str) -> bool:
        taken[gateway].append(id_)
        return False

    async with (
        GatewayCancels(a).taken("a", lambda id_: of("a", id_)),
        GatewayCancels(b).taken("b", lambda id_: of("b", id_)),
    ):
        await GatewayCancels(b).cancel("a", "resp_1")
        await GatewayCancels(a).cancel("b", "resp_2")
    assert taken == {"a": ["resp_1"], "b": ["resp_2"]}


async def test_one_that_connects_again_is_asked_again(
    both: tuple[FleetConnection, FleetConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = both
    taken: list[str] = []
    asked = asyncio.Event()
    publish = b.publish

    async def noted(subject: str, data: bytes, reply: str = "", *_: object) -> None:
        await publish(subject, data, reply)
        asked.set()

    monkeypatch.setattr(b, "publish", noted)
    cancelling = asyncio.create_task(GatewayCancels(b).cancel("a", "resp_1"))
    await asked.wait()

    def take(id_: str) -> bool:
        taken.append(id_)
        return True

    async with GatewayCancels(a).taken("a", take):
        await cancelling
    assert taken == ["resp_1"]


async def test_one_that_is_gone_is_named_in_the_log(
    both: tuple[FleetConnection, FleetConnection],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("dragoman.fleet.cancelling._ABSENT_SECONDS", 0.0)
    _, b = both
    await GatewayCancels(b).cancel("a", "resp_1")
    assert "a does not answer: resp_1 cannot be cancelled there" in caplog.text
    # No name of a node: an owner that is no gateway.
    await GatewayCancels(b).cancel("a b.*", "resp_1")


async def test_one_that_hangs_is_asked_again(
    both: tuple[FleetConnection, FleetConnection],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("dragoman.fleet.cancelling._ANSWER_SECONDS", 0.05)
    a, b = both
    asked: asyncio.Queue[bytes] = asyncio.Queue()

    async def hang(received: Received) -> None:
        asked.put_nowait(received.data)

    await a.subscribe(cancels_subject("a"), hang)
    await a.flush()
    await GatewayCancels(b).cancel("a", "resp_1")
    assert [await asked.get() for _ in range(3)] == [b"resp_1"] * 3
    assert "a does not answer" in caplog.text
