"""What is deleted is gone: not in the file's free pages, not in the write-ahead log."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.store import Database, SqliteResponses, StoredResponse

_SECRET = b"a word that may not be found again"
_WHEN = datetime(2026, 1, 2, tzinfo=UTC)
# Small enough for its row, and so large that it has pages of its own.
_SIZES = [1, 2_000]


def _left(folder: Path) -> list[str]:
    """The files of the folder that have the secret in them."""
    return [path.name for path in folder.iterdir() if _SECRET in path.read_bytes()]


@pytest.mark.parametrize("times", _SIZES)
async def test_nothing_of_a_response_that_was_deleted_is_left(tmp_path: Path, times: int) -> None:
    with Database.open(tmp_path) as database, Database.open(tmp_path) as other:
        store = SqliteResponses(database)
        await store.save(StoredResponse("r1", "http:", None, _WHEN, _SECRET * times))
        await store.save(StoredResponse("r2", "http:", "r1", _WHEN, b"another"))
        assert _left(tmp_path)
        # Others have the file open, as another process would.
        assert await SqliteResponses(other).find("r1", "http:") is not None
        await store.delete("r1", "http:another")
        assert await store.find("r1", "http:") is not None
        await store.delete("r1", "http:")
        assert _left(tmp_path) == []
        assert await store.find("r2", "http:") is not None


async def test_with_the_last_response_of_a_conversation_its_id_is_returned(tmp_path: Path) -> None:
    """The conversation is to be deleted, too; another one has responses left."""
    with Database.open(tmp_path) as database:
        responses = SqliteResponses(database)
        for id_, conversation in (("r1", "c1"), ("r2", "c1"), ("r3", "c2"), ("r4", None)):
            await responses.save(StoredResponse(id_, "http:", None, _WHEN, b"", conversation))
        deleted = [await responses.delete(id_, "http:") for id_ in ("r1", "r2", "r2", "r4")]
        assert deleted == [None, "c1", None, None]
        assert await responses.find("r3", "http:") is not None
