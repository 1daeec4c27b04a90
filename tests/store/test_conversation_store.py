"""Conversations on disk: kept, found, claimed by one owner, forgotten in time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dragoman.store import (
    ConversationStore,
    Database,
    Holding,
    ResponseStore,
    StoredConversation,
    StoredResponse,
)

_NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _conversation(
    id_: str = "one",
    *,
    owner: str = "",
    days: int = 0,
    content: bytes = b"{}",
    until: float = 0.0,
    revision: int = 0,
) -> StoredConversation:
    used_at = _NOW - timedelta(days=days)
    return StoredConversation(id_, "agent", "Hello", "/folder", owner, used_at, content, until, revision)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path) as opened:
        yield opened


def test_what_was_saved_is_found_after_a_restart(tmp_path: Path) -> None:
    with Database.open(tmp_path) as first:
        ConversationStore(first).save(_conversation(content=b"\x00\xff"))
    with Database.open(tmp_path) as second:
        assert ConversationStore(second).find("one") == _conversation(content=b"\x00\xff", revision=1)


def test_saving_again_replaces_what_was_there(database: Database) -> None:
    store = ConversationStore(database)
    store.save(_conversation())
    store.save(_conversation(content=b"later", owner="me"))
    assert store.all() == [_conversation(content=b"later", owner="me", revision=2)]


def test_conversations_are_listed_by_use(database: Database) -> None:
    store = ConversationStore(database)
    for id_, days in (("old", 3), ("new", 1), ("middle", 2)):
        store.save(_conversation(id_, days=days))
    store.save(StoredConversation("other", "another", "", "", "", _NOW, b""))
    assert [each.id for each in store.all()] == ["other", "new", "middle", "old"]


def test_a_conversation_has_one_owner(database: Database) -> None:
    store = ConversationStore(database)
    store.save(_conversation())
    free = store.holding("one")
    assert free == Holding("", 0.0, 1)
    assert store.claim("one", "first", 50.0, instead_of=free) == 2
    assert store.claim("one", "second", 60.0, instead_of=free) is None
    held = store.holding("one")
    assert held == Holding("first", 50.0, 2)
    assert store.claim("one", "second", 60.0, instead_of=held) == 4, "higher than all before"
    assert store.claim("none", "second", 60.0, instead_of=held) is None


def test_only_its_owner_writes_a_conversation(database: Database) -> None:
    store = ConversationStore(database)
    assert store.save(_conversation(owner="me"), "me") == 1
    assert store.save(_conversation(owner="me", content=b"mine"), "me") == 2
    assert store.save(_conversation(owner="you", content=b"yours"), "you") is None
    assert store.save(_conversation(owner="you", content=b"yours"), "you", revision=2) is None, (
        "it has an owner"
    )
    found = store.find("one")
    assert found is not None
    assert (found.owner, found.content, found.revision) == ("me", b"mine", 2)


def test_what_nobody_has_can_be_written_by_whoever_knows_all_of_it(database: Database) -> None:
    store = ConversationStore(database)
    assert store.save(_conversation()) == 1
    assert store.save(_conversation(owner="me"), "me", revision=0) is None
    revision = store.save(_conversation(owner="me"), "me", revision=1)
    assert store.holding("one") == Holding("me", 0.0, revision or 0)


def test_a_revision_is_higher_than_all_before_also_than_those_of_what_was_deleted(database: Database) -> None:
    store = ConversationStore(database)
    before = store.save(_conversation("one"))
    store.delete("one")
    after = store.save(_conversation("two"))
    assert before is not None
    assert after is not None
    assert after > before


def test_an_owner_renews_all_it_has_and_releases_all_of_a_model(database: Database) -> None:
    store = ConversationStore(database)
    for id_, owner in (("a", "me"), ("b", "me"), ("c", "you")):
        store.save(_conversation(id_, owner=owner, until=10.0), owner)
    store.renew("me", 99.0)
    assert [store.holding(id_) for id_ in "abc"] == [
        Holding("me", 99.0, 1),
        Holding("me", 99.0, 2),
        Holding("you", 10.0, 3),
    ]
    store.release("me", "another model")
    assert store.holding("a") == Holding("me", 99.0, 1)
    store.release("me", "agent")
    assert [held.owner for id_ in "abc" if (held := store.holding(id_))] == ["", "", "you"]


def test_what_others_have_changed_is_seen(tmp_path: Path) -> None:
    with Database.open(tmp_path) as first, Database.open(tmp_path) as second:
        ours, theirs = ConversationStore(first), ConversationStore(second)
        seen = ours.version_seen()
        ours.save(_conversation("one"))
        assert ours.version_seen() == seen
        theirs.save(_conversation("two"))
        theirs.save(_conversation("one"))
        assert ours.version_seen() != seen
        assert ours.changed_since(0, "agent") == [("two", 2), ("one", 3)]
        assert ours.changed_since(2, "agent") == [("one", 3)]
        assert ours.changed_since(0, "another") == []


def test_what_nobody_uses_is_forgotten_in_time_and_what_is_owned_is_not(database: Database) -> None:
    store = ConversationStore(database)
    store.save(_conversation("old", days=40))
    store.save(_conversation("owned", owner="me", days=40, until=100.0))
    store.save(_conversation("abandoned", owner="dead", days=40, until=50.0))
    store.save(_conversation("new", days=1))
    assert sorted(store.owners()) == ["dead", "me"]
    store.release("dead")
    assert store.forget_unused(_NOW, timedelta(days=30)) == 2
    assert [each.id for each in store.all()] == ["new", "owned"]


def test_what_was_used_in_the_future_is_neither_deleted_nor_kept_for_ever(database: Database) -> None:
    """The clock was ahead when it was used, by years perhaps."""
    conversations, responses = ConversationStore(database), ResponseStore(database)
    conversations.save(_conversation("ahead", days=-4_000))
    responses.save(StoredResponse("ahead", "http:", None, _NOW + timedelta(days=4_000), b""))
    keep = timedelta(days=30)
    for later in (timedelta(), timedelta(days=29)):
        assert conversations.forget_unused(_NOW + later, keep) == 0
        assert responses.forget_unused(_NOW + later, keep) == 0
    assert conversations.forget_unused(_NOW + timedelta(days=31), keep) == 1
    assert responses.forget_unused(_NOW + timedelta(days=31), keep) == 1


def test_one_is_deleted_and_only_once(database: Database) -> None:
    store = ConversationStore(database)
    store.save(_conversation())
    assert (store.delete("one"), store.delete("one")) == (True, False)
    assert store.find("one") is None


def test_the_key_is_made_once_for_all_processes(tmp_path: Path) -> None:
    with Database.open(tmp_path) as first, Database.open(tmp_path) as second:
        keys = {ConversationStore(each).key() for each in (first, second, first)}
    assert len(keys) == 1
    assert len(keys.pop()) == 32
