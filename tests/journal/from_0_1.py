"""The state that a conversation of Dragoman 0.1 must have as a journal, and databases as 0.1 left them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from conversations.snapshot_0_1 import Saved01
from dragoman.conversations.history import NormalAnswer, chain, item_key
from dragoman.conversations.records import ConversationRecord
from dragoman.journal.fold import ConversationState
from dragoman.store.database import FILE_NAME

__all__ = ["STATE_0_1", "VERSION_0_1", "database_0_1", "state_of"]

STATE_0_1 = Path(__file__).parents[1] / "store" / "data" / "state-0.1.sql"
VERSION_0_1 = 4
_USED_AT = "2026-07-20T21:15:26.362447+00:00"


def state_of(saved: Saved01, id_: str | None = None) -> ConversationState:
    """The oracle: items become keys, and of the items only a last answer that was cut is left."""
    record = saved.record
    keys = tuple(map(item_key, record.items))
    last = record.last
    cut = None
    if last is not None and last.status != "complete" and last.starts < last.ends:
        item = record.items[last.starts]
        cut = item if isinstance(item, NormalAnswer) else None
    return ConversationState(
        ConversationRecord(
            record.id if id_ is None else id_,
            record.scope,
            keys,
            tuple(chain(keys)),
            record.replies,
            record.pending,
            record.consumer_id,
            cut,
        ),
        saved.session,
        saved.calls,
    )


def database_0_1(folder: Path, conversations: Iterable[tuple[str, bytes]] = ()) -> Path:
    """The database of a state folder that 0.1 left, with these conversations beside its own."""
    folder.mkdir(mode=0o700)
    path = folder / FILE_NAME
    connection = sqlite3.connect(path)
    # As 0.1 opened it, with its page size.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(STATE_0_1.read_text().replace("@WORKSPACE@", "/work").replace("@NOW@", _USED_AT))
    connection.executemany(
        "INSERT INTO conversations (id, model, title, workspace, owner, used_at, content) "
        "VALUES (?, 'claude', 'a title', '/work', '', ?, ?)",
        [(id_, _USED_AT, content) for id_, content in conversations],
    )
    connection.commit()
    connection.close()
    return path
