"""Snapshots of the fold of an agent's conversation, with which a store loads a long one without reading all of it."""

from __future__ import annotations

import logging

import msgspec

from dragoman.journal.events import UnreadableJournal
from dragoman.journal.fold import ConversationFold, ConversationState

__all__ = ["decode_snapshot", "encode_snapshot", "wait_after"]

_log = logging.getLogger(__name__)

# A snapshot is made when the events since the last one have this many bytes, and this many times as many as the last one
# had: it is written twice, to the log and from there to the file, and must stay a small part of what a turn writes.
SNAPSHOT_BYTES = 64 * 1024
_SNAPSHOT_TIMES = 3
# It grows when older versions could misread a snapshot. One of another format is not used.
_SNAPSHOT_FORMAT = 1


def wait_after(snapshot: int) -> int:
    """How many bytes of events follow a snapshot of this size before the next one is made."""
    return max(SNAPSHOT_BYTES, _SNAPSHOT_TIMES * snapshot)


def encode_snapshot(state: ConversationState) -> bytes:
    return msgspec.msgpack.encode((_SNAPSHOT_FORMAT, state))


def decode_snapshot(journal: str, content: bytes) -> ConversationState | None:
    """None if it cannot be read: then all events are."""
    try:
        format_, state = msgspec.msgpack.decode(content, type=tuple[int, ConversationState])
        # The fold refuses what does not fit together.
        is_usable = format_ == _SNAPSHOT_FORMAT and ConversationFold(journal, state).record.id == journal
    except (msgspec.MsgspecError, UnicodeError, UnreadableJournal) as error:
        _log.info("a snapshot of %s cannot be read: %s", journal, error)
        return None
    return state if is_usable else None
