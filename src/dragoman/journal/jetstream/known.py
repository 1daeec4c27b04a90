"""The heads of journals that this node knows, who owns them, and how one is replaced.

A head that is known may be out of date: every write is compared with the journal's last message, and then the head is
loaded again.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict

from msgspec.structs import replace

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import NodeLease, find_lease
from dragoman.fleet.stored import WrongSequence
from dragoman.journal.jetstream.audit import AuditLog
from dragoman.journal.jetstream.head import JournalHead, KnownHead
from dragoman.journal.jetstream.messages import JournalMessages
from dragoman.journal.store import JournalStoreError

__all__ = ["KnownHeads", "new_attempt"]

# Heads that this node does not own: of conversations that requests may belong to.
_MOST_CONSIDERED = 20_000


def new_attempt() -> str:
    return secrets.token_hex(8)


class KnownHeads:
    """All calls that use the network raise `FleetUnavailable` or `NoAnswer`."""

    def __init__(self, connection: FleetConnection, lease: NodeLease) -> None:
        self._connection = connection
        self._lease = lease
        self.messages = JournalMessages(connection, self.check_fence)
        self.audit = AuditLog(connection)
        # The longest unused first.
        self._known: OrderedDict[str, KnownHead] = OrderedDict()
        # It grows when others have changed what this node knows.
        self.version = 0

    def get(self, journal: str) -> KnownHead | None:
        return self._known.get(journal)

    def sequence(self, journal: str) -> int:
        """The stream sequence number of the last message that is known."""
        known = self._known.get(journal)
        return 0 if known is None else known.sequence

    def lasts(self, model: str) -> dict[str, int]:
        """The last event of each conversation of a model."""
        return {
            id_: known.head.last
            for id_, known in self._known.items()
            if known.head.info.kind == "agent" and known.head.info.model == model
        }

    def owned(self) -> frozenset[str]:
        if self._lease.seconds_left() <= 0:
            return frozenset()
        return frozenset(id_ for id_, known in self._known.items() if self.is_ours(known.head))

    def note(self, known: KnownHead, *, is_news: bool = False) -> None:
        """A head was read or written. `is_news`: perhaps another node wrote it."""
        id_ = known.head.info.id
        before = self._known.get(id_)
        if before is not None and before.sequence > known.sequence:
            # A replica that lags behind.
            self._known.move_to_end(id_)
            return
        if known.head.is_deleted:
            self.forget(id_)
            return
        if is_news and (before is None or before.head.last != known.head.last):
            self.version += 1
        self._known[id_] = known
        self._known.move_to_end(id_)
        if len(self._known) > _MOST_CONSIDERED:
            oldest = next((each for each, held in self._known.items() if not self.is_ours(held.head)), None)
            if oldest is not None:
                self.forget(oldest)

    def forget(self, journal: str) -> None:
        if self._known.pop(journal, None) is not None:
            self.version += 1

    async def load(self, journal: str) -> KnownHead | None:
        """The head as the stream's leader has it, of a deleted journal, too. None: there never was such a journal."""
        known = await self.messages.head(journal)
        if known is None:
            self.forget(journal)
        elif journal in self._known:
            self.note(known, is_news=True)
        return known

    # Owners.

    def check_fence(self) -> None:
        if self._lease.seconds_left() <= 0:
            raise JournalStoreError(
                f"The node {self._lease.node} has lost its lease, which was not renewed in time. Others may act in its place."
            )

    def is_ours(self, head: JournalHead) -> bool:
        return head.incarnation == self._lease.incarnation

    async def lives(self, head: JournalHead) -> bool:
        """Whether the incarnation that owns a journal lives."""
        if not head.incarnation:
            return False
        lease = await find_lease(self._connection, head.node)
        return lease is not None and lease.incarnation == head.incarnation

    async def is_held_elsewhere(self, head: JournalHead) -> bool:
        return not self.is_ours(head) and await self.lives(head)

    def claimed(self, head: JournalHead, attempt: str) -> JournalHead:
        return head.owned_by(self._lease.node, self._lease.incarnation, attempt)

    def released(self, head: JournalHead) -> JournalHead:
        return replace(head, incarnation="")

    # Writing.

    async def replace(
        self, known: KnownHead, head: JournalHead, content: bytes = b"", *, is_only: bool = False
    ) -> KnownHead | None:
        """Write the next message of a journal. None: it was not written, because another one came before it."""
        try:
            written = await self.messages.put(head, content, known.sequence, is_only=is_only)
        except WrongSequence:
            self._known.pop(head.info.id, None)
            return None
        self.note(written)
        return written

    async def audited(self, known: KnownHead) -> JournalHead:
        """The head, when all decisions of the journal are in the audit log."""
        head = known.head
        if not head.unaudited:
            return head
        for message in await self.messages.after(head.info.id, 0, known.sequence):
            if JournalHead.read(message).last >= head.unaudited:
                entries = await self.messages.entries(message)
                missing = [entry for entry in entries if entry.sequence >= head.unaudited]
                await self.audit.add(head.info.id, message.sequence, missing)
        return replace(head, unaudited=0)
