"""Conversations on disk: kept, found, claimed by one owner, forgotten in time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dragoman.store import ConversationStore, Database, StoredConversation

_NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _conversation(
    id_: str = "one", *, owner: str = "", days: int = 0, content: bytes = b"{}"
) -> StoredConversation:
    return StoredConversation(id_, "agent", "Hello", "/folder", owner, _NOW - timedelta(days=days), content)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path) as opened:
        yield opened


def test_what_was_saved_is_found_after_a_restart(tmp_path: Path) -> None:
    with Database.open(tmp_path) as first:
        ConversationStore(first).save(_conversation(content=b"\x00\xff"))
    with Database.open(tmp_path) as second:
        assert ConversationStore(second).find("one") == _conversation(content=b"\x00\xff")


def test_saving_again_replaces_what_was_there(database: Database) -> None:
    store = ConversationStore(database)
    store.save(_conversation())
    store.save(_conversation(content=b"later", owner="me"))
    assert store.all() == [_conversation(content=b"later", owner="me")]


def test_conversations_are_listed_by_use_and_by_model(database: Database) -> None:
    store = ConversationStore(database)
    for id_, days in (("old", 3), ("new", 1), ("middle", 2)):
        store.save(_conversation(id_, days=days))
    store.save(StoredConversation("other", "another", "", "", "", _NOW, b""))
    assert [each.id for each in store.all()] == ["other", "new", "middle", "old"]
    assert [each.id for each in store.of_model("agent")] == ["old", "middle", "new"]


def test_a_conversation_has_one_owner(database: Database) -> None:
    store = ConversationStore(database)
    store.save(_conversation())
    assert store.claim("one", "first", instead_of="")
    assert not store.claim("one", "second", instead_of="")
    assert store.claim("one", "second", instead_of="first")
    assert not store.claim("none", "second", instead_of="")


def test_what_nobody_uses_is_forgotten_in_time_and_what_is_owned_is_not(database: Database) -> None:
    store = ConversationStore(database)
    store.save(_conversation("old", days=40))
    store.save(_conversation("owned", owner="me", days=40))
    store.save(_conversation("new", days=1))
    assert store.forget_before(_NOW - timedelta(days=30)) == 1
    assert [each.id for each in store.all()] == ["new", "owned"]


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
