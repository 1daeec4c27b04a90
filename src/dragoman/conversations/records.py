"""What we remember of conversations in order to recognise them. No I/O, no clock.

A record is a timeline: the items that were told or said, the replies we gave, the turn that is open. *Committed* is
what the consumer has shown that it has: the items of its last request. *Provisional* is what we said since. A request
that goes on from the provisional end promotes it; one that goes on from the committed end means that the consumer
threw our last words away.

`Records` finds them by what a request may carry: an id, a call, a prefix. Every look-up takes time that does not grow
with the number of conversations. A record may be *away*: only where it stands is remembered, and whoever looks for it
is told to bring it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal, TypeAlias

import msgspec

from dragoman.conversations.context import context_of
from dragoman.conversations.history import (
    NormalAnswer,
    NormalHistory,
    NormalItem,
    NormalPrompt,
    PrefixIndex,
    chain,
)
from dragoman.lm import Message, Request, RequestOptions

__all__ = ["Away", "ConversationRecord", "Records", "ReplyRecord", "ReplyStatus", "RequestKey", "Scope"]

# streaming: under way. complete: all of it went out. cut: the consumer stopped it. failed: it broke.
ReplyStatus: TypeAlias = Literal["streaming", "complete", "cut", "failed"]


class Scope(msgspec.Struct, frozen=True):
    """Conversations of different scopes are never taken for each other. Hashed with every look-up."""

    model: str
    workspace: tuple[str, ...] = ()
    connection: str = ""


class RequestKey(msgspec.Struct, frozen=True):
    """All that makes two requests the same: what is said, and what may be called.

    It is compared, not hashed: that is seldom, and what it is made of is kept anyway.
    """

    # All but the system's, as they are remembered.
    messages: tuple[Message, ...]
    context: str
    options: RequestOptions

    @classmethod
    def by(cls, request: Request, history: NormalHistory) -> RequestKey:
        return cls(history.messages, context_of(request.messages), request.options)


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """One response of ours: `items[starts:ends]` of its record, which is nothing until something of it can be told."""

    number: int
    turn: int
    starts: int
    ends: int
    status: ReplyStatus = "streaming"
    # What it answers, for as long as that may be asked again.
    request_key: RequestKey | None = None
    # When the response ended, for the few seconds in which a repeated request gets the same answer.
    ended_at: float | None = None
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    id: str
    scope: Scope
    items: tuple[NormalItem, ...] = ()
    links: tuple[int, ...] = ()
    replies: tuple[ReplyRecord, ...] = ()
    # Calls that were handed to the consumer and have no result yet.
    pending: frozenset[str] = frozenset()
    # An id of the consumer's own, where it has one: shared with its sub-agents, so never proof by itself.
    consumer_id: str | None = None

    @property
    def last(self) -> ReplyRecord | None:
        return self.replies[-1] if self.replies else None

    @property
    def is_unsettled(self) -> bool:
        """The last turn has not come to its end: a call is open, or its answer was cut, broken or is under way."""
        return self.last is not None and (bool(self.pending) or self.last.status != "complete")

    @property
    def opening(self) -> int:
        """How many items there are up to the first reply of the last turn: all that the turn was opened with."""
        last = self.last
        return next((reply.starts for reply in self.replies if last and reply.turn == last.turn), 0)

    def reply(self, number: int) -> ReplyRecord | None:
        return next((reply for reply in reversed(self.replies) if reply.number == number), None)

    def reply_before(self, place: int) -> ReplyRecord | None:
        """The last of which something was said up to there."""
        for reply in reversed(self.replies):
            if reply.starts < reply.ends <= place:
                return reply
        return None

    def reply_with(self, call_id: str) -> ReplyRecord | None:
        return next((reply for reply in reversed(self.replies) if call_id in reply.call_ids), None)

    def with_request(
        self,
        history: NormalHistory,
        places: Mapping[int, int],
        *,
        turn: int,
        request_key: RequestKey | None = None,
    ) -> ConversationRecord:
        """A request arrived that tells the history so: it is committed, and a reply to it begins.

        `places` says behind how many items of this history each earlier reply stands. A consumer may tell what came
        before them anew, so the old places mean nothing any more; a reply it does not tell at all is gone.
        """
        number = self.last.number + 1 if self.last else 1
        kept = [
            _placed(reply, history, places[reply.number]) for reply in self.replies if reply.number in places
        ]
        size = len(history.items)
        reply = ReplyRecord(number, turn, size, size, request_key=request_key)
        return replace(self, items=history.items, links=history.links, replies=(*kept, reply))

    def at_rest(self) -> ConversationRecord:
        """As it is when its last answer will not be given again."""
        if self.last is None or self.last.request_key is None:
            return self
        return replace(self, replies=(*self.replies[:-1], replace(self.last, request_key=None)))

    def with_answer(self, answer: NormalAnswer) -> ConversationRecord:
        """All of the reply so far: it replaces what was there of it."""
        reply = self._open_reply()
        # An answer without words and calls is told by nobody.
        said = (answer,) if answer.text or answer.calls else ()
        before = self.links[: reply.starts]
        items = (*self.items[: reply.starts], *said)
        links = (*before, *chain(said, before[-1] if before else 0))
        after = replace(reply, ends=len(items), call_ids=answer.call_ids)
        return replace(self, items=items, links=links, replies=(*self.replies[:-1], after))

    def ended(self, status: ReplyStatus, now: float, pending: Iterable[str] = ()) -> ConversationRecord:
        reply = replace(self._open_reply(), status=status, ended_at=now)
        return replace(self, replies=(*self.replies[:-1], reply), pending=self.pending | frozenset(pending))

    def settled(self, call_ids: Iterable[str]) -> ConversationRecord:
        """These calls have their results, whoever gave them."""
        return replace(self, pending=self.pending - frozenset(call_ids))

    def _open_reply(self) -> ReplyRecord:
        if self.last is None:
            raise AssertionError(f"conversation {self.id} has no reply under way")
        return self.last


def _placed(reply: ReplyRecord, history: NormalHistory, ends: int) -> ReplyRecord:
    """A reply that is told up to there. A marker may stand for one of which nothing else is left."""
    starts = ends - 1 if ends and isinstance(history.items[ends - 1], NormalAnswer) else ends
    is_so = starts == reply.starts and ends == reply.ends and reply.request_key is None
    return reply if is_so else replace(reply, starts=starts, ends=ends, request_key=None)


# Conversations are told apart by the consumer's own id, where it gives one, before anything is compared.
_Shelf: TypeAlias = tuple[Scope, str | None]


class Away(Exception):
    """This record is needed to know, and it is not here: `put` it, or `remove` it, and ask again."""

    def __init__(self, conversation: str) -> None:
        super().__init__(conversation)
        self.conversation = conversation


@dataclass(frozen=True, slots=True)
class _Trace:
    """What is left of a record that is away."""

    shelf: _Shelf
    places: frozenset[int]


@dataclass(slots=True)
class Records:
    """All records, and the ways to find one. The only state is these maps, and they change together.

    Every look-up raises `Away` when it comes upon a record that is not here.
    """

    _records: dict[str, ConversationRecord] = field(default_factory=dict)
    _traces: dict[str, _Trace] = field(default_factory=dict)
    _prefixes: PrefixIndex = field(default_factory=PrefixIndex)
    _consumer_ids: dict[_Shelf, set[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._traces)

    def __iter__(self) -> Iterator[ConversationRecord]:
        return iter(self._records.values())

    def get(self, conversation: str, scope: Scope) -> ConversationRecord | None:
        """The record of that name, if it belongs to this scope."""
        trace = self._traces.get(conversation)
        return self._here(conversation) if trace is not None and trace.shelf[0] == scope else None

    def put(self, record: ConversationRecord) -> None:
        self._move(record.id, _Trace(_shelf(record), _places(record)))
        self._records[record.id] = record

    def put_away(self, conversation: str) -> None:
        """Keep only where it stands."""
        self._records.pop(conversation, None)

    def remove(self, conversation: str) -> None:
        self._records.pop(conversation, None)
        self._move(conversation, None)

    def with_consumer_id(self, scope: Scope, consumer_id: str) -> tuple[ConversationRecord, ...]:
        return tuple(self._here(name) for name in self._consumer_ids.get((scope, consumer_id), ()))

    def beginning_like(
        self, scope: Scope, consumer_id: str | None, history: NormalHistory
    ) -> tuple[int, tuple[ConversationRecord, ...]]:
        """The longest beginning of this history that a record with this id has: how many items, and whose.

        It ends behind an answer of ours, behind what opened a turn that is not settled, or among the first words; the
        last is little, because everybody begins with "hello". Of several that share it two are enough to know that it is
        nobody's.
        """
        places = self._prefixes.on((scope, consumer_id))
        for length in range(len(history.items), 0, -1) if places else ():
            found = places.get(history.links[length - 1])
            if not found:
                continue
            # The index knows hashes. The comparison knows.
            beginning, sharing = history.items[:length], []
            for record in map(self._here, found):
                if record.items[:length] == beginning:
                    sharing.append(record)
                    if len(sharing) == 2:  # noqa: PLR2004 - enough to know
                        break
            if sharing:
                return length, tuple(sharing)
        return 0, ()

    def _here(self, conversation: str) -> ConversationRecord:
        record = self._records.get(conversation)
        if record is None:
            raise Away(conversation)
        return record

    def _move(self, conversation: str, to: _Trace | None) -> None:
        """It stands there now, and nowhere else."""
        before = self._traces.pop(conversation, None)
        old = before.places if before is not None else frozenset()
        new = to.places if to is not None else frozenset()
        if before is not None and to is not None and before.shelf == to.shelf:
            old, new = old - new, new - old
        if before is not None:
            for link in old:
                self._prefixes.remove(before.shelf, link, conversation)
            self._forget_consumer_id(before.shelf, conversation)
        if to is not None:
            for link in new:
                self._prefixes.add(to.shelf, link, conversation)
            if to.shelf[1] is not None:
                self._consumer_ids.setdefault(to.shelf, set()).add(conversation)
            self._traces[conversation] = to

    def _forget_consumer_id(self, shelf: _Shelf, conversation: str) -> None:
        if shelf[1] is not None:
            ids = self._consumer_ids[shelf]
            ids.remove(conversation)
            if not ids:
                del self._consumer_ids[shelf]


def _shelf(record: ConversationRecord) -> _Shelf:
    return record.scope, record.consumer_id


def _places(record: ConversationRecord) -> frozenset[int]:
    """Where a request may meet a record: behind each reply, and behind what opened a turn that is not settled.

    Behind the user's first words too, whatever became of them: of two that began with the same neither is the one.
    """
    ends = {reply.ends for reply in record.replies if reply.ends > reply.starts}
    words = takewhile(lambda item: isinstance(item, NormalPrompt), record.items)
    ends.update(place + 1 for place, _ in enumerate(words))
    if record.is_unsettled:
        ends.add(record.opening)
    return frozenset(record.links[end - 1] for end in ends if end)
