"""Serialisation of conversations: the form in which they are stored on disk and loaded by another process.

Stored are the record, which identifies requests, the agent's session id, and how many call ids were issued. Momentary
state is not stored: a reply that was streaming is stored as cut, and the request key and end time of the last reply are
dropped.
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
    """A stored conversation cannot be read. It starts again, with a full transcript for the agent."""


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
    # Unused. Older versions stored a digest of the request here; the field stays so that their files can be read.
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
    """A conversation as it is stored: its record, the agent's session id, and how many call ids were issued."""

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
            raise SavedError(f"it was stored in format {content.version}; this version reads {_VERSION}")
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
