"""Conversations that Dragoman 0.1 stored whole, made into journals. It runs inside the migration's transaction."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TypeAlias

import msgspec

from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt, NormalResult, item_key
from dragoman.conversations.records import ReplyStatus
from dragoman.lm.json import encode
from dragoman.lm.surrogates import mended
from dragoman.store.errors import JournalStoreError
from dragoman.store.journal_rows import Statements, insert_events, insert_journal

__all__ = ["import_conversations"]

_log = logging.getLogger(__name__)

_VERSION = 1


class _Said(msgspec.Struct, frozen=True, array_like=True, tag="said"):
    text: str
    data: tuple[str, ...] = ()


class _Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    text: str
    calls: tuple[tuple[str, str, str], ...]


class _Result(msgspec.Struct, frozen=True, array_like=True, tag="result"):
    call_id: str


_Item: TypeAlias = _Said | _Answer | _Result


class _Reply(msgspec.Struct, frozen=True, array_like=True):
    number: int
    turn: int
    starts: int
    ends: int
    status: ReplyStatus
    digest: str
    call_ids: tuple[str, ...]


class _Content(msgspec.Struct, frozen=True):
    version: int
    id: str
    model: str
    workspace: tuple[str, ...]
    connection: str
    items: tuple[_Item, ...]
    replies: tuple[_Reply, ...]
    pending: tuple[str, ...]
    consumer_id: str | None
    session: str | None
    calls: int


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    id: str
    title: str
    used_at: datetime
    content: bytes


class _Journal(msgspec.Struct, frozen=True):
    """A conversation as a journal: its columns, and its two events as they are stored."""

    content: _Content
    title: str
    at: float
    events: bytes


def import_conversations(database: Statements) -> None:
    """Make a journal of each conversation, and remove the old tables. A row that cannot be read stays in a separate table."""
    for (place,) in database.rows(tuple[int], "SELECT rowid FROM conversations ORDER BY used_at, rowid"):
        try:
            # One by one: a row that cannot be read says nothing about the others.
            [stored] = database.rows(
                _Stored, "SELECT id, title, used_at, content FROM conversations WHERE rowid = ?", place
            )
            journal = _journal_of(stored)
        except (JournalStoreError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            _log.warning("a conversation of Dragoman 0.1 cannot be read, and starts again: %s", error)
            _keep(database, place)
        else:
            _insert(database, stored.id, journal)
    database.execute("DROP TABLE conversations")
    database.execute("DROP TABLE conversation_revisions")


def _keep(database: Statements, place: int) -> None:
    database.execute(
        "INSERT INTO unreadable_conversations SELECT id, strftime('%s', 'now'), content FROM conversations "
        "WHERE rowid = ?",
        place,
    )


def _insert(database: Statements, id_: str, journal: _Journal) -> None:
    content = journal.content
    folder = content.workspace[0] if content.workspace else ""
    number = insert_journal(
        database, id_, "agent", content.model, folder, content.connection, journal.title, None, journal.at
    )
    insert_events(database, number, 2, journal.events, (), journal.at)
    database.execute("UPDATE journal_heads SET sequence = 2 WHERE number = ?", number)


def _journal_of(stored: _Stored) -> _Journal:
    content = msgspec.json.decode(stored.content, type=_Content)
    if content.version != _VERSION or any(
        not 0 <= reply.starts <= reply.ends <= len(content.items) for reply in content.replies
    ):
        raise msgspec.ValidationError("its form is not that of Dragoman 0.1")
    items = tuple(map(_read, content.items))
    title = mended(stored.title)
    # The stored form of events, as of format 1: `journal.events` reads it.
    started = {
        "type": "journal_started",
        "kind": "agent",
        "model": content.model,
        "workspace": content.workspace,
        "connection": content.connection,
        "consumer_id": content.consumer_id,
        "title": title,
    }
    imported = {
        "type": "conversation_imported",
        "keys": tuple(map(item_key, items)),
        "replies": [
            (each.number, each.turn, each.starts, each.ends, each.status, None, None, each.call_ids)
            for each in content.replies
        ],
        "pending": content.pending,
        "session": content.session,
        "issued": content.calls,
        "items": items,
    }
    at = stored.used_at.timestamp()
    return _Journal(content, title, at, encode([(at, started), (at, imported)]))


def _read(item: _Item) -> NormalItem:
    match item:
        case _Said(text=text, data=data):
            return NormalPrompt(text, data)
        case _Answer(text=text, calls=calls):
            return NormalAnswer(text, calls)
        case _:
            return NormalResult(item.call_id)
