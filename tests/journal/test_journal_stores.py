"""What every store of journals does: one owner appends, all read, nothing is left of what is deleted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dragoman.conversations.history import NormalAnswer, item_key
from dragoman.journal import snapshots
from dragoman.journal.agent_events import (
    AgentStopped,
    PermissionDecided,
    ReplyEnded,
    SessionChanged,
    TextSaid,
)
from dragoman.journal.chat_events import MessagesAdded
from dragoman.journal.content import without_content
from dragoman.journal.fold import ConversationFold
from dragoman.journal.store import JournalConflict, JournalStore
from dragoman.lm import user
from journal.store_kits import KITS, KitName, StoreKit, claimed, store_kit
from journal.store_samples import asked, stamped, started, turn

_SECRET = "a word that may not be found again"
_NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(params=KITS)
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreKit]:
    name: KitName = request.param
    async with store_kit(name, tmp_path) as made:
        yield made


@pytest.fixture
def store(kit: StoreKit) -> JournalStore:
    return kit.store


async def test_events_are_read_in_order_and_from_any_place(store: JournalStore) -> None:
    assert await store.append("one", 0, stamped(started())) == 1
    assert await store.append("one", 1, stamped(*turn(1))) == 4
    assert await store.append("one", 4, stamped(SessionChanged("s")), holds=False) == 5
    entries = await store.read("one")
    assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5]
    assert [entry.event for entry in entries] == [started(), *turn(1), SessionChanged("s")]
    # Also from the middle of what was appended together.
    assert [entry.sequence for entry in await store.read("one", 2)] == [3, 4, 5]
    assert await store.read("one", 5) == []
    assert await store.read("two") == []
    found = await store.state("one")
    assert found is not None
    assert (found[0].session, len(found[0].record.keys), found[1]) == ("s", 2, 5)
    assert await store.state("two") is None


async def test_an_append_after_another_event_than_the_last_writes_nothing(store: JournalStore) -> None:
    await store.append("one", 0, stamped(started()))
    for expected in (0, 2, 7):
        with pytest.raises(JournalConflict):
            await store.append("one", expected, stamped(started(), SessionChanged("x")))
    with pytest.raises(JournalConflict):
        await store.append("unknown", 3, stamped(SessionChanged("x")))
    assert [entry.event for entry in await store.read("one")] == [started()]


async def test_only_the_owner_appends_until_it_releases(kit: StoreKit) -> None:
    store, other = kit.store, kit.other
    await store.append("one", 0, stamped(started()))
    assert await claimed(other, "one", 1) == "held"
    with pytest.raises(JournalConflict):
        await other.append("one", 1, stamped(SessionChanged("theirs")))
    await other.release("one")
    assert await claimed(other, "one", 1) == "held", "it is not theirs to release"
    await store.append("one", 1, (), holds=False)
    assert await other.claim("one", 0) == "changed"
    assert await other.claim("one", 1) == "ours"
    assert await claimed(store, "one", 1) == "held"
    with pytest.raises(JournalConflict):
        await store.append("one", 1, stamped(SessionChanged("ours")))
    assert await other.claim("gone", 1) == "gone"
    [info] = await store.journals("agent")
    assert info.owner == kit.other_name
    assert (await other.renew(), await store.renew()) == (frozenset({"one"}), frozenset())
    assert other.is_leased(time.monotonic())


async def test_what_is_appended_is_followed_here_and_by_others(kit: StoreKit) -> None:
    store = kit.store
    await store.append("one", 0, stamped(started()))
    for reader in (store, kit.other):
        async with aclosing(reader.follow("one", 0)) as entries:
            assert (await anext(entries)).event == started()
            head = len(await store.read("one"))
            for entry in (await store.read("one"))[1:]:
                assert await anext(entries) == entry
            waiting = asyncio.ensure_future(anext(entries))
            await store.append("one", head, stamped(SessionChanged("s")))
            assert (await waiting).sequence == head + 1


async def test_the_heads_are_given_when_another_process_has_written(kit: StoreKit) -> None:
    store, other = kit.store, kit.other
    await store.append("one", 0, stamped(started()))
    await store.append("chat", 0, stamped(started("chat")))
    await store.append("other", 0, stamped(started(model="n")))
    first = await store.heads("m", None)
    assert first is not None
    seen, heads = first
    assert heads == {"one": 1}
    await store.append("one", 1, stamped(SessionChanged("s")))
    assert await store.heads("m", seen) is None, "what this process wrote is no news to it"
    await other.append("two", 0, stamped(started()))
    await kit.consider(store, "two")
    again = await store.heads("m", seen)
    assert again is not None
    assert again[1] == {"one": 2, "two": 1}
    await other.append("two", 1, stamped(SessionChanged("s")))
    await kit.consider(store, "two")
    last = await store.heads("m", again[0])
    assert last is not None
    assert last[1] == {"one": 2, "two": 2}


async def test_a_list_has_the_kinds_that_are_wanted_the_latest_first(store: JournalStore) -> None:
    await store.append("old", 0, stamped(started(), at=10.0), holds=False)
    await store.append("new", 0, stamped(started("chat"), at=20.0), holds=False)
    await store.append("part", 0, stamped(started(parent="new"), at=15.0), holds=False)
    assert [info.id for info in await store.journals("agent", "chat")] == ["new", "part", "old"]
    assert [info.id for info in await store.journals("response")] == []
    found = await store.find("part")
    assert found is not None
    assert (found.kind, found.model, found.workspace, found.connection, found.title, found.parent) == (
        "agent",
        "m",
        "/folder",
        "editor",
        "a title",
        "new",
    )
    assert (found.started_at, found.used_at, found.sequence, found.owner) == (15.0, 15.0, 1, "")
    assert await store.find("nothing") is None


@pytest.mark.parametrize("times", [1, 2_000])
async def test_j6_nothing_of_what_was_said_is_left_but_decisions_are(kit: StoreKit, times: int) -> None:
    store, text = kit.store, _SECRET * times
    decided = PermissionDecided("q", is_allowed=False, by="person", where="vscode", seconds=2.0, why=_SECRET)
    messages = stamped(started("chat"), MessagesAdded((user(text),)))
    await store.append("chat", 0, messages, holds=False)
    await store.append("one", 0, stamped(started(parent="chat"), *turn(1, text)))
    await store.append("one", 4, stamped(asked("q"), decided), holds=False)
    whole = [("one", asked("q")), ("one", decided)]
    assert [(id_, entry.event) for id_, entry in await store.permissions(0)] == whole
    assert kit.files_with(_SECRET)
    # Others have it, too.
    assert len(await kit.other.read("one")) == 6
    assert await store.delete("one")
    assert await store.delete("chat")
    assert kit.files_with(_SECRET) == []
    assert kit.files_with("a title") == []
    assert await store.journals("agent", "chat") == []
    for each in (store, kit.other):
        assert (await each.find("one"), await each.read("one"), await each.state("one")) == (None, [], None)
        assert not await each.delete("one"), "it is deleted already"
        left = await each.permissions(0)
        assert [(id_, entry.event) for id_, entry in left] == [
            ("one", asked("q")),
            ("one", PermissionDecided("q", is_allowed=False, by="person", where="vscode", seconds=2.0)),
        ]


async def test_j6_with_a_chat_its_agents_conversations_are_deleted(kit: StoreKit) -> None:
    store = kit.store
    await store.append("chat", 0, stamped(started("chat")), holds=False)
    await store.append("part", 0, stamped(started(parent="chat"), *turn(1, _SECRET)), holds=False)
    assert await store.delete("chat")
    assert await store.journals("agent", "chat") == []
    assert kit.files_with(_SECRET) == []


async def test_j6_an_amended_event_leaves_nothing_of_what_it_was(kit: StoreKit) -> None:
    store = kit.store
    await store.append("one", 0, stamped(started(), *turn(1)))
    await store.append("one", 4, stamped(TextSaid(2, 0, 3, _SECRET), SessionChanged("s")))
    await store.append("one", 6, stamped(SessionChanged("t")))
    await kit.other.amend("one", 5, lambda event: without_content(event) or event)
    await kit.other.amend("nothing", 5, lambda event: event)
    await kit.other.amend("one", 50, lambda event: event)
    assert kit.files_with(_SECRET) == []
    # Its owner goes on.
    await store.append("one", 7, stamped(SessionChanged("u")))
    assert [entry.event for entry in await kit.other.read("one", 4)] == [
        TextSaid(2, 0, 3),
        SessionChanged("s"),
        SessionChanged("t"),
        SessionChanged("u"),
    ]


async def test_permissions_are_those_since_a_time_and_of_others_if_so_wanted(kit: StoreKit) -> None:
    store, other = kit.store, kit.other
    await store.append("one", 0, stamped(started(), asked("a"), at=100.0))
    await store.append("one", 2, stamped(asked("b"), at=300.0))
    await other.append("two", 0, stamped(started(), asked("c"), at=200.0))
    await other.append("three", 0, stamped(started(), asked("d"), at=400.0), holds=False)

    async def found(since: float, *, is_elsewhere: bool = False) -> list[tuple[str, int]]:
        entries = await store.permissions(since, is_elsewhere=is_elsewhere)
        return [(id_, entry.sequence) for id_, entry in entries]

    assert await found(0.0) == [("one", 2), ("two", 2), ("one", 3), ("three", 2)]
    assert await found(250.0) == [("one", 3), ("three", 2)]
    assert await found(0.0, is_elsewhere=True) == [("two", 2)]


async def test_the_version_changes_when_others_have_written(kit: StoreKit) -> None:
    before = await kit.store.version_seen()
    await kit.other.append("one", 0, stamped(started()))
    assert await kit.store.version_seen() != before


async def test_what_is_held_is_not_deleted(kit: StoreKit) -> None:
    await kit.store.append("one", 0, stamped(started()))
    assert not await kit.other.delete("one")
    assert await kit.store.find("one") is not None


async def test_an_id_is_never_used_again(store: JournalStore) -> None:
    """A process that lags behind would append to another conversation."""
    await store.append("one", 0, stamped(started()), holds=False)
    await store.delete("one")
    with pytest.raises(JournalConflict):
        await store.append("one", 0, stamped(started()))
    with pytest.raises(JournalConflict):
        await store.append("one", 1, stamped(SessionChanged("s")))


async def _used(store: JournalStore, id_: str, days: float, *, holds: bool = False) -> None:
    at = (_NOW - timedelta(days=days)).timestamp()
    await store.append(id_, 0, stamped(started(), at=at), holds=holds)


async def _looked(store: JournalStore, *, days: float = 0) -> int:
    return await store.forget_unused(_NOW + timedelta(days=days), timedelta(days=30))


async def test_what_was_not_used_for_long_is_deleted_unless_it_is_held(store: JournalStore) -> None:
    await _used(store, "old", 31)
    await _used(store, "held", 31, holds=True)
    await _used(store, "new", 29)
    await _looked(store, days=-1)
    assert await _looked(store) == 1
    assert {info.id for info in await store.journals("agent")} == {"held", "new"}


async def test_a_clock_that_jumps_forward_deletes_nothing(store: JournalStore) -> None:
    await _used(store, "one", 0)
    await _looked(store)
    assert await _looked(store, days=3_000) == 0
    # Set right again, it deletes nothing either.
    assert await _looked(store, days=1) == 0
    assert await _looked(store, days=2) == 0
    assert await store.find("one") is not None


async def test_after_a_long_pause_what_is_old_is_deleted_at_the_second_look(store: JournalStore) -> None:
    await _used(store, "one", 0)
    await _looked(store)
    assert [await _looked(store, days=40), await _looked(store, days=40.1)] == [0, 1]


async def test_what_was_used_in_the_future_is_neither_deleted_nor_kept_for_ever(
    store: JournalStore,
) -> None:
    await _used(store, "one", -1_000)
    await _looked(store)
    assert [await _looked(store, days=29), await _looked(store, days=31)] == [0, 1]


async def test_a_snapshot_in_the_middle_of_a_reply_changes_nothing(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOT_BYTES", 0)
    answer = NormalAnswer("half of it")
    await store.append("one", 0, stamped(started(), turn(1)[0]))
    await store.append("one", 2, stamped(TextSaid(1, 0, 4, "half")))
    await store.append(
        "one",
        3,
        stamped(TextSaid(1, 4, 6, " of it"), ReplyEnded(1, "cut", item_key(answer), text=answer.text)),
    )
    found = await store.state("one")
    assert found is not None
    [reply] = found[0].record.replies
    assert (reply.status, reply.starts, reply.ends) == ("cut", 1, 2)
    everything = ConversationFold("one").apply_all(entry.event for entry in await store.read("one"))
    assert found[0] == everything.state
    assert found[0].record.cut == answer


async def test_the_end_of_an_agent_and_a_release_are_no_use(store: JournalStore) -> None:
    """At the end of a server all its agents end, and the order of the list stays."""
    await store.append("a", 0, stamped(started(), *turn(1), at=1_000.0))
    await store.append("b", 0, stamped(started(), *turn(1), at=2_000.0))
    head = (await store.journals("agent"))[-1]
    assert head.id == "a"
    sequence = await store.append("a", head.sequence, stamped(AgentStopped(), at=3_000.0))
    await store.append("a", sequence, [], holds=False)
    assert [(info.id, info.used_at) for info in await store.journals("agent")] == [
        ("b", 2_000.0),
        ("a", 1_000.0),
    ]
