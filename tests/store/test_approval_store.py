from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dragoman.store import ApprovalStore, Database, StoreError

_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> ApprovalStore:
    return ApprovalStore(database)


def test_what_is_added_is_found_by_all_of_its_subject(store: ApprovalStore) -> None:
    added = store.add("run", "make", "/folder", _NOON)
    assert store.find("run", "make", "/folder") == added
    assert added.granted_at == _NOON
    for tool, key, workspace in (
        ("walk", "make", "/folder"),
        ("run", "make all", "/folder"),
        ("run", "MAKE", "/folder"),
        ("run", "make", "/folder/below"),
        ("run", "make", "/"),
        ("run", "make", None),
    ):
        assert store.find(tool, key, workspace) is None


def test_one_for_everywhere_is_found_everywhere(store: ApprovalStore) -> None:
    added = store.add("run", "make", None, _NOON)
    assert store.find("run", "make", "/folder") == store.find("run", "make", None) == added


def test_the_nearer_one_is_found_first(store: ApprovalStore) -> None:
    store.add("run", "make", None, _NOON)
    near = store.add("run", "make", "/folder", _NOON)
    assert store.find("run", "make", "/folder") == near


@pytest.mark.parametrize("workspace", ["/folder", None])
def test_adding_again_keeps_the_first(store: ApprovalStore, workspace: str | None) -> None:
    first = store.add("run", "make", workspace, _NOON)
    assert store.add("run", "make", workspace, _NOON + timedelta(days=1)) == first
    assert store.list() == (first,)


def test_text_of_any_kind_is_kept_as_it_is(store: ApprovalStore) -> None:
    key = "a\0b 'c' \"d\" %_ é 漢\n"
    added = store.add("run", key, None, _NOON)
    assert added.key == key
    assert store.find("run", key, None) == added
    assert store.find("run", "a\0b", None) is None


def test_removing_one_leaves_the_others_and_its_number_is_not_used_again(store: ApprovalStore) -> None:
    first, second = (store.add("run", key, None, _NOON) for key in ("a", "b"))
    assert store.remove(second.id)
    assert not store.remove(second.id)
    assert store.list() == (first,)
    assert store.add("run", "c", None, _NOON).id > second.id


def test_clearing_removes_all_and_is_counted(store: ApprovalStore) -> None:
    store.add("run", "a", None, _NOON)
    assert store.resets() == 0
    store.clear()
    assert store.list() == ()
    assert store.resets() == 1


def test_a_missing_count_is_damage(store: ApprovalStore, database: Database) -> None:
    with database.writing():
        database.execute("DELETE FROM approval_resets")
    with pytest.raises(StoreError, match="It is damaged"):
        store.resets()
