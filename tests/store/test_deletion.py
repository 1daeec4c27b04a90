"""What is deleted is gone: not in the file's free pages, not in the write-ahead log."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.store import ConversationStore, Database, ResponseStore, StoredConversation, StoredResponse

_SECRET = b"a word that nobody may find again"
_WHEN = datetime(2026, 1, 2, tzinfo=UTC)
# Small enough for its row, and so large that it has pages of its own.
_SIZES = [1, 2_000]


def _left(folder: Path) -> list[str]:
    """The files of the folder that have the secret in them."""
    return [path.name for path in folder.iterdir() if _SECRET in path.read_bytes()]


@pytest.mark.parametrize("times", _SIZES)
def test_nothing_of_a_response_that_was_deleted_is_left(tmp_path: Path, times: int) -> None:
    with Database.open(tmp_path) as database, Database.open(tmp_path) as other:
        store = ResponseStore(database)
        store.save(StoredResponse("r1", "http:", None, _WHEN, _SECRET * times))
        store.save(StoredResponse("r2", "http:", "r1", _WHEN, b"another"))
        assert _left(tmp_path)
        # Others have the file open, as another process would.
        assert ResponseStore(other).find("r1", "http:") is not None
        assert not store.delete("r1", "http:another")
        assert store.delete("r1", "http:")
        assert _left(tmp_path) == []
        assert store.find("r2", "http:") is not None


@pytest.mark.parametrize("times", _SIZES)
def test_nothing_of_a_conversation_that_was_deleted_or_replaced_is_left(tmp_path: Path, times: int) -> None:
    def kept(content: bytes) -> StoredConversation:
        return StoredConversation("c1", "m", "title", "/folder", "", _WHEN, content)

    with Database.open(tmp_path) as database:
        store, responses = ConversationStore(database), ResponseStore(database)
        revision = store.save(kept(_SECRET * times))
        responses.save(StoredResponse("r1", "http:", None, _WHEN, _SECRET, "c1"))
        store.save(kept(b"shorter"), revision=revision)
        assert store.delete("c1")
        assert _left(tmp_path) == []
        assert responses.find("r1", "http:") is None


def test_a_conversation_goes_with_the_last_of_its_responses_unless_it_is_under_way(tmp_path: Path) -> None:
    with Database.open(tmp_path) as database:
        conversations, responses = ConversationStore(database), ResponseStore(database)
        for id_, owner in (("idle", ""), ("busy", "1 x")):
            conversations.save(StoredConversation(id_, "m", "", "/", owner, _WHEN, _SECRET, 100.0))
            for number in (1, 2):
                responses.save(StoredResponse(f"{id_}{number}", "http:", None, _WHEN, b"", id_))
        for number in (1, 2):
            assert {row.id for row in conversations.all()} == {"idle", "busy"}
            for id_ in ("idle", "busy"):
                assert responses.delete(f"{id_}{number}", "http:")
        assert [row.id for row in conversations.all()] == ["busy"]
