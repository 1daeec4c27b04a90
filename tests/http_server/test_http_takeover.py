"""A background response of a model that runs elsewhere: another server continues it from the last stored position."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dragoman.journal.response_events import PartsReported
from dragoman.lm import CancellationToken, DataPart, GuardedModel, Part, Sink, TextPart, UsagePart
from dragoman.lm.parts import POSITION
from http_server.background_kit import Reader, Stepwise, started, text_of
from http_server.kit import Held, Site, site_of, soon
from http_server.stream_check import check_events
from lm.providers import Provider


class Elsewhere(Provider):
    """A model that runs on. `rest` is what it has said after each position."""

    def __init__(self, body: Stepwise, rest: dict[str, list[Part]]) -> None:
        super().__init__(body)
        self._rest = rest
        self.kept: list[str] = []
        self.stored_positions: list[str] = []
        self.released: list[str] = []
        self.resumed: list[str] = []
        self._news = asyncio.Event()

    def keep(self, response_id: str) -> None:
        self.kept.append(response_id)

    def stored(self, response_id: str, position: str) -> None:
        assert response_id in self.kept
        self.stored_positions.append(position)
        self._news.set()

    async def until_stored(self, position: str) -> None:
        while position not in self.stored_positions:
            self._news.clear()
            await self._news.wait()

    def release(self, response_id: str) -> None:
        assert response_id in self.kept
        self.released.append("released")

    def hand_over(self, response_id: str) -> None:
        assert response_id in self.kept
        self.released.append("handed over")

    async def resume(self, response_id: str, position: str, sink: Sink, token: CancellationToken) -> None:
        self.kept.append(response_id)
        self.resumed.append(position)
        sink.report(_position(position))
        for part in self._rest[position]:
            sink.report(part)
            await sink.drain()
        assert not token.is_cancelled


def _position(text: str) -> DataPart:
    return DataPart(POSITION, text.encode())


def _site(stack: ExitStack, folder: Path, model: Elsewhere, owner: str | None = None) -> Site:
    models = Held(m=GuardedModel(model))
    return stack.enter_context(contextmanager(site_of)(models, store=folder, owner=owner))


async def _begun(site: Site, body: Stepwise, *parts: Part) -> Reader:
    """A response that has said this."""
    first = started(site)
    for part in parts:
        body.steps.put_nowait(part)
    texts = [part.value for part in parts if isinstance(part, TextPart)]
    await first.until_said(texts[-1])
    return first


async def test_j4_a_response_goes_on_after_the_last_stored_position_with_its_usage(tmp_path: Path) -> None:
    body = Stepwise()
    model = Elsewhere(body, {"p1": [TextPart("two "), TextPart("three.")]})
    with ExitStack() as stack:
        # A process that does not live, as another one sees it.
        dead = _site(stack, tmp_path, model, owner="0 dead")
        parts = (_position("p0"), TextPart("One "), UsagePart(3, 4), _position("p1"), TextPart("two "))
        first = await _begun(dead, body, *parts)
        await soon(model.until_stored("p1"))
        path = f"/v1/responses/{first.events[0]['response']['id']}"
        other = _site(stack, tmp_path, model)
        reader = Reader(other, "GET", f"{path}?stream=true")
        await soon(reader.task)
        response = check_events(reader.events)
        # "two " was said and not stored: it comes once all the same.
        assert (response["status"], text_of(response)) == ("completed", "One two three.")
        assert response["usage"]["total_tokens"] == 7
        assert model.resumed == ["p1"]
        assert (await other.get(path)).response == response
        # What the first client has are the first events of the same stream.
        assert first.events == reader.events[: len(first.events)]
        body.steps.put_nowait(None)
        await soon(first.task)
        # The former owner has lost it. Its client gets the same to the end.
        assert (await dead.get(path)).response == response
        assert first.events == reader.events


async def test_j4_nothing_after_a_position_is_stored_before_the_next_one(tmp_path: Path) -> None:
    body = Stepwise()
    model = Elsewhere(body, {"p1": [TextPart("two. ")]})
    with ExitStack() as stack:
        dead = _site(stack, tmp_path, model, owner="0 dead")
        long = TextPart("x" * 100_000)
        first = await _begun(dead, body, _position("p0"), TextPart("One "), _position("p1"), long)
        await soon(model.until_stored("p1"))
        other = _site(stack, tmp_path, model)
        reader = Reader(other, "GET", f"/v1/responses/{first.events[0]['response']['id']}?stream=true")
        await soon(reader.task)
        assert text_of(check_events(reader.events)) == "One two. "
        body.steps.put_nowait(None)
        await soon(first.task)


async def test_j4_a_server_that_ends_hands_over_what_another_can_continue(tmp_path: Path) -> None:
    body = Stepwise()
    model = Elsewhere(body, {"p1": [TextPart("two.")]})
    with ExitStack() as stack:
        one = _site(stack, tmp_path, model)
        first = await _begun(one, body, _position("p0"), TextPart("One "), _position("p1"))
        await soon(model.until_stored("p1"))
        hurry = asyncio.Event()
        hurry.set()
        await soon(one.service.background.finish(30, hurry))
        assert model.released == ["handed over", "released"]
        assert model.resumed == []
        # A server that ends adopts nothing, not even that.
        assert not await one.service.background.continue_orphan(first.events[0]["response"]["id"])
        other = _site(stack, tmp_path, model, owner="0 other")
        reader = Reader(other, "GET", f"/v1/responses/{first.events[0]['response']['id']}?stream=true")
        await soon(reader.task)
        assert text_of(check_events(reader.events)) == "One two."
        assert model.resumed == ["p1"]


async def test_j4_the_model_keeps_nothing_that_no_journal_has(tmp_path: Path) -> None:
    body = Stepwise()
    model = Elsewhere(body, {})
    with ExitStack() as stack:
        models = Held(m=GuardedModel(model))
        site = stack.enter_context(contextmanager(site_of)(models, store=tmp_path, content="metadata"))
        first = await _begun(site, body, _position("p0"), TextPart("One "), _position("p1"))
        body.steps.put_nowait(None)
        await soon(first.task)
        assert text_of(check_events(first.events)) == "One "
        assert model.kept == model.stored_positions == []


async def test_j4_batches_without_shown_parts_do_not_cost_an_append_each(tmp_path: Path) -> None:
    body = Stepwise()
    model = Elsewhere(body, {})
    with ExitStack() as stack:
        site = _site(stack, tmp_path, model)
        first = await _begun(site, body, _position("p0"), TextPart("One "), _position("p1"))
        for number in range(50):
            body.steps.put_nowait(UsagePart(number, 1))
            body.steps.put_nowait(_position(f"u{number}"))
        body.steps.put_nowait(None)
        await soon(first.task)
        store = site.service._journals.store
        assert store is not None
        events = [each.event for each in await store.read(first.events[0]["response"]["id"])]
        # The first position, and then every half a second.
        assert sum(isinstance(each, PartsReported) for each in events) < 10
