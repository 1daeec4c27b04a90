"""The store of journals, as its users see it. SQLite implements it (`journal.sqlite`), and JetStream (`journal.jetstream`).

A journal is appended to by its *owner*: the process that has claimed it, for as long as its lease lasts. Every append names
the sequence number of the last event that the caller knows; if the journal has another one, nothing is written.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias

import msgspec

from dragoman.journal.agent_events import AgentStopped, SessionChanged
from dragoman.journal.event import JournalKind
from dragoman.journal.events import AnyEvent, JournalEntry, StampedEvent
from dragoman.journal.fold import ConversationState
from dragoman.store.errors import JournalStoreError

__all__ = [
    "JOURNAL_LEASE_SECONDS",
    "RENEW_SECONDS",
    "Claim",
    "HeldElsewhere",
    "JournalConflict",
    "JournalInfo",
    "JournalStore",
    "JournalStoreError",
    "clock_is_plausible",
    "last_use",
]

# A process that has not renewed its lease for so long hangs.
JOURNAL_LEASE_SECONDS = 90.0
RENEW_SECONDS = 20.0

# ours: this process owns the journal. held: another one does. changed: another process has appended to it since. gone: it
# is deleted.
Claim: TypeAlias = Literal["ours", "held", "changed", "gone"]


class JournalConflict(Exception):
    """Nothing was appended: the journal has other events than the caller knows, another owner, or is deleted."""


class HeldElsewhere(Exception):
    """A node that lives owns the journal. Requests for it go there."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class JournalInfo(msgspec.Struct, frozen=True, array_like=True):
    """What a list of journals shows."""

    id: str
    kind: JournalKind
    model: str
    # The first folder of its workspace.
    workspace: str
    connection: str
    title: str
    # The journal of the chat that it is part of.
    parent: str | None
    started_at: float
    used_at: float
    # The sequence number of its last event.
    sequence: int
    # Whether a process that lives holds it now, and which: a word for people.
    owner: str
    # The program that began it, by its own name.
    program: str = ""
    # In a fleet, the node that holds it, or held it last. An idle agent there holds no journal.
    last_node: str = ""


_NO_USE = (AgentStopped, SessionChanged)
# In seconds: a pause that is not taken for a wrong clock.
_SHORTEST_JUMP = 7 * 24 * 3600.0


def last_use(events: Sequence[StampedEvent]) -> float:
    """When the last of these events happened that is a use of its journal; 0.0 if none is.

    That an agent ends, or a journal is released, is no use of a conversation: the order of a list stays.
    """
    return max((at for at, event in events if not isinstance(event, _NO_USE)), default=0.0)


def clock_is_plausible(now: float, seen: float, keep: float) -> bool:
    """Whether the system's time may be believed. A clock that was set forward must not delete everything.

    If more time has passed since the last look (`seen`) than anything is kept, the next look deletes.
    """
    return 0 <= now - seen <= max(keep, _SHORTEST_JUMP)


class JournalStore(Protocol):
    """All calls raise `JournalStoreError` when the store cannot be used."""

    @property
    def is_shared(self) -> bool:
        """Whether other machines use it. What cannot be claimed may go on at one of them, and is never forked."""
        ...

    async def append(
        self, journal: str, expected: int, events: Sequence[StampedEvent], *, holds: bool = True
    ) -> int:
        """Append events after the event `expected`, and own the journal from then on, or release it if not `holds`.

        With `expected` 0 it makes the journal: the first event is a `JournalStarted` then. Returns the sequence number of the
        last event. Raises `JournalConflict`, with nothing written.
        """
        ...

    async def read(self, journal: str, after: int = 0) -> list[JournalEntry]:
        """The events after this one, in order. None of an unknown journal. Raises `UnreadableJournal`."""
        ...

    def follow(self, journal: str, after: int = 0) -> AsyncGenerator[JournalEntry, None]:
        """The events after this one, and then each further one as it is appended, by this process or another."""
        ...

    async def claim(self, journal: str, expected: int) -> Claim:
        """Become the owner of a journal whose last event is `expected`.

        Raises `HeldElsewhere` if the store is shared by several machines, and a process on another one owns it.
        """
        ...

    async def release(self, journal: str) -> None:
        """Own it no longer. Does nothing if this process does not own it."""
        ...

    def is_leased(self, since: float) -> bool:
        """Whether nobody else can own now what this process owned at `since`, in seconds of the monotonic clock."""
        ...

    async def renew(self) -> frozenset[str]:
        """Extend all leases of this process. Returns the journals that it owns."""
        ...

    async def state(self, journal: str) -> tuple[ConversationState, int] | None:
        """The fold of an agent's conversation, and the sequence number of its last event. None: there is no such journal.

        Raises `UnreadableJournal`.
        """
        ...

    async def heads(self, model: str, seen: int | None) -> tuple[int, dict[str, int]] | None:
        """The last sequence number of each of a model's conversations, and a number to give with the next call.

        None if no other process has written since the call that returned `seen`.
        """
        ...

    async def find(self, journal: str) -> JournalInfo | None: ...

    async def journals(self, *kinds: JournalKind) -> list[JournalInfo]:
        """The journals of these kinds, the latest used first."""
        ...

    async def permissions(
        self, since: float, *, is_elsewhere: bool = False
    ) -> list[tuple[str, JournalEntry]]:
        """All requests for permissions since then and their decisions, each with its journal's id, in the order of time.

        `is_elsewhere`: only those in journals that another process has claimed.
        """
        ...

    async def version_seen(self) -> int:
        """A number that changes when other processes have written."""
        ...

    async def delete(self, journal: str) -> bool:
        """Delete a journal's content, and that of the journals it is the parent of; decisions stay, without content.

        False: there is no such journal, or a process that lives holds it.
        """
        ...

    async def amend(self, journal: str, sequence: int, change: Callable[[AnyEvent], AnyEvent]) -> None:
        """Replace an event by what a deletion leaves of it. Nothing else changes an event. Does nothing if it is gone."""
        ...

    async def forget_unused(self, now: datetime, keep: timedelta) -> int:
        """Delete what was not used for so long and is not held. Returns how many."""
        ...
