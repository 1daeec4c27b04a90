"""J4: background responses: they run without their client, and their streams resume."""

import asyncio
import logging
import os
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Serve
from dragoman.frontends.http.wire import framed
from dragoman.journal.agent_events import TextSaid
from dragoman.journal.event import JournalStarted
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JournalStoreError
from dragoman.lm import (
    DataPart,
    GuardedModel,
    LanguageModelError,
    ThinkingPart,
    ToolCallPart,
)
from dragoman.lm.json import encode
from dragoman.lm.parts import CONVERSATION
from dragoman.store import Database, SqliteResponses, StoreError
from http_server.background_kit import Reader, Stepwise, started, text_of
from http_server.kit import TOOL, Held, Json, Site, site_of, soon
from http_server.stream_check import check_events, check_resource
from lm.providers import Provider

_DONE = b"data: [DONE]\n\n"


class Place:
    """A state folder, and the sites that share it as processes do."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.model = Stepwise()
        self._stack = stack
        self._made: list[Site] = []

    def site(self, **options: Any) -> Site:
        models = Held(m=GuardedModel(Provider(self.model)))
        made = self._stack.enter_context(contextmanager(site_of)(models, store=self.folder, **options))
        self._made.append(made)
        return made

    async def close(self) -> None:
        hurry = asyncio.Event()
        hurry.set()
        for site in self._made:
            await site.service.background.finish(0, hurry)


@asynccontextmanager
async def _place(folder: Path) -> AsyncIterator[Place]:
    with ExitStack() as stack:
        place = Place(folder, stack)
        try:
            yield place
        finally:
            await place.close()


async def _ended(site: Site, id_: str) -> Json:
    """The response when it has ended: by its stream, which ends with it."""
    await soon(Reader(site, "GET", f"/v1/responses/{id_}?stream=true").task)
    return (await site.get(f"/v1/responses/{id_}")).response


async def test_j4_a_background_response_is_returned_at_once_and_read_while_it_runs(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        begun = (await site.create(input="x", background=True)).response
        assert (begun["status"], begun["background"], begun["output"]) == ("in_progress", True, [])
        path = f"/v1/responses/{begun['id']}"
        reader = Reader(site, "GET", f"{path}?stream=true")
        place.model.say("One ", "two ")
        await reader.until_said("two ")
        now = (await site.get(path)).response
        assert (now["status"], text_of(now)) == ("in_progress", "One two ")
        assert now["output"][0]["status"] == "in_progress"
        (item,) = (await site.get(f"{path}/input_items")).json["data"]
        assert item["content"][0]["text"] == "x"
        refused = await site.create(input="y", previous_response_id=begun["id"])
        assert refused.error["code"] == "previous_response_not_completed"
        assert f"Wait until `GET {path}` says `completed`" in refused.error["message"]
        place.model.say("three.", ends=True)
        streamed = check_events((await soon(reader.task)).data)
        whole = (await site.get(path)).response
        assert whole == streamed
        assert (whole["status"], text_of(whole), whole["background"]) == ("completed", "One two three.", True)
        # It is a stored response like any other.
        place.model.say("Next.", ends=True)
        after = (await site.create(input="y", previous_response_id=begun["id"])).response
        assert text_of(after) == "Next."


@pytest.mark.parametrize("stream", ["maybe", "2", "truefalse"])
async def test_j4_stream_is_true_or_false(tmp_path: Path, stream: str) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        place.model.say("Yes.", ends=True)
        first = started(site)
        await soon(first.task)
        path = f"/v1/responses/{first.events[0]['response']['id']}"
        refused = await site.get(f"{path}?stream={stream}")
        assert (refused.status, refused.error["param"]) == (400, "stream")
        for no in ("false", "False", "0"):
            assert (await site.get(f"{path}?stream={no}")).response["status"] == "completed"
        for yes in ("true", "True", "1"):
            assert check_events((await site.get(f"{path}?stream={yes}")).data)["status"] == "completed"


async def test_j4_a_client_that_disconnects_cancels_nothing(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        reader = started(site)
        place.model.say("One ")
        await reader.until_said("One ")
        reader.leave.set()
        await soon(reader.task)
        assert not reader.raw.endswith(_DONE)
        place.model.say("two.", ends=True)
        whole = await _ended(site, reader.events[0]["response"]["id"])
        assert (whole["status"], text_of(whole)) == ("completed", "One two.")
        assert not place.model.was_cancelled


async def test_j4_a_stream_resumes_with_exactly_the_missing_events(tmp_path: Path) -> None:
    """From each number: while the first reader still reads, after the end, and in another process."""
    async with _place(tmp_path) as place:
        site = place.site()
        first = started(site, tools=[TOOL])
        model = place.model
        model.steps.put_nowait(ThinkingPart("Hm."))
        model.say("One ", "two ")
        await first.until_said("two ")
        path = f"/v1/responses/{first.events[0]['response']['id']}?stream=true"
        live = [
            Reader(site, "GET", f"{path}&starting_after={event['sequence_number']}") for event in first.events
        ]
        model.say("three.")
        model.steps.put_nowait(ToolCallPart("call-1", "look", {"word": "a"}))
        model.say(ends=True)
        await soon(first.task)
        check_events(first.events)
        for place_, reader in enumerate(live):
            await soon(reader.task)
            assert reader.events == first.events[place_ + 1 :]
        assert await _all_resumed(site, path, first) == len(first.events)
        # Another process, which has only the database.
        assert await _all_resumed(place.site(owner="0 another"), path, first) == len(first.events)


async def test_j4_a_response_is_replayed_as_it_was_opened_whatever_the_setting_is_now(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site(serve=Serve(reasoning_events="spec"))
        first = started(site)
        place.model.steps.put_nowait(ThinkingPart("Hm."))
        place.model.say("Yes.", ends=True)
        opened = check_events((await soon(first.task)).data)
        again = Reader(place.site(owner="another"), "GET", f"/v1/responses/{opened['id']}?stream=true")
        await soon(again.task)
        assert again.raw == first.raw
        assert "response.reasoning.delta" in [event["type"] for event in again.events]


async def _all_resumed(site: Site, path: str, first: Reader) -> int:
    """How many numbers a stream was resumed after. Each time the bytes were those of the first stream."""
    frames = [framed(event) for event in first.events]
    assert first.raw == b"".join(frames) + _DONE
    assert b"".join((await site.get(path)).writes) == first.raw
    for number in range(len(frames)):
        resumed = await site.get(f"{path}&starting_after={number}")
        assert b"".join(resumed.writes) == b"".join(frames[number + 1 :]) + _DONE
    return len(frames)


async def test_j4_a_response_is_cancelled_by_its_id(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        reader = started(site)
        place.model.say("One ")
        await reader.until_said("One ")
        path = f"/v1/responses/{reader.events[0]['response']['id']}"
        cancelled = (await site.call("POST", f"{path}/cancel", b"")).response
        assert (cancelled["status"], text_of(cancelled)) == ("cancelled", "One ")
        assert place.model.was_cancelled
        await soon(reader.task)
        assert reader.events[-1]["response"] == cancelled
        assert reader.raw.endswith(_DONE)
        # Again, and in another process: it is returned.
        assert (await site.call("POST", f"{path}/cancel", b"")).response == cancelled
        other = place.site(owner="0 another")
        assert (await other.call("POST", f"{path}/cancel", b"")).response == cancelled
        assert (await other.get(path)).response == cancelled
        metrics = (await site.get("/metrics")).writes[0]
        assert b'outcome="cancelled"} 1' in metrics


async def test_j4_only_background_responses_are_cancelled_and_streamed_by_their_id(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        place.model.say("One.", ends=True)
        path = f"/v1/responses/{(await site.create(input='x')).response['id']}"
        refused = await site.call("POST", f"{path}/cancel", b"")
        assert (refused.status, refused.error["code"]) == (400, "response_not_cancellable")
        refused = await site.get(f"{path}?stream=true")
        assert (refused.status, refused.error["param"]) == (400, "stream")
        assert "`background: true`" in refused.error["message"]


@pytest.mark.parametrize(
    "query", ["stream=true&starting_after=x", "stream=true&starting_after=-1", "starting_after=3"]
)
async def test_j4_a_number_that_is_none_is_refused(tmp_path: Path, query: str) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        place.model.say("One.", ends=True)
        path = f"/v1/responses/{(await site.create(input='x', background=True)).response['id']}"
        assert (await site.get(f"{path}?{query}")).error["param"] == "starting_after"


async def test_j4_a_failure_is_a_response_that_failed_also_before_the_first_part(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        place.model.steps.put_nowait(LanguageModelError("unavailable", "Not now."))
        begun = (await site.create(input="x", background=True)).response
        failed = await _ended(site, begun["id"])
        assert (failed["status"], failed["error"]) == (
            "failed",
            {"code": "unavailable", "message": "Not now."},
        )
        other = place.site(owner="0 another")
        assert (await other.get(f"/v1/responses/{begun['id']}")).response == failed
        events = (await other.get(f"/v1/responses/{begun['id']}?stream=true")).data
        assert check_events(events) == failed


async def test_j4_a_process_that_died_leaves_a_response_that_failed(tmp_path: Path) -> None:
    """The first site stands for a process that was killed: its name is that of no process, and it stores no end."""
    async with _place(tmp_path) as place:
        dead = place.site(owner="0 dead")
        reader = started(dead)
        place.model.say("One ")
        await reader.until_said("One ")
        path = f"/v1/responses/{reader.events[0]['response']['id']}"
        follow = Reader(place.site(owner="0 fourth"), "GET", f"{path}?stream=true")
        await soon(follow.task)
        failed = follow.events[-1]["response"]
        check_resource(failed)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "server_ended")
        assert "The server ended before the response did" in failed["error"]["message"]
        # A client that had more events than were stored still gets the end.
        later = place.site(owner="0 fifth")
        number = 40
        resumed = (await later.get(f"{path}?stream=true&starting_after={number}")).data
        assert resumed[-1]["type"] == "response.failed"
        assert [event["sequence_number"] for event in resumed] == list(
            range(number + 1, number + 1 + len(resumed))
        )
        assert (await later.get(path)).response == failed
        # The process that was taken for dead stops, and says no other thing.
        await soon(reader.task)
        assert reader.events[-1]["response"]["error"] == failed["error"]
        assert (await dead.get(path)).response == failed


async def test_j4_another_process_that_lives_is_followed(tmp_path: Path) -> None:
    """The response is held by a process that lives: this one, under its own name."""
    async with _place(tmp_path) as place:
        site, other = place.site(), place.site(owner="0 another")
        first = started(site)
        place.model.say("One ")
        await first.until_said("One ")
        path = f"/v1/responses/{first.events[0]['response']['id']}"
        reader = Reader(other, "GET", f"{path}?stream=true")
        await reader.until_said("One ")
        now = (await other.get(path)).response
        assert (now["status"], text_of(now)) == ("in_progress", "One ")
        refused = await other.call("POST", f"{path}/cancel", b"")
        assert (refused.status, refused.error["code"]) == (409, "runs_elsewhere")
        assert (await other.call("DELETE", path, b"")).status == 409
        place.model.say("two.", ends=True)
        await soon(reader.task)
        await soon(first.task)
        assert reader.raw == first.raw


@pytest.mark.parametrize("content", ["metadata", "off"])
async def test_j4_without_stored_content_streams_resume_only_from_memory(
    tmp_path: Path, content: str
) -> None:
    async with _place(tmp_path) as place:
        site = place.site(content=content)
        first = started(site)
        place.model.say("A secret word", ends=True)
        await soon(first.task)
        whole = check_events(first.events)
        path = f"/v1/responses/{whole['id']}"
        assert b"".join((await site.get(f"{path}?stream=true")).writes) == first.raw
        other = place.site(content=content, owner="0 another")
        assert (await other.get(path)).status == 404
        assert (await other.get(f"{path}?stream=true")).status == 404
        assert not _in_files(tmp_path, b"secret")
        store = site.service.background._journals.store
        if store is not None:
            stored = str(await store.read(whole["id"]))
            assert "response" in stored


@pytest.mark.parametrize("content", ["metadata", "off"])
async def test_j4_without_stored_content_events_beyond_what_memory_has_are_refused(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of memory is small here. The response itself is still there."""
    monkeypatch.setattr("dragoman.frontends.http.background_run._MEMORY_BYTES", 1_000)
    async with _place(tmp_path) as place:
        site = place.site(content=content)
        first = started(site)
        place.model.say(*(f"{number} " * 20 for number in range(30)), ends=True)
        await soon(first.task)
        whole = check_events(first.events)
        path = f"/v1/responses/{whole['id']}"
        refused = await site.get(f"{path}?stream=true")
        assert (refused.status, refused.error["code"]) == (400, "events_not_stored")
        assert "[journal]" in refused.error["message"]
        assert (await site.get(path)).response == whole
        place.model.say("Next.", ends=True)
        after = (await site.create(input="y", previous_response_id=whole["id"])).response
        assert text_of(after) == "Next."


async def test_j4_background_needs_a_store_and_has_a_limit(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        refused = await place.site(serve=Serve(store=False)).create(input="x", background=True)
        assert (refused.status, refused.error["param"]) == (400, "background")
        refused = await place.site().create(input="x", background=True, store=False)
        assert (refused.status, refused.error["param"]) == (400, "background")
        site = place.site(serve=Serve(max_responses=1))
        begun = (await site.create(input="x", background=True)).response
        assert (await site.create(input="x", background=True)).status == 429
        await site.call("POST", f"/v1/responses/{begun['id']}/cancel", b"")
        place.model.say("Yes.", ends=True)
        assert (await site.create(input="x")).status == 200


async def test_j4_a_server_that_ends_waits_and_then_records_a_failure(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        reader = started(site)
        place.model.say("One ")
        await reader.until_said("One ")
        hurry = asyncio.Event()
        finishing = asyncio.create_task(site.service.background.finish(3_600, hurry))
        quick = (await site.create(input="y", background=True)).response
        hurry.set()
        await soon(finishing)
        await soon(reader.task)
        failed = reader.events[-1]["response"]
        assert (failed["status"], failed["error"]["code"], text_of(failed)) == (
            "failed",
            "server_ended",
            "One ",
        )
        other = place.site(owner="0 another")
        for id_ in (failed["id"], quick["id"]):
            assert (await other.get(f"/v1/responses/{id_}")).response["status"] == "failed"
        # Without anything under way it returns at once; with something that ends in time, nothing fails.
        begun = (await site.create(input="z", background=True)).response
        finishing = asyncio.create_task(site.service.background.finish(3_600, asyncio.Event()))
        place.model.say("Done.", ends=True)
        await soon(finishing)
        assert (await other.get(f"/v1/responses/{begun['id']}")).response["status"] == "completed"


async def test_j4_nothing_of_a_background_response_is_told_to_another_key(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site(keys=("one", "two"))
        path = f"/v1/responses/{(await site.create(input='x', background=True)).response['id']}"
        other = {"authorization": "Bearer two"}
        assert (await site.get(path, **other)).status == 404
        assert (await site.get(f"{path}?stream=true", **other)).status == 404
        assert (await site.call("POST", f"{path}/cancel", b"", other)).status == 404
        assert (await site.call("DELETE", path, b"", other)).status == 404
        assert not place.model.was_cancelled


@pytest.mark.parametrize("is_running", [True, False])
async def test_j4_what_is_deleted_is_in_no_file(tmp_path: Path, is_running: bool) -> None:  # noqa: FBT001
    async with _place(tmp_path) as place:
        site = place.site()
        reader = started(site, input="Question-4711")
        place.model.say("Answer-", "0815", ends=not is_running)
        await reader.until_said("0815")
        if not is_running:
            await soon(reader.task)
        path = f"/v1/responses/{reader.events[0]['response']['id']}"
        if not is_running:
            assert _in_files(tmp_path, b"Question-4711")
            assert _in_files(tmp_path, b"Answer-")
        assert (await site.call("DELETE", path, b"")).json["deleted"] is True
        await soon(reader.task)
        assert (await site.get(path)).status == 404
        assert (await site.get(f"{path}?stream=true")).status == 404
        for word in (b"Question-4711", b"Answer-", b"0815"):
            assert not _in_files(tmp_path, word)


def _in_files(folder: Path, word: bytes) -> bool:
    files = [Path(root) / name for root, _, names in os.walk(folder) for name in names]
    assert any(file.name.endswith("-wal") for file in files)
    return any(word in file.read_bytes() for file in files)


async def test_j4_a_long_response_resumes_beyond_what_memory_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of memory is small here, so that the first parts are read from the journal."""
    monkeypatch.setattr("dragoman.frontends.http.background_run._MEMORY_BYTES", 10_000)
    monkeypatch.setattr("dragoman.frontends.http.background_run._BATCH_BYTES", 2_000)
    async with _place(tmp_path) as place:
        site = place.site()
        first = started(site)
        place.model.say(*(f"{number} " * 20 for number in range(300)))
        await first.until_said("299 " * 20)
        run = site.service.background._running[first.events[0]["response"]["id"]]
        assert run._window.first > 0
        late = Reader(site, "GET", f"/v1/responses/{run.id}?stream=true")
        await late.until_said("299 " * 20)
        place.model.say(ends=True)
        await soon(first.task)
        await soon(late.task)
        assert late.events == first.events
        check_events(first.events)


async def test_j4_a_silent_response_keeps_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.frontends.http.background_run.RENEW_SECONDS", 0)
    monkeypatch.setattr("dragoman.frontends.http.background_run._BATCH_SECONDS", 0.01)
    async with _place(tmp_path) as place:
        site = place.site()
        store = site.service.background._journals.store
        assert store is not None
        renewed = asyncio.Event()
        renew = store.renew

        async def renewing() -> None:
            await renew()
            renewed.set()

        monkeypatch.setattr(store, "renew", renewing)
        await site.create(input="x", background=True)
        await soon(renewed.wait())


async def test_j4_a_response_whose_journal_has_no_end_is_returned_and_not_streamed(tmp_path: Path) -> None:
    """The store fails when the end is written; the response itself is stored."""
    async with _place(tmp_path) as place:
        site = place.site()
        first = started(site)
        place.model.say("One ")
        await first.until_said("One ")
        store = site.service.background._journals.store
        assert isinstance(store, SqliteJournals)

        async def fails(*_arguments: object, **_named: object) -> int:
            raise JournalStoreError("The disk is full.")

        store.append = fails  # type: ignore[method-assign] # the store as it is when the disk is full
        place.model.say("two.", ends=True)
        await soon(first.task)
        whole = check_events(first.events)
        path = f"/v1/responses/{whole['id']}"
        # This process has the parts; another one has only what is stored.
        assert b"".join((await site.get(f"{path}?stream=true")).writes) == first.raw
        other = place.site(owner="0 another")
        assert (await other.get(path)).response == whole
        assert (await other.get(f"{path}?stream=true")).error["code"] == "events_not_stored"


async def test_j4_a_response_that_completed_while_the_store_failed_did_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the end of the journal nor the response could be written. This process still knows both."""
    async with _place(tmp_path) as place:
        site = place.site()
        first = started(site)
        place.model.say("One ")
        await first.until_said("One ")
        store = site.service.background._journals.store
        assert isinstance(store, SqliteJournals)

        async def fails(*_arguments: object, **_named: object) -> int:
            raise JournalStoreError("The disk is full.")

        async def fails_too(*_arguments: object) -> None:
            raise StoreError(tmp_path, "The disk is full.", "Make room.")

        with monkeypatch.context() as patch:
            patch.setattr(store, "append", fails)
            patch.setattr(SqliteResponses, "update", fails_too)
            place.model.say("two.", ends=True)
            await soon(first.task)
            whole = check_events(first.events)
            path = f"/v1/responses/{whole['id']}"
            assert whole["status"] == "completed"
            assert (await site.get(path)).response == whole
        # The store works again: the next look stores the response, and the conversation goes on from it.
        assert (await site.get(path)).response == whole
        assert (await place.site(owner="0 another").get(path)).response == whole
        place.model.say("Next.", ends=True)
        assert (await site.create(input="y", previous_response_id=whole["id"])).status == 200


async def test_j4_a_client_that_follows_another_process_does_not_make_it_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look reads. A claim is a write, for which other processes wait; one at the beginning is enough."""
    monkeypatch.setattr("dragoman.frontends.http.response_journals._LOOK_SECONDS", 0)
    monkeypatch.setattr("dragoman.journal.sqlite.journals._LOOK_SECONDS", 0)
    async with _place(tmp_path) as place:
        site, other = place.site(), place.site(owner="0 another")
        first = started(site)
        place.model.say("One ")
        await first.until_said("One ")
        store = other.service.background._journals.store
        assert store is not None
        looks, claims = 0, 0
        has_looked = asyncio.Event()
        read, claim = store.read, store.claim

        async def reading(*arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            if looks >= 20:
                has_looked.set()
            return await read(*arguments)

        async def claiming(*arguments: Any) -> Any:
            nonlocal claims
            claims += 1
            return await claim(*arguments)

        monkeypatch.setattr(store, "read", reading)
        monkeypatch.setattr(store, "claim", claiming)
        reader = Reader(other, "GET", f"/v1/responses/{first.events[0]['response']['id']}?stream=true")
        await soon(has_looked.wait())
        assert claims <= 1
        # A process that hangs no longer renews its lease: after that time, the follower claims again.
        monkeypatch.setattr("dragoman.frontends.http.response_journals.JOURNAL_LEASE_SECONDS", 0)
        has_looked.clear()
        looks = 0
        await soon(has_looked.wait())
        assert claims > 1
        place.model.say("two.", ends=True)
        await soon(reader.task)
        await soon(first.task)
        assert reader.raw == first.raw


async def test_j4_deleting_an_agents_conversation_deletes_the_events_of_its_responses(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        store = site.service.background._journals.store
        assert store is not None
        await store.append("c1", 0, [(1.0, JournalStarted("agent", "m"))], holds=False)
        report = encode({"conversation": "c1", "evidence": "none", "kind": "fresh"})
        place.model.steps.put_nowait(DataPart(CONVERSATION, report))
        place.model.say("Answer-4711", ends=True)
        first = started(site)
        await soon(first.task)
        path = f"/v1/responses/{first.events[0]['response']['id']}"
        assert _in_files(tmp_path, b"Answer-4711")
        assert await store.delete("c1")
        assert (await site.get(path)).status == 404
        assert (await site.get(f"{path}?stream=true")).status == 404
        assert not _in_files(tmp_path, b"Answer-4711")


async def test_j4_the_last_response_takes_its_agents_conversation_with_it(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        site = place.site()
        store = site.service.background._journals.store
        assert store is not None
        await store.append("c1", 0, [(1.0, JournalStarted("agent", "m"))], holds=False)
        report = encode({"conversation": "c1", "evidence": "none", "kind": "fresh"})
        ids = []
        for _ in range(2):
            place.model.steps.put_nowait(DataPart(CONVERSATION, report))
            place.model.say("Yes.", ends=True)
            first = started(site)
            await soon(first.task)
            ids.append(first.events[0]["response"]["id"])
        await site.call("DELETE", f"/v1/responses/{ids[0]}", b"")
        assert await store.find("c1") is not None
        await site.call("DELETE", f"/v1/responses/{ids[1]}", b"")
        assert await store.find("c1") is None


async def test_j4_deleting_waits_until_the_agent_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A cancelled agent holds its conversation for a moment. It is deleted then, and a deletion is no warning."""
    async with _place(tmp_path) as place:
        site = place.site()
        store = site.service.background._journals.store
        assert store is not None
        said = TextSaid(1, 0, 11, "Answer-4711")
        await store.append("c1", 0, [(1.0, JournalStarted("agent", "m")), (1.0, said)], holds=True)
        report = encode({"conversation": "c1", "evidence": "none", "kind": "fresh"})
        place.model.steps.put_nowait(DataPart(CONVERSATION, report))
        place.model.say("One ")
        first = started(site)
        await first.until_said("One ")
        has_looked = asyncio.Event()
        find = store.find

        async def finding(journal: str) -> Any:
            if journal == "c1":
                has_looked.set()
            return await find(journal)

        monkeypatch.setattr(store, "find", finding)
        path = f"/v1/responses/{first.events[0]['response']['id']}"
        deleting = asyncio.create_task(site.call("DELETE", path, b""))
        await asyncio.wait({deleting, asyncio.create_task(has_looked.wait())}, return_when=FIRST_COMPLETED)
        assert not deleting.done()
        await store.release("c1")
        assert (await soon(deleting)).json["deleted"] is True
        assert await find("c1") is None
        assert not _in_files(tmp_path, b"Answer-4711")
        await soon(first.task)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_j4_a_conversation_that_stays_in_use_is_named_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dragoman.frontends.http.background._STOP_SECONDS", 0)
    async with _place(tmp_path) as place:
        site = place.site()
        store = site.service.background._journals.store
        assert store is not None
        await store.append("c1", 0, [(1.0, JournalStarted("agent", "m"))], holds=True)
        report = encode({"conversation": "c1", "evidence": "none", "kind": "fresh"})
        place.model.steps.put_nowait(DataPart(CONVERSATION, report))
        place.model.say("One.", ends=True)
        first = started(site)
        await soon(first.task)
        await site.call("DELETE", f"/v1/responses/{first.events[0]['response']['id']}", b"")
        assert await store.find("c1") is not None
    assert "conversation c1 is in use" in caplog.text


async def test_j4_the_events_of_a_response_are_kept_as_long_as_the_response(tmp_path: Path) -> None:
    """A chain that was continued is used. Neither its responses nor their events are deleted then."""
    async with _place(tmp_path) as place:
        site = place.site()
        place.model.say("One.", ends=True)
        first = started(site)
        await soon(first.task)
        id_ = first.events[0]["response"]["id"]
        store = site.service.background._journals.store
        assert store is not None
        with closing(Database.open(tmp_path)) as database:
            responses = SqliteResponses(database)
            later = datetime.now(UTC) + timedelta(days=3)
            await responses.touch([id_], "http:", later)
            now, keep = later + timedelta(days=1), timedelta(days=2)
            assert await store.forget_unused(now, keep) == 0
        assert b"".join((await site.get(f"/v1/responses/{id_}?stream=true")).writes) == first.raw
