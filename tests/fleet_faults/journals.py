"""What the fleet wrote to JetStream, after a run: one history for each journal, and nothing by a former owner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import LeaseRecord
from dragoman.fleet.stored import StoredMessage, StoredStream
from dragoman.fleet.subjects import JOURNAL_SUBJECTS, JOURNALS, LEASE_SUBJECTS, LEASES
from dragoman.journal.jetstream.head import JournalHead
from fleet_faults.talk import Talk
from fleet_faults.world import LEASE_HISTORY

__all__ = [
    "JournalWrite",
    "LeaseLife",
    "Takeover",
    "fenced_agents",
    "former_agents_at_work",
    "former_owners_shown",
    "lives_of",
    "one_history",
    "pid_of",
    "read_leases",
    "read_writes",
    "takeovers_of",
    "unanswered",
]

# Between a server that stores and one that expires; all have one clock here.
_CLOCK_SECONDS = 0.2
# For a mirror to notice that its source has another leader, and to catch up.
_MIRROR_SECONDS = 15.0
_LOOK_SECONDS = 0.25
# How a line of a node's log begins.
_LOG_TIME = "2026-11-18 11:47:48,514"


@dataclass(frozen=True)
class JournalWrite:
    """A message of a journal, and when it was stored."""

    at: float
    head: JournalHead


@dataclass(frozen=True)
class LeaseLife:
    """An incarnation, by its lease: from when to when it may have owned journals."""

    node: str
    incarnation: str
    begin: float
    end: float

    def covers(self, moment: float) -> bool:
        return self.begin - _CLOCK_SECONDS <= moment <= self.end + _CLOCK_SECONDS


async def read_writes(connection: FleetConnection) -> dict[str, list[JournalWrite]]:
    """All messages of each journal, in the order in which they were stored."""
    found: dict[str, list[JournalWrite]] = {}
    for message in await StoredStream(connection, JOURNALS).after(f"{JOURNAL_SUBJECTS}.*"):
        head = JournalHead.read(message)
        found.setdefault(head.info.id, []).append(JournalWrite(_stored_at(message), head))
    return found


async def read_leases(connection: FleetConnection, lease_seconds: float) -> tuple[list[LeaseLife], bool]:
    """The lives, and whether the history has all renewals. A mirror that lags misses some: a life may be longer then."""
    stored = (await connection.js.stream_info(LEASES)).state.last_seq
    limit = time.monotonic() + _MIRROR_SECONDS
    while True:
        messages = await StoredStream(connection, LEASE_HISTORY).after(f"{LEASE_SUBJECTS}.*")
        # One that was cut off from its source stops early: the last renewals are missing, too.
        is_whole = len(messages) >= stored
        if is_whole or time.monotonic() > limit:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    lives = lives_of(
        [(_stored_at(message), message.subject.rpartition(".")[2], _record(message)) for message in messages],
        lease_seconds,
    )
    return lives, is_whole


def lives_of(
    messages: Iterable[tuple[float, str, LeaseRecord | None]], lease_seconds: float
) -> list[LeaseLife]:
    """The lives that these messages show: each with its moment, its node, and its record if it has one."""
    open_: dict[str, LeaseLife] = {}
    lives: list[LeaseLife] = []
    for at, node, record in messages:
        known = open_.pop(node, None)
        if known is not None and record is not None and record.incarnation == known.incarnation:
            open_[node] = LeaseLife(node, known.incarnation, known.begin, at + lease_seconds)
            continue
        if known is not None:
            lives.append(LeaseLife(node, known.incarnation, known.begin, min(known.end, at)))
        if record is not None and record.incarnation:
            open_[node] = LeaseLife(node, record.incarnation, at, at + lease_seconds)
    return [*lives, *open_.values()]


def one_history(
    journal: str,
    writes: Sequence[JournalWrite],
    lives: Mapping[str, LeaseLife],
    *,
    are_all: bool = True,
) -> list[str]:
    """What is wrong with the messages of a journal. `lives`: by incarnation. `are_all`: and no renewal is missing."""
    found = []
    for write in writes if are_all else ():
        head = write.head
        life = lives.get(head.incarnation)
        if head.incarnation and (life is None or write.at < life.begin - _CLOCK_SECONDS):
            found.append(f"{journal}: {head.node} {head.incarnation} wrote without a lease")
    for before, write in pairwise(writes):
        old, new = before.head, write.head
        if new.is_deleted:
            continue
        where = f"{journal}, epoch {old.epoch} to {new.epoch}"
        if new.epoch < old.epoch:
            found.append(f"{where}: written by a former owner, {new.node}")
        if new.epoch == old.epoch and new.incarnation not in ("", old.incarnation) and old.incarnation:
            found.append(f"{where}: {new.node} wrote, and {old.node} owned it")
        if new.last != old.last + new.count or (new.count and new.first != old.last + 1):
            found.append(f"{where}: events {new.first} to {new.last} come after event {old.last}")
        if new.epoch > old.epoch:
            owner = lives.get(old.incarnation)
            claimed = lives.get(new.incarnation)
            if owner is not None and owner.node != new.node and write.at < owner.end - _CLOCK_SECONDS:
                found.append(
                    f"{where}: taken from {old.node}, whose lease lived until {owner.end - write.at:.1f} s later"
                )
            if are_all and claimed is not None and not claimed.covers(write.at):
                found.append(f"{where}: claimed by {new.node} without a lease")
    return found


@dataclass(frozen=True)
class Takeover:
    """The conversation of an agent's process is another node's from then on."""

    journal: str
    former: JournalHead
    taken: JournalWrite

    def __str__(self) -> str:
        return f"{_owner(self.taken.head)} took {self.journal} from {_owner(self.former)}"


def takeovers_of(
    writes: Mapping[str, Sequence[JournalWrite]], places: Mapping[str, tuple[str, int]]
) -> dict[int, Takeover]:
    """By the id of the agent's process. `places`: of words that are journalled, the journal and the number of the event."""
    # The journal of each agent's process, and the head with which its last words were written.
    owned: dict[int, tuple[str, JournalHead]] = {}
    for word, (journal, sequence) in places.items():
        head = next(
            w.head for w in writes[journal] if w.head.first and w.head.first <= sequence <= w.head.last
        )
        pid = pid_of(word)
        if pid not in owned or owned[pid][1].epoch < head.epoch:
            owned[pid] = journal, head
    found = {}
    for pid, (journal, head) in owned.items():
        # The message with the last events of a turn also releases the journal.
        owners = {w.head.incarnation for w in writes[journal] if w.head.epoch == head.epoch} - {""}
        # A node that releases a journal and claims it again begins another epoch, too.
        taken = next(
            (
                write
                for write in writes[journal]
                if write.head.epoch > head.epoch
                and write.head.incarnation
                and write.head.incarnation not in owners
                and (owners or write.head.node != head.node)
            ),
            None,
        )
        if taken is not None:
            found[pid] = Takeover(journal, head, taken)
    return found


def former_owners_shown(talks: Iterable[Talk], takeovers: Mapping[int, Takeover]) -> list[str]:
    """N2: words that came to a chat after another node had taken the conversation of the agent that said them."""
    return [
        f"N2: {word} came to chat {talk.chat.name} {heard_at - takeover.taken.at:.2f} s after {takeover}"
        for talk in talks
        for word, heard_at in talk.heard_at.items()
        if (takeover := takeovers.get(pid_of(word))) is not None
        and heard_at > takeover.taken.at + _CLOCK_SECONDS
    ]


def former_agents_at_work(notes: Iterable[Mapping[str, Any]], takeovers: Mapping[int, Takeover]) -> list[str]:
    """N3: agents that went on after another node had taken their conversation, whether anybody heard it or not."""
    return [
        f"N3: an agent said {note['params']} {note['at'] - takeover.taken.at:.2f} s after {takeover}"
        for note in notes
        if note["method"] == "said"
        and (takeover := takeovers.get(note["pid"])) is not None
        and note["at"] > takeover.taken.at + _CLOCK_SECONDS
    ]


def fenced_agents(notes: Iterable[Mapping[str, Any]], log: str) -> set[int]:
    """The agents that a worker had started when it was fenced, as its log says. Those of its next life are others."""
    fences = [
        datetime.strptime(line[: len(_LOG_TIME)], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        for line in log.splitlines()
        if "has ended: others may act in its place" in line
    ]
    last = max(fences, default=0.0)
    return {note["pid"] for note in notes if note["method"] == "started" and note["at"] < last}


def unanswered(notes: Sequence[Mapping[str, Any]], living: AbstractSet[int]) -> list[str]:
    """What agents that live have called or asked, and wait for."""
    answered = {note["params"]["word"] for note in notes if note["method"] in ("result", "outcome")}
    return [
        note["params"]
        for note in notes
        if note["method"] in ("called", "asked") and note["pid"] in living and note["params"] not in answered
    ]


def _owner(head: JournalHead) -> str:
    return f"{head.node} {head.incarnation} (epoch {head.epoch})"


def pid_of(word: str) -> int:
    return int(word.partition("@")[2].partition(".")[0])


def _stored_at(message: StoredMessage) -> float:
    # With nanoseconds, which Python does not read.
    text = message.headers["Nats-Time-Stamp"].rstrip("Z")
    whole, _, fraction = text.partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def _record(message: StoredMessage) -> LeaseRecord | None:
    if message.is_tombstone or not message.data:
        return None
    return msgspec.json.decode(message.data, type=LeaseRecord)
