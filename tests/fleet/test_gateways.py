"""Two gateways of a fleet, with a real NATS server: what a client began at one, it continues at the other."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from dragoman.config import Config, KeyConfig, Serve, client_keys
from dragoman.fleet.cancelling import GatewayCancels
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import LeaseTimes, NodeLease
from dragoman.fleet.responses import JetStreamResponses
from dragoman.fleet.streams import make_streams
from dragoman.frontends.http.app import build_app
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.service import HttpService
from dragoman.journal.event import JournalStarted
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JournalStore
from dragoman.journal.writer import Journals
from dragoman.lm import DataPart, GuardedModel
from dragoman.lm.json import encode
from dragoman.lm.parts import CONVERSATION
from dragoman.store import Database
from http_server.background_kit import Reader, Stepwise, started, text_of
from http_server.kit import Held, Json, Site, soon
from http_server.stream_check import check_events
from lm.providers import Provider
from nats_servers import nats_server

_PNG = b"\x89PNG\r\n" + bytes(range(256)) * 8_000
_KEYS = Config(keys={name: KeyConfig(key=f"secret-of-{name}-0123456789") for name in ("alice", "bob")})


class Gateways:
    """Gateways that share what they store. The model is the same at each.

    Journals are in JetStream, or in SQLite, with which several servers of one state folder do the same.
    """

    def __init__(self, folder: Path, url: str, stack: AsyncExitStack, *, is_fleet: bool) -> None:
        self.model = Stepwise()
        self.is_fleet = is_fleet
        self._folder = folder
        self._url = url
        self._stack = stack
        self._services: list[HttpService] = []

    async def open(
        self,
        name: str,
        *,
        with_keys: bool = False,
        listens: bool = True,
        times: LeaseTimes | None = None,
    ) -> Site:
        """A gateway. One that hangs listens no longer. Only `a` lives, of those that share a state folder."""
        connection = await self._stack.enter_async_context(FleetConnection.open((self._url,), name))
        cancels, responses = GatewayCancels(connection), JetStreamResponses(connection)
        store = await self._journals(connection, name, times)
        if isinstance(store, JetStreamJournals):
            store.on_deleted = responses.delete_of
        service = HttpService(
            Held(m=GuardedModel(Provider(self.model))),
            Serve(),
            responses,
            Journals(store),
            gateways=cancels,
        )
        self._services.append(service)
        if listens:
            # By this name the journal knows its owner.
            owner = name if self.is_fleet or name != "a" else str(os.getpid())
            await self._stack.enter_async_context(cancels.taken(owner, service.background.stop))
        return Site(build_app(service, AccessCheck(client_keys(_KEYS) if with_keys else ())), service)

    async def _journals(
        self, connection: FleetConnection, name: str, times: LeaseTimes | None
    ) -> JournalStore:
        if not self.is_fleet:
            database = self._stack.enter_context(Database.open(self._folder))
            return SqliteJournals(database, None if name == "a" else f"0 {name}")
        lease = NodeLease.held(connection, name, "gateway", times=times)
        return JetStreamJournals(connection, await self._stack.enter_async_context(lease))

    async def close(self) -> None:
        hurry = asyncio.Event()
        hurry.set()
        for service in self._services:
            await service.background.finish(0, hurry)


@pytest.fixture(params=["journals in jetstream", "journals in sqlite"])
async def gateways(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Gateways]:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(nats_server(tmp_path))
        connection = await stack.enter_async_context(FleetConnection.open((url,), "operator"))
        await make_streams(connection, 1, timedelta(days=30))
        is_fleet = request.param == "journals in jetstream"
        made = Gateways(tmp_path / "state", url, stack, is_fleet=is_fleet)
        try:
            yield made
        finally:
            await made.close()


@pytest.fixture
async def pair(gateways: Gateways) -> tuple[Site, Site]:
    return await gateways.open("a"), await gateways.open("b")


def _said(model: Stepwise) -> list[str]:
    return [message.text for message in model.requests[-1].messages]


async def _answer(gateways: Gateways, site: Site, text: str, **fields: object) -> Json:
    gateways.model.say(text, ends=True)
    return (await site.create(**fields)).response


async def test_a_response_is_continued_found_and_deleted_at_the_other_gateway(
    gateways: Gateways, pair: tuple[Site, Site]
) -> None:
    a, b = pair
    first = await _answer(gateways, a, "One.", input="first")
    second = await _answer(gateways, b, "Two.", input="second", previous_response_id=first["id"])
    assert _said(gateways.model) == ["first", "One.", "second"]
    await _answer(gateways, a, "Three.", input="third", previous_response_id=second["id"])
    assert _said(gateways.model) == ["first", "One.", "second", "Two.", "third"]
    path = f"/v1/responses/{first['id']}"
    assert (await b.get(path)).response == first
    (item,) = (await b.get(f"{path}/input_items")).json["data"]
    assert item["content"][0]["text"] == "first"
    assert (await b.call("DELETE", path, b"")).json["deleted"] is True
    assert (await a.get(path)).status == 404
    refused = await a.create(input="x", previous_response_id=second["id"])
    assert refused.error["code"] == "previous_response_not_found"


async def test_a_key_finds_nothing_of_another_key_at_any_gateway(gateways: Gateways) -> None:
    a = await gateways.open("a", with_keys=True)
    b = await gateways.open("b", with_keys=True)
    alice, bob = ({"authorization": f"Bearer {key.key}"} for key in _KEYS.keys.values())
    gateways.model.say("For Alice.", ends=True)
    response = (await a.post("/v1/responses", {"model": "m", "input": "x"}, **alice)).response
    path, item = f"/v1/responses/{response['id']}", response["output"][0]["id"]
    assert (await b.get(path, **alice)).response == response
    for site in (a, b):
        assert (await site.get(path, **bob)).status == 404
        body = {"model": "m", "input": "y", "previous_response_id": response["id"]}
        assert (await site.post("/v1/responses", body, **bob)).status == 400
        body = {"model": "m", "input": [{"type": "item_reference", "id": item}]}
        assert (await site.post("/v1/responses", body, **bob)).error["code"] == "item_not_found"


async def test_an_item_is_referred_to_at_the_other_gateway(
    gateways: Gateways, pair: tuple[Site, Site]
) -> None:
    a, b = pair
    first = await _answer(gateways, a, "The answer.", input="x")
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    question = {"type": "message", "role": "user", "content": "again"}
    await _answer(gateways, b, "Yes.", input=[reference, question])
    assert _said(gateways.model) == ["The answer.", "again"]


async def test_a_conversation_goes_on_at_the_other_gateway(
    gateways: Gateways, pair: tuple[Site, Site]
) -> None:
    a, b = pair
    said = {"type": "message", "role": "user", "content": "My name is Alice.", "id": "msg_alice"}
    more = {**said, "content": "I am here.", "id": "msg_here"}
    made = (await a.post("/v1/conversations", {"items": [said, more]})).json
    await _answer(gateways, b, "Hello, Alice.", input="hello", conversation=made["id"])
    await _answer(gateways, a, "Alice.", input="Who am I?", conversation=made["id"])
    assert _said(gateways.model) == ["My name is Alice.", "I am here.", "hello", "Hello, Alice.", "Who am I?"]
    # An item of the conversation, named elsewhere.
    await _answer(gateways, b, "Yes.", input=[{"id": "msg_alice"}])
    assert _said(gateways.model) == ["My name is Alice."]
    await a.call("DELETE", f"/v1/conversations/{made['id']}", b"")
    assert (await b.create(input=[{"id": "msg_here"}])).error["code"] == "item_not_found"
    # The response that named it has a copy.
    await _answer(gateways, b, "Still.", input=[{"id": "msg_alice"}])
    assert _said(gateways.model) == ["My name is Alice."]


async def test_a_file_is_fetched_and_sent_back_at_the_other_gateway(
    gateways: Gateways, pair: tuple[Site, Site]
) -> None:
    a, b = pair
    gateways.model.steps.put_nowait(DataPart("image/png", _PNG))
    gateways.model.say("There.", ends=True)
    asked = [{"role": "user", "content": "x"}]
    answered = await a.post("/v1/chat/completions", {"model": "m", "messages": asked})
    text = answered.json["choices"][0]["message"]["content"]
    (path,) = re.findall(r"\]\(http://[^/)]+(/v1/files/[^)]+)\)", text)
    fetched = await b.get(path)
    assert (fetched.status, b"".join(fetched.writes)) == (200, _PNG)
    gateways.model.say("I see.", ends=True)
    again = [*asked, {"role": "assistant", "content": text}, {"role": "user", "content": "y"}]
    await b.post("/v1/chat/completions", {"model": "m", "messages": again})
    assert DataPart("image/png", _PNG) in gateways.model.requests[-1].messages[1].content


async def test_a_background_response_is_followed_live_at_the_other_gateway(
    gateways: Gateways, pair: tuple[Site, Site]
) -> None:
    a, b = pair
    first = started(a)
    gateways.model.say("One ")
    await first.until_said("One ")
    path = f"/v1/responses/{first.events[0]['response']['id']}"
    reader = Reader(b, "GET", f"{path}?stream=true")
    await reader.until_said("One ")
    number = reader.events[-1]["sequence_number"]
    later = Reader(b, "GET", f"{path}?stream=true&starting_after={number}")
    assert (await b.get(path)).response["status"] == "in_progress"
    gateways.model.say("two.", ends=True)
    for each in (first, reader, later):
        await soon(each.task)
    assert reader.raw == first.raw
    assert [event["sequence_number"] for event in later.events] == list(
        range(number + 1, first.events[-1]["sequence_number"] + 1)
    )
    whole = check_events(first.events)
    assert (await b.get(path)).response == whole == (await a.get(path)).response
    await _answer(gateways, b, "Next.", input="y", previous_response_id=whole["id"])
    assert _said(gateways.model) == ["x", "One two.", "y"]


async def test_a_background_response_is_cancelled_at_the_other_gateway(
    gateways: Gateways, pair: tuple[Site, Site]
) -> None:
    a, b = pair
    first = started(a)
    gateways.model.say("One ")
    await first.until_said("One ")
    path = f"/v1/responses/{first.events[0]['response']['id']}"
    cancelled = (await soon(b.call("POST", f"{path}/cancel", b""))).response
    assert (cancelled["status"], text_of(cancelled)) == ("cancelled", "One ")
    assert gateways.model.was_cancelled
    await soon(first.task)
    for site in pair:
        assert (await site.get(path)).response == cancelled
        assert (await site.call("POST", f"{path}/cancel", b"")).response == cancelled


async def test_a_background_response_is_deleted_at_the_other_gateway_while_it_runs(
    gateways: Gateways, pair: tuple[Site, Site]
) -> None:
    a, b = pair
    first = started(a)
    report = encode({"conversation": "c1", "evidence": "none", "kind": "fresh"})
    gateways.model.steps.put_nowait(DataPart(CONVERSATION, report))
    gateways.model.say("One ")
    await first.until_said("One ")
    path = f"/v1/responses/{first.events[0]['response']['id']}"
    assert (await soon(b.call("DELETE", path, b""))).json["deleted"] is True
    assert gateways.model.was_cancelled
    await soon(first.task)
    for site in pair:
        assert (await site.get(path)).status == 404
        assert (await site.get(f"{path}?stream=true")).status == 404


async def test_a_background_response_whose_gateway_died_has_failed_and_says_so(
    gateways: Gateways, pair: tuple[Site, Site]
) -> None:
    _, b = pair
    # It does not renew its lease; its process does not live.
    dead = await gateways.open("dead", listens=False, times=LeaseTimes(lease=1, renew=3600, fence=0.9))
    first = started(dead)
    gateways.model.say("One ")
    await first.until_said("One ")
    path = f"/v1/responses/{first.events[0]['response']['id']}"
    reader = Reader(b, "GET", f"{path}?stream=true")
    await soon(reader.task)
    failed = check_events(reader.events)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_ended")
    assert (await b.call("POST", f"{path}/cancel", b"")).response == (await b.get(path)).response
    # The gateway that was taken for dead stops when it stores the next part, and says no other thing.
    gateways.model.say("two.")
    await soon(first.task)
    assert (await dead.get(path)).response == (await b.get(path)).response


async def test_a_gateway_that_does_not_stop_a_response_is_an_error_that_says_so(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.frontends.http.background._ELSEWHERE_SECONDS", 0.2)
    a, b = await gateways.open("a", listens=False), await gateways.open("b")
    first = started(a)
    gateways.model.say("One ")
    await first.until_said("One ")
    path = f"/v1/responses/{first.events[0]['response']['id']}"
    for refused in (await b.call("POST", f"{path}/cancel", b""), await b.call("DELETE", path, b"")):
        assert refused.status == 503
        assert "has not stopped it yet" in refused.error["message"]
    assert (await b.get(path)).response["status"] == "in_progress"


@pytest.mark.parametrize("gateways", ["journals in jetstream"], indirect=True)
async def test_with_an_agents_conversation_goes_what_clients_have_stored_of_it(
    gateways: Gateways, pair: tuple[Site, Site], tmp_path: Path
) -> None:
    a, b = pair
    store = b.service.background._journals.store
    assert store is not None
    await store.append("c1", 0, [(1.0, JournalStarted("agent", "m"))], holds=False)
    report = encode({"conversation": "c1", "evidence": "none", "kind": "fresh"})
    gateways.model.steps.put_nowait(DataPart(CONVERSATION, report))
    gateways.model.say("Answer-4711", ends=True)
    first = started(a)
    await soon(first.task)
    path = f"/v1/responses/{first.events[0]['response']['id']}"
    assert (await b.get(path)).status == 200
    assert await store.delete("c1")
    for site in pair:
        assert (await site.get(path)).status == 404
        assert (await site.get(f"{path}?stream=true")).status == 404
    found = [
        each.name for each in (tmp_path / "jetstream").rglob("*.blk") if b"Answer-4711" in each.read_bytes()
    ]
    assert found == []
