"""The store of responses on JetStream: every gateway of a fleet finds what another one has stored.

A response is the last message of a subject, which begins with its connection: one connection cannot name what another one
has. Content that is larger than a message is in pieces, stored before; the message names their sequence numbers. Every
change is a compare-and-set with the message before it.

What is replaced or deleted is erased: the server overwrites it in its files. What was not used for long expires
(`max_age`), and the oldest goes when there is no room (`max_bytes`). To use a response means to store it again, so that is
done once a day at most.

Whoever reads asks any server that has the stream, which may be a moment behind. What is not found there, the leader is
asked for.

| subject, below `dg.r.CONNECTION` | has |
|---|---|
| `r.ID`, `r.ID.p` | a response, and pieces of its content |
| `f.RESPONSE.SECRET`, `f.RESPONSE.SECRET.p` | a file of a response, and pieces of it |
| `i.KEY` | the ids of the responses with an item, the newest last |
| `c.KEY.CONVERSATION` | that a conversation of this server has had an item |
| `a.CONVERSATION.ID` | that a response belongs to an agent's conversation |
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec
from nats.js.api import DiscardPolicy, StreamConfig

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.stored import StoredMessage, StoredStream, WrongSequence, through_election
from dragoman.fleet.subjects import RESPONSE_SUBJECTS, RESPONSES, subject_token
from dragoman.store.errors import DamagedEntry, JournalStoreError
from dragoman.store.responses import (
    MOST_CONVERSATIONS,
    StoredResponse,
    file_ids,
    item_key,
    own_item_key,
)

__all__ = ["JetStreamResponses", "responses_stream"]

# Of all gateways together: twice what one machine's file has. JetStream reserves it.
_MOST_BYTES = 1024 * 1024 * 1024
# A use within this time after the last one is not stored. Everything lives so much longer than it must.
_USE_INTERVAL = timedelta(days=1)
# Responses whose last use this process remembers: the longest chain, and more.
_MOST_USES = 20_000
# No id of ours is longer. A client may ask for any.
_MOST_ID = 128
# Each failed try means that another gateway has changed the same response.
_MOST_TRIES = 20
# Conversations that are looked at for one item, before the newest are chosen.
_MOST_LISTED = 64
_NEVER = datetime.min.replace(tzinfo=UTC)
_KEY_BYTES = 8
# Of a message, beside content and keys: ids, and the headers.
_HEAD_BYTES = 4096


def responses_stream(keep: timedelta | None, replicas: int = 1, max_bytes: int = _MOST_BYTES) -> StreamConfig:
    """The stream. Responses that were not used for `keep` expire within a day; without it they stay."""
    return StreamConfig(
        name=RESPONSES,
        subjects=[f"{RESPONSE_SUBJECTS}.>"],
        num_replicas=replicas,
        max_age=None if keep is None else (keep + _USE_INTERVAL).total_seconds(),
        max_bytes=max_bytes,
        discard=DiscardPolicy.OLD,
        allow_direct=True,
    )


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """A response or a file as it is stored. `content` is empty if there are pieces."""

    id: str
    connection: str
    previous: str | None
    used_at: datetime
    conversation: str | None
    # The keys of its items, eight bytes each: they are indexed again when it is used.
    keys: bytes
    content: bytes
    pieces: tuple[int, ...] = ()


# What becomes of a row: itself changed, and new content or None for that which it has. None: it stays as it is.
_Changed: TypeAlias = tuple[_Row, bytes | None] | None


class _Gone(Exception):
    """A piece of the content is not there any more."""


class JetStreamResponses:
    """Implements `ResponseStore`."""

    def __init__(self, connection: FleetConnection) -> None:
        self._connection = connection
        self._stream = StoredStream(connection, RESPONSES)
        # When each subject's response was last stored as used, as far as this process has seen.
        self._uses: OrderedDict[str, datetime] = OrderedDict()

    # Write.

    async def save(
        self, response: StoredResponse, items: Iterable[str] = (), own: Iterable[str] = ()
    ) -> None:
        subject = _subject_of(response.id, response.connection)
        keys = _keys(items, own)
        row = _Row(
            response.id,
            response.connection,
            response.previous,
            response.used_at,
            response.conversation,
            b"".join(keys),
            b"",
        )
        with self._in_use():
            await self._put_row(subject, row, response.content, expected=0)
            await self._index(row, keys)

    async def update(
        self,
        id_: str,
        connection: str,
        change: Callable[[bytes], bytes | None],
        items: Iterable[str] = (),
        own: Iterable[str] = (),
    ) -> None:
        keys = _keys(items, own)

        async def changed(row: _Row) -> _Changed:
            content = change(await self._content(row))
            all_keys = b"".join(dict.fromkeys((*_split(row.keys), *keys)))
            return None if content is None else (msgspec.structs.replace(row, keys=all_keys), content)

        with self._in_use():
            row = await self._replace(_subject_of(id_, connection), changed)
            if row is not None:
                await self._index(msgspec.structs.replace(row, conversation=None), keys)

    async def assign(self, id_: str, connection: str, conversation: str) -> None:
        async def changed(row: _Row) -> _Changed:
            return msgspec.structs.replace(row, conversation=conversation), None

        with self._in_use():
            row = await self._replace(_subject_of(id_, connection), changed)
            if row is not None:
                await self._index(row, ())

    async def touch(self, ids: Iterable[str], connection: str, now: datetime) -> None:
        with self._in_use():
            for id_ in ids:
                if not _is_plausible(id_):
                    continue
                subject = _subject_of(id_, connection)
                if now - self._uses.get(subject, _NEVER) < _USE_INTERVAL:
                    continue
                await self._touch(subject, now)
                if not _is_file(id_):
                    async for message in self._messages(f"{_files_of(id_, connection)}.*"):
                        await self._touch(message.subject, now)

    async def index(self, conversation: str, connection: str, items: Iterable[str]) -> None:
        place, token = _place(connection), subject_token(conversation)
        with self._in_use():
            await self._put_all(
                {f"{place}.c.{key.hex()}.{token}": conversation.encode() for key in _keys(items, ())}
            )

    async def delete(self, id_: str, connection: str) -> str | None:
        with self._in_use():
            found = await self._find(id_, connection, is_latest=True)
            if found is None:
                return None
            subject, place = _subject_of(id_, connection), _place(connection)
            # The response first: then nobody finds the rest.
            for each in (subject, f"{subject}.p", f"{_files_of(id_, connection)}.>"):
                await self._erase_all(each)
            conversation = found.conversation
            if conversation is None:
                return None
            async for message in self._messages(f"{place}.a.{subject_token(conversation)}.*"):
                other = message.data.decode()
                if other != id_ and await self._find(other, connection, is_latest=True) is not None:
                    return None
                await self._stream.erase(message.sequence)
            return conversation

    async def delete_of(self, conversation: str) -> list[str]:
        """Delete the responses of an agent's conversation that was deleted. Returns their ids: they may have journals."""
        deleted: list[str] = []
        with self._in_use():
            async for message in self._messages(f"{RESPONSE_SUBJECTS}.*.a.{subject_token(conversation)}.*"):
                place = message.subject.partition(".a.")[0]
                id_ = message.data.decode()
                head = await self._stream.last(f"{place}.r.{subject_token(id_)}")
                if head is not None:
                    await self.delete(id_, _row(head).connection)
                    deleted.append(id_)
                await self._stream.erase(message.sequence)
        return deleted

    async def scrub(self) -> None:
        """Nothing is left to remove: what is deleted is erased."""

    # Read.

    async def find(self, id_: str, connection: str, *, is_latest: bool = False) -> StoredResponse | None:
        with self._in_use():
            return await self._find(id_, connection, is_latest=is_latest)

    async def file(self, id_: str) -> StoredResponse | None:
        if not _is_file(id_) or not _is_plausible(id_):
            return None
        # The id alone is the credential, so the connection is not known.
        _, response, secret = id_.split("_")
        subject = f"{RESPONSE_SUBJECTS}.*.f.{subject_token(response)}.{subject_token(secret)}"
        with self._in_use():
            message = await self._stream.nearest_first(subject)
            return None if message is None else await self._whole(message)

    async def find_by_item(
        self, item: str, connection: str, *, is_own: bool = False
    ) -> StoredResponse | None:
        key = own_item_key(item) if is_own else item_key(item)
        subject = f"{_place(connection)}.i.{key.hex()}"
        with self._in_use():
            message = await self._stream.nearest_last(subject)
            while message is not None:
                found = await self._find(message.data.decode(), connection)
                if found is not None:
                    return found
                # It is gone. An older response may have the item.
                await self._stream.erase(message.sequence)
                message = await self._stream.last(subject)
        return None

    async def conversations_with(self, item: str, connection: str) -> list[str]:
        found: list[str] = []
        with self._in_use():
            async for message in self._messages(f"{_place(connection)}.c.{item_key(item).hex()}.*"):
                found.append(message.data.decode())
                if len(found) >= _MOST_LISTED:
                    break
        return list(dict.fromkeys(reversed(found)))[:MOST_CONVERSATIONS]

    # Inside.

    async def _find(self, id_: str, connection: str, *, is_latest: bool = False) -> StoredResponse | None:
        if not _is_plausible(id_):
            return None
        subject = _subject_of(id_, connection)
        read = self._stream.last if is_latest else self._stream.nearest_last
        message = await read(subject)
        return None if message is None else await self._whole(message)

    async def _whole(self, message: StoredMessage) -> StoredResponse | None:
        """The response in a message, with its content. None: it is gone meanwhile."""
        row = _row(message)
        try:
            content = await self._content(row)
        except _Gone:
            # It was replaced or deleted meanwhile; or its pieces have expired a moment before it.
            last = await self._stream.last(message.subject)
            if last is None or last.sequence == message.sequence:
                return None
            return await self._whole(last)
        self._note_use(message.subject, row.used_at)
        return StoredResponse(row.id, row.connection, row.previous, row.used_at, content, row.conversation)

    async def _content(self, row: _Row) -> bytes:
        """Raises `_Gone`."""
        pieces = [await self._stream.nearest_at(sequence) for sequence in row.pieces]
        present = [piece.data for piece in pieces if piece is not None]
        if len(present) < len(pieces):
            raise _Gone
        return b"".join(present) or row.content

    async def _replace(self, subject: str, changed: Callable[[_Row], Awaitable[_Changed]]) -> _Row | None:
        """Replace a row by what `changed` makes of it, with other content or the same. None: it stays, or is gone."""
        for _ in range(_MOST_TRIES):
            message = await self._stream.last(subject)
            if message is None:
                return None
            old = _row(message)
            try:
                result = await changed(old)
                if result is None:
                    return None
                row, content = result
                row = await self._put_row(subject, row, content, expected=message.sequence)
            except (_Gone, WrongSequence):
                continue
            for sequence in (message.sequence, *(set(old.pieces) - set(row.pieces))):
                await self._stream.erase(sequence)
            return row
        raise JournalStoreError("Too many gateways change the same response. Try again.")

    async def _put_row(self, subject: str, row: _Row, content: bytes | None, *, expected: int) -> _Row:
        """Store a row, with this content or with the one that it has."""
        most = self._connection.max_payload - _HEAD_BYTES - len(row.keys)
        if content is not None and len(content) <= most // 2:
            row = msgspec.structs.replace(row, content=content, pieces=())
        elif content is not None:
            pieces = [content[start : start + most] for start in range(0, len(content), most)]
            stored = [await self._put(f"{subject}.p", piece) for piece in pieces]
            row = msgspec.structs.replace(row, content=b"", pieces=tuple(stored))
        try:
            await self._put(subject, msgspec.msgpack.encode(row), expected=expected)
        except WrongSequence:
            for sequence in row.pieces if content is not None else ():
                await self._stream.erase(sequence)
            raise
        self._note_use(subject, row.used_at)
        return row

    async def _index(self, row: _Row, keys: Iterable[bytes]) -> None:
        place, id_ = _place(row.connection), row.id.encode()
        entries = {f"{place}.i.{key.hex()}": id_ for key in keys}
        if row.conversation is not None and not _is_file(row.id):
            entries[f"{place}.a.{subject_token(row.conversation)}.{subject_token(row.id)}"] = id_
        await self._put_all(entries)

    async def _touch(self, subject: str, now: datetime) -> None:
        async def changed(row: _Row) -> _Changed:
            if now - row.used_at < _USE_INTERVAL:
                self._note_use(subject, row.used_at)
                return None
            return msgspec.structs.replace(row, used_at=now), await self._content(row)

        row = await self._replace(subject, changed)
        if row is not None:
            await self._index(row, _split(row.keys))

    async def _put_all(self, entries: dict[str, bytes]) -> None:
        await asyncio.gather(*(self._put(subject, data) for subject, data in entries.items()))

    async def _put(self, subject: str, data: bytes, *, expected: int | None = None) -> int:
        """Store a message, and wait while the stream has no leader. Raises `WrongSequence`."""
        tries = 0

        async def stored() -> int:
            nonlocal tries
            tries += 1
            try:
                return await self._stream.put(subject, data, expected=expected)
            except WrongSequence:
                if tries == 1:
                    raise
                # What got no answer may have been stored, or be about to be: then it is refused as a second one, and not
                # there yet.
                last = await self._stream.last(subject)
                if last is not None and last.data == data:
                    return last.sequence
                if (0 if last is None else last.sequence) == expected:
                    raise NoAnswer from None
                raise

        return await through_election(stored, lambda: self._connection.is_connected)

    async def _erase_all(self, subjects: str) -> None:
        async for message in self._messages(subjects):
            await self._stream.erase(message.sequence)

    async def _messages(self, subjects: str) -> AsyncIterator[StoredMessage]:
        """All messages of these subjects, as the leader has them, the oldest first."""
        after = 0
        while True:
            message = await self._stream.next(subjects, after)
            if message is None:
                return
            after = message.sequence
            yield message

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Raise the errors of NATS as those of a store."""
        if not self._connection.is_connected:
            # Nobody would answer.
            raise JournalStoreError("There is no connection to NATS now, where responses are stored.")
        try:
            yield
        except (FleetUnavailable, NoAnswer) as error:
            raise JournalStoreError(f"Responses cannot be stored or read now: {error}") from error
        except WrongSequence as error:
            raise JournalStoreError("There is such a response already.") from error
        except msgspec.MsgspecError as error:
            raise DamagedEntry(f"A stored response is damaged ({error}).") from error

    def _note_use(self, subject: str, used_at: datetime) -> None:
        self._uses[subject] = used_at
        self._uses.move_to_end(subject)
        while len(self._uses) > _MOST_USES:
            self._uses.popitem(last=False)


def _row(message: StoredMessage) -> _Row:
    return msgspec.msgpack.decode(message.data, type=_Row)


def _place(connection: str) -> str:
    return f"{RESPONSE_SUBJECTS}.{subject_token(connection)}"


def _subject_of(id_: str, connection: str) -> str:
    if _is_file(id_):
        _, response, secret = id_.split("_")
        return f"{_place(connection)}.f.{subject_token(response)}.{subject_token(secret)}"
    return f"{_place(connection)}.r.{subject_token(id_)}"


def _files_of(id_: str, connection: str) -> str:
    """The subjects of a response's files begin so."""
    return f"{_place(connection)}.f.{subject_token(file_ids(id_).split('_')[1])}"


def _is_file(id_: str) -> bool:
    return id_.startswith("file_") and id_.count("_") == 2  # noqa: PLR2004 - its response, and its secret


def _is_plausible(id_: str) -> bool:
    return 0 < len(id_) <= _MOST_ID


def _keys(items: Iterable[str], own: Iterable[str]) -> list[bytes]:
    return list(dict.fromkeys((*map(item_key, items), *map(own_item_key, own))))


def _split(keys: bytes) -> list[bytes]:
    return [keys[start : start + _KEY_BYTES] for start in range(0, len(keys), _KEY_BYTES)]
