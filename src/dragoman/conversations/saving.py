"""A conversation as bytes: what is kept of it on disk, and what becomes of it in another process.

Kept is what recognising it takes (its record), the agent's own name for the session, and how many call ids were issued.
Not kept is what was only true at that moment: a reply that was streaming then has been cut, and what the last one answered,
and when it ended, no longer counts.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt, NormalResult, chain
from dragoman.conversations.records import ConversationRecord, ReplyRecord, ReplyStatus, Scope
from dragoman.lm.json import encode

__all__ = ["SavedConversation", "SavedError", "load_conversation", "save_conversation"]

_VERSION = 1


class SavedError(Exception):
    """What was kept cannot be read; the conversation begins anew, with everything told again."""


# Items as short arrays that begin with what they are: a long history is mostly these.


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
    # A digest of what it answers stood here; its place is kept, so that what older versions kept is read.
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


class SavedConversation(msgspec.Struct, frozen=True):
    record: ConversationRecord
    session: str | None
    calls: int


_decoder = msgspec.json.Decoder(_Content)


def save_conversation(record: ConversationRecord, session: str | None, calls: int) -> bytes:
    return encode(
        _Content(
            _VERSION,
            record.id,
            record.scope.model,
            record.scope.workspace,
            record.scope.connection,
            tuple(_written(item) for item in record.items),
            tuple(
                _Reply(
                    reply.number,
                    reply.turn,
                    reply.starts,
                    reply.ends,
                    "cut" if reply.status == "streaming" else reply.status,
                    "",
                    reply.call_ids,
                )
                for reply in record.replies
            ),
            tuple(sorted(record.pending)),
            record.consumer_id,
            session,
            calls,
        )
    )


def load_conversation(data: bytes) -> SavedConversation:
    try:
        content = _decoder.decode(data)
        if content.version != _VERSION:
            raise SavedError(f"it was kept in format {content.version}; this version reads {_VERSION}")
        items = tuple(_read(item) for item in content.items)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise SavedError(str(error)) from error
    replies = tuple(
        ReplyRecord(
            reply.number,
            reply.turn,
            reply.starts,
            reply.ends,
            reply.status,
            call_ids=reply.call_ids,
        )
        for reply in content.replies
    )
    if any(not 0 <= reply.starts <= reply.ends <= len(items) for reply in replies):
        raise SavedError("its replies do not fit its history")
    record = ConversationRecord(
        content.id,
        Scope(content.model, content.workspace, content.connection),
        items,
        tuple(chain(items)),
        replies,
        frozenset(content.pending),
        content.consumer_id,
    )
    return SavedConversation(record, content.session, content.calls)


def _written(item: NormalItem) -> _Item:
    match item:
        case NormalPrompt(text=text, data=data):
            return _Said(text, data)
        case NormalAnswer(text=text, calls=calls):
            return _Answer(text, calls)
        case _:
            return _Result(item.call_id)


def _read(item: _Item) -> NormalItem:
    match item:
        case _Said(text=text, data=data):
            return NormalPrompt(text, data)
        case _Answer(text=text, calls=calls):
            return NormalAnswer(text, calls)
        case _:
            return NormalResult(item.call_id)
