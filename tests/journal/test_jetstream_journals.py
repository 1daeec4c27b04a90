"""Journals in JetStream: take-overs, answers that are missing, and what follows an append."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import nats.errors
import nats.js.errors
import pytest
from nats.js import JetStreamContext

from dragoman.conversations.records import joinable_places
from dragoman.fleet import stored
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.hints import index_keys
from dragoman.fleet.lease import LeaseTimes, NodeLease
from dragoman.fleet.placement import Place
from dragoman.fleet.streams import make_streams
from dragoman.fleet.subjects import AUDIT, INDEX, JOURNALS, SNAPSHOTS
from dragoman.journal import snapshots
from dragoman.journal.agent_events import PermissionDecided, SessionChanged, TextSaid
from dragoman.journal.events import JournalEntry, UnreadableJournal, encode_events
from dragoman.journal.jetstream.head import HEAD, JournalHead, ListedInfo, journal_subject
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.journal.store import HeldElsewhere, JournalConflict, JournalStoreError
from dragoman.journal.writer import Journals, JournalWriter
from journal.store_kits import node
from journal.store_samples import asked, stamped, started, turn
from nats_servers import PROGRAM, free_port, nats_server, wait_for_port

# JetStream counts whole seconds.
_QUICK = LeaseTimes(lease=2, renew=0.3, fence=1.5)


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with nats_server(tmp_path) as address, FleetConnection.open((address,), "operator") as operator:
        await make_streams(operator, 1, None)
        yield address


@pytest.fixture
async def store(url: str) -> AsyncIterator[JetStreamJournals]:
    async with node(url, "w1") as made:
        yield made


@pytest.fixture
async def other(url: str) -> AsyncIterator[JetStreamJournals]:
    async with node(url, "w2") as made:
        yield made


def _sessions(entries: list[JournalEntry]) -> list[str | None]:
    return [entry.event.session for entry in entries if isinstance(entry.event, SessionChanged)]


def _is_ours(writer: JournalWriter) -> bool:
    return writer.is_ours


def _has_news(writer: JournalWriter) -> bool:
    return writer.has_news


# Large appends.


@pytest.mark.parametrize("size", [900_000, 1_048_000, 3_000_000])
async def test_an_append_of_any_size_is_whole(
    store: JetStreamJournals, other: JetStreamJournals, tmp_path: Path, size: int
) -> None:
    text = "a word of the large one " * (size // 24)
    await store.append("one", 0, stamped(started()))
    await store.append("one", 1, stamped(TextSaid(1, 0, len(text), text), SessionChanged("s")))
    await store.append("one", 3, stamped(SessionChanged("t")), holds=False)
    for each in (store, other):
        events = [entry.event for entry in await each.read("one")]
        assert events == [
            started(),
            TextSaid(1, 0, len(text), text),
            SessionChanged("s"),
            SessionChanged("t"),
        ]
    found = await other.state("one")
    assert found is not None
    assert found[1] == 4
    assert await other.delete("one")
    assert not [
        path
        for path in (tmp_path / "jetstream").rglob("*")
        if path.is_file() and b"a word of the large one" in path.read_bytes()
    ]


async def test_a_large_append_that_is_refused_leaves_no_trace_in_the_history(
    store: JetStreamJournals, other: JetStreamJournals
) -> None:
    await store.append("one", 0, stamped(started()))
    text = "word " * 500_000
    with pytest.raises(JournalConflict):
        await other.append("one", 1, stamped(TextSaid(1, 0, len(text), text)))
    await store.append("one", 1, stamped(SessionChanged("s")))
    assert [entry.sequence for entry in await other.read("one")] == [1, 2]


# Owners.


async def _epoch(url: str, journal: str) -> int:
    async with FleetConnection.open((url,), "operator") as operator:
        message = await stored.StoredStream(operator, JOURNALS).last(journal_subject(journal))
    assert message is not None
    return JournalHead.read(message).epoch


async def test_n1_when_its_node_is_gone_a_journal_is_free(url: str, store: JetStreamJournals) -> None:
    async with node(url, "w3") as third:
        await third.append("one", 0, stamped(started()))
        with pytest.raises(HeldElsewhere) as held:
            await store.claim("one", 1)
        assert held.value.owner == "w3"
        assert await store.place_of("one") == Place("w3", "w3")
        assert await store.renew() == frozenset()
    # It has given its lease back: at once.
    assert await store.place_of("one") == Place("", "w3")
    assert await _epoch(url, "one") == 1
    assert await store.claim("one", 1) == "ours"
    assert await _epoch(url, "one") == 2
    assert await store.place_of("one") == Place("w1", "w1")
    await store.release("one")
    assert await store.place_of("one") == Place("", "w1")
    assert await store.place_of("nothing") is None


@asynccontextmanager
async def _suspended(url: str, name: str) -> AsyncIterator[tuple[JetStreamJournals, FleetConnection]]:
    """The store of a node that has stopped to renew its lease, as one that is suspended, and does not know it."""
    clock = [0.0]
    never = LeaseTimes(lease=1, renew=1_000, fence=1_000)
    async with (
        FleetConnection.open((url,), name) as connection,
        NodeLease.held(connection, name, "worker", times=never, clock=lambda: clock[0]) as lease,
    ):
        yield JetStreamJournals(connection, lease), connection


async def _taken_over(store: JetStreamJournals, journal: str, expected: int) -> None:
    """Claim a journal as soon as its owner's lease has ended."""
    for _ in range(1_000):
        try:
            assert await store.claim(journal, expected) == "ours"
        except HeldElsewhere:
            await asyncio.sleep(0.02)
        else:
            return
    raise TimeoutError(journal)


async def test_n2_a_former_owner_writes_nothing_whatever_its_clock_says(
    url: str, store: JetStreamJournals
) -> None:
    async with _suspended(url, "w3") as (former, _):
        await former.append("one", 0, stamped(started()))
        await former.append("two", 0, stamped(started()))
        await _taken_over(store, "one", 1)
        assert former.is_leased(time.monotonic()), "it has noticed nothing"
        with pytest.raises(JournalConflict):
            await former.append("one", 1, stamped(SessionChanged("of the former owner")))
        await former.release("one")
        assert await store.append("one", 1, stamped(SessionChanged("s"))) == 2
        with pytest.raises(HeldElsewhere):
            await former.claim("one", 2)
        # Nobody has taken the other one, so there is still one history.
        assert await former.append("two", 1, stamped(SessionChanged("t"))) == 2
        assert _sessions(await store.read("one")) == ["s"]


async def test_n3_a_fenced_node_writes_nothing(url: str) -> None:
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(FleetConnection.open((url,), "w3"))
        lease = await stack.enter_async_context(NodeLease.held(connection, "w3", "worker", times=_QUICK))
        fenced = JetStreamJournals(connection, lease)
        await fenced.append("one", 0, stamped(started(), *turn(1)))
        writer = JournalWriter(Journals(fenced), "one", 4)
        writer.note_claimed()
        assert _is_ours(writer)
        lease._term.end()
        assert not fenced.is_leased(time.monotonic())
        assert await fenced.renew() == frozenset()
        for writing in (
            fenced.append("one", 4, stamped(SessionChanged("s"))),
            fenced.append("two", 0, stamped(started())),
            fenced.claim("one", 4),
            fenced.release("one"),
            fenced.amend("one", 3, lambda event: event),
        ):
            with pytest.raises(JournalStoreError, match="has lost its lease"):
                await writing
        assert not _is_ours(writer)
        assert len(await fenced.read("one")) == 4


async def test_of_five_nodes_that_claim_a_journal_one_gets_it(url: str, store: JetStreamJournals) -> None:
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node(url, f"n{number}")) for number in range(5)]
        for attempt in range(10):
            id_ = f"j{attempt}"
            await store.append(id_, 0, stamped(started()), holds=False)

            async def raced(each: JetStreamJournals, id_: str = id_) -> bool:
                try:
                    return await each.claim(id_, 1) == "ours"
                except HeldElsewhere:
                    return False

            won = await asyncio.gather(*map(raced, nodes))
            assert sum(won) == 1
            appended = await asyncio.gather(
                *(each.append(id_, 1, stamped(SessionChanged("s"))) for each in nodes), return_exceptions=True
            )
            assert [isinstance(result, int) for result in appended] == won
            assert len(await store.read(id_)) == 2


# Answers that are missing.


class _LostAnswers:
    """Publishing that loses messages or their answers. `plan` has a word for each of the next messages of journals."""

    def __init__(self, store: JetStreamJournals, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan: list[str] = []
        # Whether a call waits for an election is another question.
        monkeypatch.setattr(stored, "ELECTION_SECONDS", 0.0)
        js: JetStreamContext = store._connection.js
        real = js.publish

        async def publish(subject: str, *args: Any, **more: Any) -> Any:
            fate = self.plan.pop(0) if self.plan and subject.startswith(("dg.j.", "dg.a.")) else "answered"
            if fate == "lost":
                raise nats.errors.TimeoutError
            if fate == "leaderless":
                raise nats.js.errors.NoStreamResponseError
            answer = await real(subject, *args, **more)
            if fate == "unanswered":
                raise nats.errors.TimeoutError
            return answer

        monkeypatch.setattr(js, "publish", publish)
        real_get = js.get_last_msg

        async def get_last_msg(*args: Any, **more: Any) -> Any:
            if self.plan and self.plan[0] == "unreadable":
                self.plan.pop(0)
                raise nats.errors.TimeoutError
            return await real_get(*args, **more)

        monkeypatch.setattr(js, "get_last_msg", get_last_msg)


@pytest.mark.parametrize("fate", ["unanswered", "lost"])
async def test_an_append_without_an_answer_is_read_back(
    store: JetStreamJournals, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    faults = _LostAnswers(store, monkeypatch)
    faults.plan = [fate]
    assert await store.append("one", 0, stamped(started())) == 1
    faults.plan = [fate, fate]
    assert await store.append("one", 1, stamped(SessionChanged("s"))) == 2
    faults.plan = [fate]
    await store.release("one")
    faults.plan = [fate]
    assert await store.claim("one", 2) == "ours"
    assert [entry.sequence for entry in await store.read("one")] == [1, 2]


@pytest.mark.parametrize("fate", ["unanswered", "lost"])
@pytest.mark.parametrize("begins", [True, False])
async def test_j1_what_was_perhaps_appended_is_stored_once_when_nats_is_back(
    store: JetStreamJournals, monkeypatch: pytest.MonkeyPatch, *, fate: str, begins: bool
) -> None:
    """Neither the append nor the head has an answer. Then the writer appends the same again, with what has happened since."""
    faults = _LostAnswers(store, monkeypatch)
    writer = JournalWriter(Journals(store), "one")
    writer.hold(holds=True)
    writer.add(started())
    if not begins:
        await writer.flush()
        writer.add(SessionChanged("s"))
    faults.plan = [fate, "unreadable"]
    await writer.flush()
    assert _has_news(writer)
    writer.add(SessionChanged("t"), asked("q"))
    await writer.flush()
    assert not _has_news(writer)
    assert writer.is_ours
    sessions = ["t"] if begins else ["s", "t"]
    assert _sessions(await store.read("one")) == sessions
    # The same if only the release is left.
    writer.add(SessionChanged("u"))
    faults.plan = [fate, "unreadable"]
    await writer.flush()
    await writer.close()
    assert _sessions(await store.read("one")) == [*sessions, "u"]
    [info] = await store.journals("agent")
    assert info.owner == ""


async def test_other_events_after_an_unknown_append_are_refused(
    store: JetStreamJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = _LostAnswers(store, monkeypatch)
    await store.append("one", 0, stamped(started()))
    faults.plan = ["unanswered", "unreadable"]
    with pytest.raises(JournalStoreError):
        await store.append("one", 1, stamped(SessionChanged("s")))
    with pytest.raises(JournalConflict):
        await store.append("one", 1, stamped(SessionChanged("another")))
    assert _sessions(await store.read("one")) == ["s"]


@pytest.mark.parametrize("fates", [["leaderless", "leaderless"], ["unanswered", "unreadable", "unreadable"]])
async def test_n1_what_a_request_needs_waits_for_an_election(
    store: JetStreamJournals, monkeypatch: pytest.MonkeyPatch, fates: list[str]
) -> None:
    faults = _LostAnswers(store, monkeypatch)
    monkeypatch.setattr(stored, "ELECTION_SECONDS", 60.0)
    faults.plan = [*fates]
    assert await store.append("one", 0, stamped(started()), holds=False) == 1
    faults.plan = [*fates]
    assert await store.claim("one", 1) == "ours"
    faults.plan = ["unreadable", "unreadable"]
    assert await store.place_of("one") == Place("w1", "w1")
    assert not faults.plan
    assert [entry.sequence for entry in await store.read("one")] == [1]


async def test_the_wait_for_an_election_has_an_end(
    store: JetStreamJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = _LostAnswers(store, monkeypatch)
    await store.append("one", 0, stamped(started()), holds=False)
    faults.plan = ["leaderless"]
    with pytest.raises(JournalStoreError, match="no leader"):
        await store.claim("one", 1)
    assert await store.claim("one", 1) == "ours"


# Decisions.


def _decided(id_: str) -> PermissionDecided:
    return PermissionDecided(id_, is_allowed=True, by="person", where="vscode", seconds=1.0, why="because")


@pytest.mark.parametrize("then", ["nothing", "append", "claim", "delete"])
async def test_a_decision_that_was_not_copied_is_not_lost(
    store: JetStreamJournals, other: JetStreamJournals, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """As after a crash between the two writes."""
    faults = _LostAnswers(store, monkeypatch)
    await store.append("one", 0, stamped(started(), asked("p")))
    faults.plan = ["answered", "lost"]
    await store.append("one", 2, stamped(SessionChanged("s"), asked("q"), _decided("q")), holds=False)
    copies = (await store._connection.js.stream_info(AUDIT)).state.messages
    assert copies == 1
    expected: list[object] = [asked("p"), asked("q"), _decided("q")]
    match then:
        case "append":
            await store.append("one", 5, stamped(SessionChanged("t")))
        case "claim":
            assert await other.claim("one", 5) == "ours"
        case "delete":
            assert await other.delete("one")
            expected[2] = PermissionDecided("q", is_allowed=True, by="person", where="vscode", seconds=1.0)
    found = await other.permissions(0)
    assert [(entry.sequence, entry.event) for _, entry in found] == list(
        zip((2, 4, 5), expected, strict=True)
    )
    copies = (await store._connection.js.stream_info(AUDIT)).state.messages
    assert copies == (1 if then == "nothing" else 2)


# Folds.


async def test_a_long_conversation_is_loaded_from_a_snapshot(
    store: JetStreamJournals, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOT_BYTES", 2_000)
    head = await store.append("long", 0, stamped(started()))
    for number in range(1, 61):
        head = await store.append("long", head, stamped(*turn(number, "word " * 20)))
    await store.append("long", head, [], holds=False)
    info = await store._connection.js.stream_info(SNAPSHOTS)
    assert info.state.messages == 1
    whole = await store.state("long")
    assert whole is not None
    assert (whole[1], len(whole[0].record.keys)) == (head, 120)
    async with node(url, "w3") as third:
        assert await third.state("long") == whole
    # What the snapshot has is not read: it could be gone.
    await store._connection.js.purge_stream(JOURNALS, subject="dg.j.long", keep=40)
    async with node(url, "w4") as fourth:
        assert await fourth.state("long") == whole
        await fourth._connection.js.publish("dg.s.long", b"\xc1", headers={"Dg-Snapshot": "{}"})
    async with node(url, "w5") as fifth:
        with pytest.raises(UnreadableJournal):
            await fifth.state("long")


@pytest.mark.parametrize(
    ("shared", "workspace", "counts"),
    [
        ("all", ["all/one"], True),
        ("all", ["all"], True),
        ("link", ["all/one"], True),
        ("all", ["link/one", "all/two"], True),
        # A link in the shared folder leads to a folder of one machine.
        ("all", ["all/own"], False),
        ("all", ["all/one", "other"], False),
        ("all", ["all/../other"], False),
        ("all", ["alliance"], False),
        ("all", [], False),
        (None, ["all/one"], False),
    ],
)
async def test_a_session_of_another_node_counts_if_its_workspace_is_shared(
    store: JetStreamJournals,
    url: str,
    tmp_path: Path,
    shared: str | None,
    workspace: list[str],
    *,
    counts: bool,
) -> None:
    for name in ("all/one", "all/two", "other", "alliance"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("all")
    (tmp_path / "all" / "own").symlink_to(tmp_path / "other")
    folders = tuple(str(tmp_path / each) for each in workspace)
    begun = msgspec.structs.replace(started(), workspace=folders)
    await store.append("one", 0, stamped(begun, *turn(1), SessionChanged("s")), holds=False)
    mine = await store.state("one")
    assert mine is not None
    assert mine[0].session == "s"
    async with (
        FleetConnection.open((url,), "w3") as connection,
        NodeLease.held(connection, "w3", "worker") as lease,
    ):
        third = JetStreamJournals(connection, lease, shared=None if shared is None else tmp_path / shared)
        theirs = await third.state("one")
        assert theirs is not None
        assert theirs[0].session == ("s" if counts else None)
        assert await third.claim("one", 5) == "ours"
        await third.append("one", 5, stamped(SessionChanged("t")), holds=False)
        now = await third.state("one")
        assert now is not None
        assert now[0].session == "t"
    mine = await store.state("one")
    assert mine is not None
    assert mine[0].session is None


async def test_the_index_has_a_conversation_under_its_places(
    store: JetStreamJournals, other: JetStreamJournals
) -> None:
    await store.append("one", 0, stamped(started(), *turn(1)))
    await store.append("one", 4, stamped(*turn(2)))
    await store.append("two", 0, stamped(started(), *turn(1)))
    found = await store.state("one")
    assert found is not None
    links = joinable_places(found[0].record)
    assert len(links) == 3
    keys = index_keys("m", "editor", "", consumer_id=None, links=links)
    await store._connection.flush()
    for _ in range(1_000):
        if len(await other.hinted(keys)) == 2:
            break
        await asyncio.sleep(0.01)
    last, first = found[0].record.links[-1], found[0].record.links[0]
    [last_key] = index_keys("m", "editor", "", consumer_id=None, links=[last])
    [first_key] = index_keys("m", "editor", "", consumer_id=None, links=[first])
    assert await other.hinted([last_key, first_key]) == ["one", "two"]
    assert set(await other.hinted([first_key])) == {"one", "two"}
    assert await other.hinted(["0" * 16]) == []
    await store.release("one")
    await other.delete("one")
    assert await other.hinted(keys) == ["two"]


async def test_the_index_entries_of_a_conversation_in_use_are_written_again(store: JetStreamJournals) -> None:
    async def indexed() -> int:
        await store._connection.flush()
        return (await store._connection.js.stream_info(INDEX)).state.messages

    now = 0.0
    store._folds.clock = lambda: now
    await store.append("one", 0, stamped(started(), *turn(1)))
    first = await indexed()
    assert first > 0
    # They have expired.
    await store._connection.js.purge_stream(INDEX)
    await store.append("one", 4, stamped(*turn(2)))
    added = await indexed()
    await store._connection.js.purge_stream(INDEX)
    now = 6 * 3600.0
    await store.append("one", 7, stamped(*turn(3)))
    found = await store.state("one")
    assert found is not None
    links = joinable_places(found[0].record)
    keys = index_keys("m", "editor", "", consumer_id=None, links=links)
    assert await indexed() == len(set(keys)) > added


@pytest.mark.parametrize("id_", ["*", ">", "one.part", "a b", "x/y"])
async def test_no_id_is_a_wildcard(store: JetStreamJournals, id_: str) -> None:
    await store.append("one", 0, stamped(started()))
    assert (await store.read(id_), await store.find(id_), await store.state(id_)) == ([], None, None)
    await store.append(id_, 0, stamped(started(), SessionChanged("s")), holds=False)
    assert len(await store.read(id_)) == 2
    assert {info.id for info in await store.journals("agent")} == {"one", id_}
    assert await store.delete(id_)
    assert len(await store.read("one")) == 1


# The server dies.


class _Server:
    """A server on one port and one folder, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._file = folder / "nats.conf"
        self._file.write_text(
            f"host: 127.0.0.1\nport: {self.port}\n"
            f'jetstream {{ store_dir: "{folder}/jetstream", sync_interval: always }}\n'
        )
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._process = subprocess.Popen(  # noqa: ASYNC220 - a start does not block
            [PROGRAM, "-c", self._file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await wait_for_port(self.port)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


@pytest.mark.long
async def test_j1_what_was_acknowledged_survives_kills_of_the_server(tmp_path: Path) -> None:
    server = _Server(tmp_path)
    await server.start()
    try:
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(
                FleetConnection.open((f"nats://127.0.0.1:{server.port}",), "w1")
            )
            await make_streams(connection, 1, None)
            long = LeaseTimes(lease=3_600, renew=4, fence=3_500)
            lease = await stack.enter_async_context(NodeLease.held(connection, "w1", "worker", times=long))
            store = JetStreamJournals(connection, lease)
            head, sent = await store.append("one", 0, stamped(started())), 0
            kills = {20, 60, 100}
            while sent < 120:
                if sent in kills:
                    kills.discard(sent)
                    asyncio.get_running_loop().call_later(0.002, server.kill)
                try:
                    head = await store.append("one", head, stamped(SessionChanged(f"s{sent}")))
                    sent += 1
                except JournalStoreError:
                    assert lease.seconds_left() > 0
                    server.kill()
                    await server.start()
                    await _connected(connection)
            entries = await store.read("one")
            assert _sessions(entries) == [f"s{number}" for number in range(sent)]
            assert [entry.sequence for entry in entries] == list(range(1, head + 1))
    finally:
        server.kill()


async def _connected(connection: FleetConnection) -> None:
    for _ in range(1_000):
        if connection.is_connected:
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


async def test_no_message_in_the_audit_log_hides_a_decision(
    store: JetStreamJournals, other: JetStreamJournals, caplog: pytest.LogCaptureFixture
) -> None:
    """Every worker can append to it, and an agent has its worker's credentials."""
    forged = PermissionDecided("q", is_allowed=False, by="person", where="vscode", seconds=1.0)
    genuine = PermissionDecided("q", is_allowed=True, by="person", where="vscode", seconds=1.0)
    copied: dict[str, Any] = {"journal": "one", "numbers": [3]}
    content = json.loads(encode_events([(1_000.0, forged)]))
    for garbage in (
        b"garbage",
        json.dumps({**copied, "message": 0, "events": content}).encode(),
        json.dumps({**copied, "message": 1, "events": []}).encode(),
        json.dumps({**copied, "message": 1, "events": "none"}).encode(),
    ):
        await store._connection.js.publish("dg.a.x", garbage)
    first = json.dumps({**copied, "message": 1, "events": content}).encode()
    await store._connection.js.publish("dg.a.one", first, headers={"Nats-Msg-Id": "one.3"})

    await store.append("one", 0, stamped(started(), asked("q"), genuine), holds=False)
    # A message of another journal that says it is one of this.
    info = ListedInfo("one", "agent")
    head = JournalHead(info, 3, 1, "w1", first=3, count=1)
    await store._connection.js.publish(
        "dg.j.evil", json.dumps(content).encode(), headers={HEAD: head.header()}
    )
    stolen = json.dumps({**copied, "message": 2, "events": content}).encode()
    await store._connection.js.publish("dg.a.one", stolen)

    for _ in range(2):
        assert [entry.event for _, entry in await other.permissions(0.0)] == [asked("q"), genuine]
    assert caplog.text.count("is no copy of a decision") == 4
    assert await other.delete("one")
    kept = [entry.event for _, entry in await other.permissions(0.0)]
    assert kept[1:] == [forged, genuine], "nobody can tell them apart without the journal: both are shown"


# What cannot be read.


async def test_one_head_that_cannot_be_read_hides_no_other_journal(
    store: JetStreamJournals, other: JetStreamJournals, caplog: pytest.LogCaptureFixture
) -> None:
    await store.append("one", 0, stamped(started(), asked("q")), holds=False)
    await store._connection.js.publish("dg.j.bad", b"garbage")
    await store._connection.js.publish("dg.s.~clock", b"garbage")
    for _ in range(2):
        assert [info.id for info in await other.journals("agent")] == ["one"]
    assert caplog.text.count("dg.j.bad is left out") == 1
    assert [id_ for id_, _ in await other.permissions(0.0)] == ["one"]
    await other.consider(["bad", "one"])
    found = await other.heads("m", None)
    assert found is not None
    assert found[1] == {"one": 2}
    assert await other.place_of("bad") is None
    now = datetime.now(UTC)
    await Journals(other, keep=timedelta(days=30)).forget_unused()
    assert await other.forget_unused(now + timedelta(days=3), timedelta(days=1)) == 1
    assert not await other.journals("agent")


# Many.


async def test_a_list_has_every_journal_however_large_they_are(store: JetStreamJournals) -> None:
    """The server sends as much as fits into one answer."""
    text = "word " * 180_000
    ids = {f"c{number}" for number in range(100)}
    for id_ in ids:
        await store.append(id_, 0, stamped(started(), TextSaid(1, 0, len(text), text)), holds=False)
    assert {info.id for info in await store.journals("agent")} == ids
