"""Gateways and workers in one process, for tests in which gateways are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from nats.js.api import PubAck

from dragoman.backends.remote.fleet import Fleet
from dragoman.config import Config, Serve
from dragoman.fleet.cancelling import GatewayCancels
from dragoman.fleet.lease import LeaseTimes, NodeLease
from dragoman.fleet.responses import JetStreamResponses
from dragoman.fleet.subjects import NODES
from dragoman.frontends.http.app import build_app
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.service import HttpService
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.journal.response_events import PartsReported, ResponseClosed
from dragoman.journal.writer import Journals
from dragoman.lm import TextPart
from dragoman.models import Models
from fake_agent.steps import prompt
from fleet.lossy import losing
from fleet.machines import Machines, RunningWorker, fake, machines
from http_server.background_kit import Reader, started
from http_server.kit import Json, Site

# A gateway that is gone does not renew its lease.
_SHORT = LeaseTimes(lease=4, renew=0.5, fence=3)


def quicken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits: a gateway that is gone is noticed after a second."""
    monkeypatch.setattr("dragoman.backends.remote.worker_streams.PING_SECONDS", 0.2)
    monkeypatch.setattr("dragoman.backends.remote.known_workers._REFRESH_SECONDS", 0.2)
    monkeypatch.setattr("dragoman.frontends.worker.serving.GATEWAY_SILENCE_SECONDS", 1.0)
    monkeypatch.setattr("dragoman.frontends.worker.serving._TICK_SECONDS", 0.1)


@dataclass
class GatewayHere:
    """A gateway in this process. One that is gone says nothing more."""

    site: Site
    models: Models
    store: JetStreamJournals
    is_gone: bool = False
    # What it says to workers is lost. It can still store.
    loses_receipts: bool = False

    @property
    def service(self) -> HttpService:
        return self.site.service

    async def events_of(self, id_: str) -> list[object]:
        return [entry.event for entry in await self.store.read(id_)]

    async def end_of(self, id_: str) -> ResponseClosed:
        """The end in the journal, as soon as there is one."""
        async for entry in self.store.follow(id_):
            if isinstance(entry.event, ResponseClosed):
                return entry.event
        raise AssertionError


@dataclass
class Takeovers:
    room: Machines
    gateways: list[GatewayHere] = field(default_factory=list)

    async def open(self, name: str) -> GatewayHere:
        def is_lost(subject: str, _data: bytes) -> bool:
            if gateway is None:
                return False
            return gateway.is_gone or (gateway.loses_receipts and subject.startswith(NODES))

        gateway: GatewayHere | None = None
        stack = self.room.stack
        connection = losing(is_lost)(await self.room.connection(name))
        put = connection.js.publish

        async def stored(*arguments: Any, **named: Any) -> PubAck:
            if gateway is not None and gateway.is_gone:
                raise TimeoutError
            return await put(*arguments, **named)

        connection.js.publish = stored  # type: ignore[method-assign]
        lease = NodeLease.held(connection, name, "gateway", times=_SHORT, lives_on=True)
        store = JetStreamJournals(connection, await stack.enter_async_context(lease))
        fleet = Fleet.on(connection, name, store)
        stack.push_async_callback(fleet.close)
        models = Models(Config(models={}), fleet=fleet)
        stack.push_async_callback(models.close)
        await fleet.workers.refresh()
        cancels = GatewayCancels(connection)
        service = HttpService(
            models, Serve(), JetStreamResponses(connection), Journals(store), gateways=cancels
        )
        fleet.workers.on_orphan = service.background.continue_orphan
        await stack.enter_async_context(cancels.taken(name, service.background.stop))
        site = Site(build_app(service, AccessCheck(())), service)
        gateway = GatewayHere(site, models, store)
        self.gateways.append(gateway)
        return gateway

    async def close(self) -> None:
        hurry = asyncio.Event()
        hurry.set()
        for each in self.gateways:
            each.is_gone = False
            await each.service.background.finish(0, hurry)


@asynccontextmanager
async def takeovers(folder: Path) -> AsyncIterator[Takeovers]:
    async with machines(folder) as room, AsyncExitStack() as stack:
        made = Takeovers(room)
        stack.push_async_callback(made.close)
        yield made


def id_of(reader: Reader) -> str:
    id_ = reader.events[0]["response"]["id"]
    assert isinstance(id_, str)
    return id_


def prompts_in(folder: Path) -> int:
    return (folder / "journal").read_text().count('"session/prompt"')


async def with_agent(place: Takeovers) -> tuple[RunningWorker, Path]:
    folder = place.room.folder / "agent"
    return await place.room.worker("w1", fake=fake(folder)), folder


def ask(gateway: GatewayHere, *steps: object, **fields: object) -> Reader:
    return started(gateway.site, model="fake", input=prompt(*steps), **fields)


async def until_stored(gateway: GatewayHere, id_: str, text: str) -> None:
    """Wait until the journal has a part with this text."""
    async for entry in gateway.store.follow(id_):
        if isinstance(entry.event, PartsReported) and TextPart(text) in entry.event.parts:
            return


async def until_ended(gateway: GatewayHere, id_: str) -> Json:
    while True:
        found = (await gateway.site.get(f"/v1/responses/{id_}")).response
        if found["status"] != "in_progress":
            return found
        await asyncio.sleep(0.05)
