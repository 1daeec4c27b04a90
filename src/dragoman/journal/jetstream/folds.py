"""The folds of agents' conversations that this node has loaded or appends to; their snapshots and index entries.

Snapshots and the index only save time: that one cannot be written is no failure of an append.
"""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from dragoman.conversations.records import joinable_places
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.hints import index_keys
from dragoman.fleet.stored import StoredMessage, StoredStream
from dragoman.fleet.subjects import INDEX_SUBJECTS, SNAPSHOT_SUBJECTS, SNAPSHOTS
from dragoman.journal.agent_events import ConversationImported, ReplyEnded, RequestReceived, SessionChanged
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import JournalEntry, UnreadableJournal
from dragoman.journal.fold import ConversationFold, ConversationState
from dragoman.journal.jetstream.head import JournalHead, KnownHead, journal_token
from dragoman.journal.jetstream.messages import JournalMessages
from dragoman.journal.snapshots import decode_snapshot, encode_snapshot, wait_after

__all__ = ["ConversationFolds"]

_log = logging.getLogger(__name__)

# Conversations of which the fold stays in memory. Each takes about 200 bytes for each item of its history.
_MOST_LOADED = 500
# Entries of the index end a day after they were written, or later (`fleet.streams`). Those of a conversation that is used are
# written again this often.
_RENEW_SECONDS = 6 * 3600.0
_SNAPSHOT = "Dg-Snapshot"
# These change by what a request is recognised.
_CHANGES_PLACES = (JournalStarted, RequestReceived, ReplyEnded, ConversationImported)


class _SnapshotHead(msgspec.Struct, frozen=True):
    # The number of the last event in it, and the stream sequence number of that event's message.
    last: int
    sequence: int
    # The node that recorded the agent's session.
    session_node: str


@dataclass(slots=True)
class _Loaded:
    fold: ConversationFold
    last: int = 0
    sequence: int = 0
    session_node: str = ""
    # How many bytes of events there may be until the next snapshot.
    until_snapshot: int = field(default_factory=lambda: wait_after(0))
    # Under which the index has it, as far as this node has written them; and when it last wrote all of them.
    keys: set[str] = field(default_factory=set)
    keys_at: float = 0.0

    def take(self, head: JournalHead, sequence: int, entries: Sequence[JournalEntry], size: int) -> None:
        for entry in entries:
            if entry.sequence <= self.last:
                # An amendment: what it says of a conversation is taken already.
                continue
            if entry.sequence != self.last + 1:
                raise UnreadableJournal(f"there is no event {self.last + 1}")
            self.fold.apply(entry.event)
            self.last = entry.sequence
            if isinstance(entry.event, SessionChanged | ConversationImported):
                self.session_node = head.node
        self.sequence = sequence
        self.until_snapshot -= size


class ConversationFolds:
    def __init__(
        self, connection: FleetConnection, messages: JournalMessages, node: str, shared: Path | None
    ) -> None:
        self._connection = connection
        self._snapshots = StoredStream(connection, SNAPSHOTS)
        self._messages = messages
        self._node = node
        self.clock: Callable[[], float] = time.monotonic
        self._shared = None if shared is None else shared.resolve()
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()

    def forget(self, journal: str) -> None:
        self._loaded.pop(journal, None)

    async def state(self, journal: str, at_least: int) -> tuple[ConversationState, int] | None:
        """The state, and the number of the last event. Raises `UnreadableJournal`, `FleetUnavailable` or `NoAnswer`."""
        loaded = await self._load(journal, at_least)
        if loaded is None:
            return None
        state = loaded.fold.state
        is_here = loaded.session_node == self._node or self._is_shared(state.record.scope.workspace)
        if state.session is not None and not is_here:
            # The agent's own files are on the other machine.
            state = replace(state, session=None)
        return state, loaded.last

    def _is_shared(self, workspace: Sequence[str]) -> bool:
        """Whether all folders of a workspace are in the folder that all workers reach."""
        shared = self._shared
        return (
            shared is not None
            and bool(workspace)
            and all(Path(os.path.realpath(folder)).is_relative_to(shared) for folder in workspace)
        )

    async def appended(self, known: KnownHead, entries: Sequence[JournalEntry]) -> None:
        """This node has appended these events, one at least: note them, make index entries, and perhaps a snapshot."""
        journal = known.head.info.id
        loaded = self._loaded.get(journal)
        try:
            if entries[0].sequence == 1:
                loaded = self._keep(journal, _Loaded(ConversationFold(journal)))
            if loaded is not None and loaded.last == entries[0].sequence - 1:
                loaded.take(known.head, known.sequence, entries, known.size)
            else:
                loaded = await self._load(journal, known.sequence)
            if loaded is None:
                return
            if any(isinstance(entry.event, _CHANGES_PLACES) for entry in entries):
                await self._index(journal, loaded)
            if loaded.until_snapshot <= 0:
                loaded.until_snapshot = wait_after(await self._make_snapshot(journal, loaded))
        except (UnreadableJournal, FleetUnavailable, NoAnswer) as error:
            self.forget(journal)
            _log.warning("%s has no new snapshot or index entry: %s", journal, error)

    async def erase_snapshot(self, journal: str) -> None:
        """Overwrite it in the server's files."""
        for message in await self._snapshots.last_of_each([_snapshot_subject(journal)]):
            await self._snapshots.erase(message.sequence)

    def _keep(self, journal: str, loaded: _Loaded) -> _Loaded:
        self._loaded[journal] = loaded
        self._loaded.move_to_end(journal)
        while len(self._loaded) > _MOST_LOADED:
            self._loaded.popitem(last=False)
        return loaded

    async def _load(self, journal: str, at_least: int) -> _Loaded | None:
        loaded = self._loaded.get(journal)
        if loaded is None:
            loaded = await self._from_snapshot(journal)
        messages = await self._messages.after(journal, loaded.sequence, at_least)
        if not messages and loaded.sequence == 0:
            return None
        taken = [(message, await self._messages.entries(message)) for message in messages]
        try:
            for message, entries in taken:
                head = JournalHead.read(message)
                if head.is_deleted:
                    self.forget(journal)
                    return None
                # Another call may have taken it meanwhile.
                if message.sequence > loaded.sequence:
                    loaded.take(head, message.sequence, entries, len(message.data))
        except UnreadableJournal:
            self.forget(journal)
            raise
        return self._keep(journal, loaded)

    async def _from_snapshot(self, journal: str) -> _Loaded:
        found = await self._snapshots.last_of_each([_snapshot_subject(journal)])
        head = _snapshot_head(found[0]) if found else None
        state = decode_snapshot(journal, found[0].data) if head is not None else None
        if head is None or state is None:
            return _Loaded(ConversationFold(journal))
        return _Loaded(
            ConversationFold(journal, state),
            head.last,
            head.sequence,
            head.session_node,
            wait_after(len(found[0].data)),
        )

    async def _make_snapshot(self, journal: str, loaded: _Loaded) -> int:
        """Returns how many bytes it has."""
        content = encode_snapshot(loaded.fold.state)
        head = _SnapshotHead(loaded.last, loaded.sequence, loaded.session_node)
        headers = {_SNAPSHOT: msgspec.json.encode(head).decode()}
        # What replaces a message does not overwrite it.
        await self.erase_snapshot(journal)
        await self._snapshots.put(_snapshot_subject(journal), content, headers=headers)
        known = await self._messages.head(journal)
        if known is None or known.head.is_deleted:
            # It was deleted just then.
            await self.erase_snapshot(journal)
        return len(content)

    async def _index(self, journal: str, loaded: _Loaded) -> None:
        record = loaded.fold.record
        scope = record.scope
        keys = index_keys(
            scope.model,
            scope.connection,
            scope.client,
            consumer_id=record.consumer_id,
            links=joinable_places(record),
        )
        if not loaded.keys or self.clock() - loaded.keys_at >= _RENEW_SECONDS:
            loaded.keys, loaded.keys_at = set(), self.clock()
        for key in set(keys) - loaded.keys:
            # Nobody waits for it: without it, a request is not recognised by its history, and the transcript is replayed.
            await self._connection.publish(f"{INDEX_SUBJECTS}.{key}.{journal_token(journal)}", b"")
        loaded.keys = set(keys)


def _snapshot_subject(journal: str) -> str:
    return f"{SNAPSHOT_SUBJECTS}.{journal_token(journal)}"


def _snapshot_head(message: StoredMessage) -> _SnapshotHead | None:
    try:
        return msgspec.json.decode(message.headers[_SNAPSHOT], type=_SnapshotHead)
    except (KeyError, msgspec.MsgspecError):
        return None
