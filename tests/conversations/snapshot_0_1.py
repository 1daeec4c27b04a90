"""The record of a conversation and its stored form, as Dragoman 0.1 had them: what a journal's fold is compared with.

It is a copy that nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec
from msgspec import structs

from dragoman.conversations.history import NormalAnswer, NormalHistory, NormalItem, NormalPrompt, NormalResult
from dragoman.conversations.records import ReplyRecord, ReplyStatus, RequestKey, Scope
from dragoman.lm.json import encode

__all__ = ["Record01", "Saved01", "SavedError", "load_0_1", "save_0_1"]

_VERSION = 1


class SavedError(Exception):
    """A stored conversation cannot be read."""


@dataclass(frozen=True, slots=True)
class Record01:
    """The timeline of one conversation. Immutable: each change returns a new record."""

    id: str
    scope: Scope
    items: tuple[NormalItem, ...] = ()
    replies: tuple[ReplyRecord, ...] = ()
    # Calls that were handed to the consumer and have no result yet.
    pending: frozenset[str] = frozenset()
    # The consumer's id, where it sends one: shared with its sub-agents, so it is never sufficient evidence.
    consumer_id: str | None = None

    @property
    def last(self) -> ReplyRecord | None:
        return self.replies[-1] if self.replies else None

    def with_request(
        self,
        history: NormalHistory,
        places: Mapping[int, int],
        *,
        turn: int,
        request_key: RequestKey | None = None,
    ) -> Record01:
        """The record after a request with this history: the history is committed, and a reply to it begins.

        `places` has, for each earlier reply, how many items of this history precede its end. A consumer may have
        changed the items before a reply, so the old places are invalid. A reply that the history lacks is removed.
        """
        number = self.last.number + 1 if self.last else 1
        replies = [
            _placed(reply, history, places[reply.number]) for reply in self.replies if reply.number in places
        ]
        size = len(history.items)
        reply = ReplyRecord(number, turn, size, size, request_key=request_key)
        return replace(self, items=history.items, replies=(*replies, reply))

    def with_answer(self, answer: NormalAnswer) -> Record01:
        """The record with the open reply's content so far, which replaces its earlier content."""
        reply = self._open_reply()
        # No history contains an answer without text and calls.
        answers = (answer,) if answer.text or answer.calls else ()
        items = (*self.items[: reply.starts], *answers)
        after = structs.replace(reply, ends=len(items), call_ids=answer.call_ids)
        return replace(self, items=items, replies=(*self.replies[:-1], after))

    def ended(self, status: ReplyStatus, now: float, pending: Iterable[str] = ()) -> Record01:
        reply = structs.replace(self._open_reply(), status=status, ended_at=now)
        return replace(self, replies=(*self.replies[:-1], reply), pending=self.pending | frozenset(pending))

    def settled(self, call_ids: Iterable[str]) -> Record01:
        """The record after these calls got their results."""
        return replace(self, pending=self.pending - frozenset(call_ids))

    def _open_reply(self) -> ReplyRecord:
        if self.last is None:
            raise AssertionError(f"conversation {self.id} has no reply under way")
        return self.last


def _placed(reply: ReplyRecord, history: NormalHistory, ends: int) -> ReplyRecord:
    """A reply that ends at this place of the history. If the consumer dropped its text, only a marker is left of it."""
    starts = ends - 1 if ends and isinstance(history.items[ends - 1], NormalAnswer) else ends
    is_so = starts == reply.starts and ends == reply.ends and reply.request_key is None
    return reply if is_so else structs.replace(reply, starts=starts, ends=ends, request_key=None)


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


class Saved01(msgspec.Struct, frozen=True):
    """A conversation as it is stored: its record, the agent's session id, and how many call ids were issued."""

    record: Record01
    session: str | None
    calls: int


_decoder = msgspec.json.Decoder(_Content)


def save_0_1(record: Record01, session: str | None, calls: int) -> bytes:
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


def load_0_1(data: bytes) -> Saved01:
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
    record = Record01(
        content.id,
        Scope(content.model, content.workspace, content.connection),
        items,
        replies,
        frozenset(content.pending),
        content.consumer_id,
    )
    return Saved01(record, content.session, content.calls)


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
