"""The head of a journal, and the message that carries it. No I/O.

Every message of a journal has the head that is true from then on: the owner, the epoch, the number of the last event, and
what a list shows. A message may have events; one that claims or releases a journal has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from dragoman.fleet.stored import StoredMessage
from dragoman.fleet.subjects import JOURNAL_SUBJECTS, subject_token
from dragoman.journal.content import is_decision
from dragoman.journal.event import JournalKind, JournalStarted
from dragoman.journal.events import JournalEntry, StampedEvent, UnreadableJournal, decode_events
from dragoman.journal.store import JournalInfo, last_use
from dragoman.lm.json import encode

__all__ = [
    "HEAD",
    "JournalHead",
    "KnownHead",
    "ListedInfo",
    "journal_subject",
    "journal_token",
]

HEAD = "Dg-Head"

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")

# "": it is there. erasing: it is deleted, and its content is being erased. deleted: nothing of it is left.
JournalLife: TypeAlias = Literal["", "erasing", "deleted"]


def journal_token(journal: str) -> str:
    """The id of a journal as one token of a subject. Ids come from clients, too: none may be a wildcard."""
    return journal if _PLAIN.fullmatch(journal) else f"~{subject_token(journal)}"


def journal_subject(journal: str) -> str:
    return f"{JOURNAL_SUBJECTS}.{journal_token(journal)}"


class ListedInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a list shows of a journal, as far as its owner writes it."""

    id: str
    kind: JournalKind
    model: str = ""
    workspace: str = ""
    connection: str = ""
    title: str = ""
    parent: str | None = None
    started_at: float = 0.0
    used_at: float = 0.0
    program: str = ""

    @classmethod
    def of(cls, id_: str, started: JournalStarted, at: float) -> ListedInfo:
        workspace = started.workspace[0] if started.workspace else ""
        return cls(
            id_,
            started.kind,
            started.model,
            workspace,
            started.connection,
            started.title,
            started.parent,
            at,
            at,
            started.program,
        )


class JournalHead(msgspec.Struct, frozen=True, omit_defaults=True):
    info: ListedInfo
    # The sequence number of the last event.
    last: int
    # How often the journal was claimed or deleted.
    epoch: int
    # The node that owns it, or owned it last; and its incarnation, or "" if nobody owns it.
    node: str
    incarnation: str = ""
    # The attempt that wrote the last event or owner.
    attempt: str = ""
    # The number of the first event in this message, and how many it has.
    first: int = 0
    count: int = 0
    # Stream sequence numbers of messages that have the events, if they are too large for this one.
    chunks: tuple[int, ...] = ()
    # The number of the first decision that may be missing in the audit log. 0: all are there.
    unaudited: int = 0
    life: JournalLife = ""

    @property
    def is_deleted(self) -> bool:
        return self.life != ""

    def lives_in(self, incarnations: Mapping[str, str]) -> bool:
        """Whether the journal's owner is among these: the incarnation of each node that lives."""
        return bool(self.incarnation) and incarnations.get(self.node) == self.incarnation

    def owned_by(self, node: str, incarnation: str, attempt: str) -> JournalHead:
        """The head when this incarnation becomes the owner, or stays it."""
        return replace(
            self,
            node=node,
            incarnation=incarnation,
            epoch=self.epoch + (incarnation != self.incarnation),
            attempt=attempt,
            first=0,
            count=0,
            chunks=(),
        )

    def with_events(self, events: Sequence[StampedEvent]) -> JournalHead:
        """The head after these events, in the message that has them."""
        first = self.last + 1
        decisions = (number for number, (_, event) in enumerate(events, first) if is_decision(event))
        return replace(
            self,
            info=replace(self.info, used_at=max(self.info.used_at, round(last_use(events), 3))),
            first=first if events else 0,
            count=len(events),
            last=self.last + len(events),
            unaudited=next(decisions, 0),
        )

    def erased(self, attempt: str, life: JournalLife) -> JournalHead:
        """What is left of it when it is deleted."""
        return JournalHead(
            ListedInfo(self.info.id, self.info.kind), 0, self.epoch + 1, self.node, attempt=attempt, life=life
        )

    def header(self) -> str:
        # Headers are ASCII.
        return json.dumps(json.loads(encode(self)), separators=(",", ":"))

    @classmethod
    def read(cls, message: StoredMessage) -> JournalHead:
        """Raises `UnreadableJournal`."""
        try:
            return msgspec.json.decode(message.headers[HEAD], type=cls)
        except (KeyError, msgspec.MsgspecError, UnicodeError) as error:
            raise UnreadableJournal(f"message {message.sequence} has no head: {error}") from error

    def entries(self, data: bytes) -> list[JournalEntry]:
        """The events of this message. Raises `UnreadableJournal`."""
        if not self.first:
            return []
        return [
            JournalEntry(sequence, at, event)
            for sequence, (at, event) in enumerate(decode_events(data), self.first)
        ]

    def shown(self, owner: str) -> JournalInfo:
        return JournalInfo(**asdict(self.info), sequence=self.last, owner=owner, last_node=self.node)


@dataclass(frozen=True, slots=True)
class KnownHead:
    """A head, and the stream sequence number of its message: what the next message is compared with."""

    head: JournalHead
    sequence: int
    # In bytes: of the events in its message.
    size: int = 0

    @classmethod
    def read(cls, message: StoredMessage) -> KnownHead:
        return cls(JournalHead.read(message), message.sequence, len(message.data))
