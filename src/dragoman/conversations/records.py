"""Records of conversations, by which requests are identified. No I/O, no clock.

A record is a timeline: the keys of the history's items, the replies we gave, the turn that is open. *Committed* are the items
of the consumer's last request: it has them. *Provisional* is our reply since then. A request that continues after the
provisional item commits it; one that continues after the committed items means that the consumer discarded our reply.

`Records` finds a record by what a request may contain: an id, a call, a prefix, or all of the record's last request. The
time of a look-up does not grow with the number of conversations. A record may be *away*: then only its index entries are
in memory, and a look-up that needs the record raises `RecordNotLoaded`, so that the caller loads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.conversations.context import context_of
from dragoman.conversations.history import NormalAnswer, NormalHistory, PrefixIndex, is_prompt
from dragoman.lm import Message, Request, RequestOptions
from dragoman.lm.request import IDEMPOTENCY_OPTION, RETRY_OPTION

__all__ = [
    "ConversationRecord",
    "RecordNotLoaded",
    "Records",
    "ReplyRecord",
    "ReplyStatus",
    "RequestKey",
    "Scope",
    "joinable_places",
    "unrepeatable",
]

_OF_ONE_ATTEMPT = frozenset((IDEMPOTENCY_OPTION, RETRY_OPTION))

# streaming: under way. complete: all of it went out. cut: the consumer stopped it. failed: it broke.
ReplyStatus: TypeAlias = Literal["streaming", "complete", "cut", "failed"]


class Scope(msgspec.Struct, frozen=True):
    """What separates conversations: a request only finds records of its own scope. Hashed with every look-up."""

    model: str
    workspace: tuple[str, ...] = ()
    connection: str = ""
    # The client behind the connection, if that is another server.
    client: str = ""


class RequestKey(msgspec.Struct, frozen=True):
    """The identity of a request: its messages, its context and its options, and the client's own name for it.

    It is compared, not hashed: comparisons are rare, and its parts are in memory anyway.
    """

    # All but the system messages.
    messages: tuple[Message, ...]
    context: str
    options: RequestOptions
    idempotency_key: str | None = None

    @classmethod
    def by(cls, request: Request, history: NormalHistory) -> RequestKey:
        given = request.options.model_options
        # A retry differs from its request in these.
        options = {name: value for name, value in given.items() if name not in _OF_ONE_ATTEMPT}
        key = given.get(IDEMPOTENCY_OPTION)
        return cls(
            history.messages,
            context_of(request.messages),
            replace(request.options, model_options=options),
            key if isinstance(key, str) else None,
        )

    def asks_the_same_as(self, other: RequestKey | None) -> bool:
        """Whether both ask for the same, whatever their clients call them."""
        return other is not None and replace(other, idempotency_key=self.idempotency_key) == self


class ReplyRecord(msgspec.Struct, frozen=True, array_like=True):
    """One response of ours: `keys[starts:ends]` of its record, which is empty until the response has content."""

    number: int
    turn: int
    starts: int
    ends: int
    status: ReplyStatus = "streaming"
    # The request it answers, for as long as that may be repeated.
    request_key: RequestKey | None = None
    # When the response ended, for as long as a repeated request may get the same answer.
    ended_at: float | None = None
    call_ids: tuple[str, ...] = ()
    # Whether the whole response has reached the consumer. None: its front end has not said.
    is_delivered: bool | None = None
    # Whether the agent has taken a step or requested a permission in this turn, as far as the response had ended.
    has_acted: bool = False


class ConversationRecord(msgspec.Struct, frozen=True, array_like=True):
    """The timeline of one conversation. Immutable: the fold of its journal makes another for each change.

    `request_key`, `ended_at`, `is_delivered` and `has_acted` of the last reply are known only in the process that runs the
    conversation.
    """

    id: str
    scope: Scope
    # The keys of the items of the history, and their chain.
    keys: tuple[bytes, ...] = ()
    links: tuple[int, ...] = ()
    replies: tuple[ReplyRecord, ...] = ()
    # Calls that were handed to the consumer and have no result yet.
    pending: frozenset[str] = frozenset()
    # The consumer's id, where it sends one: shared with its sub-agents, so it is never sufficient evidence.
    consumer_id: str | None = None
    # The last reply, if it has content and was not completed: a consumer may send back a part of it.
    cut: NormalAnswer | None = None
    # Whether its agent has done nothing but answer in text: no thinking, no step, no plan, no permission request.
    is_plain: bool = False

    @property
    def last(self) -> ReplyRecord | None:
        return self.replies[-1] if self.replies else None

    @property
    def is_unsettled(self) -> bool:
        """Whether the last turn is not complete: a call is open, or its answer was cut, failed or is under way."""
        return self.last is not None and (bool(self.pending) or self.last.status != "complete")

    @property
    def opening(self) -> int:
        """How many items precede the first reply of the last turn."""
        last = self.last
        return next((reply.starts for reply in self.replies if last and reply.turn == last.turn), 0)

    def reply(self, number: int) -> ReplyRecord | None:
        return next((reply for reply in reversed(self.replies) if reply.number == number), None)

    def reply_before(self, place: int) -> ReplyRecord | None:
        """The last reply with content that ends at or before this place."""
        for reply in reversed(self.replies):
            if reply.starts < reply.ends <= place:
                return reply
        return None

    def reply_with(self, call_id: str) -> ReplyRecord | None:
        return next((reply for reply in reversed(self.replies) if call_id in reply.call_ids), None)

    def at_rest(self) -> ConversationRecord:
        """The record without what only the process that runs the conversation knows: how a journal gives it."""
        return replace(self, replies=tuple(map(_at_rest, self.replies)))


def _at_rest(reply: ReplyRecord) -> ReplyRecord:
    status: ReplyStatus = "cut" if reply.status == "streaming" else reply.status
    return unrepeatable(reply if status == reply.status else replace(reply, status=status))


def unrepeatable(reply: ReplyRecord) -> ReplyRecord:
    """The reply without what only the process that runs the conversation knows: no request gets it again."""
    if reply.request_key is None and reply.ended_at is None and reply.is_delivered is None:
        return reply
    return replace(reply, request_key=None, ended_at=None, is_delivered=None, has_acted=False)


# Of conversations that are equal so far, as many are compared at most.
_MOST_TIED = 64

# The index is partitioned by scope and consumer id, before any history is compared.
_Shelf: TypeAlias = tuple[Scope, str | None]


class RecordNotLoaded(Exception):
    """A look-up needs a record that is not in memory: `put` it, or `remove` it, and repeat the look-up."""

    def __init__(self, conversation: str) -> None:
        super().__init__(conversation)
        self.conversation = conversation


@dataclass(frozen=True, slots=True)
class _Trace:
    """The index entries of a record, which stay in memory while the record is away."""

    shelf: _Shelf
    places: frozenset[int]
    # The history of its last request, while that may be repeated.
    request: int | None


@dataclass(slots=True)
class Records:
    """All records, with indexes by id, consumer id, prefix and last request.

    Every look-up raises `RecordNotLoaded` when it needs a record that is not in memory.
    """

    # Grows with every change.
    version: int = 0
    _records: dict[str, ConversationRecord] = field(default_factory=dict)
    _traces: dict[str, _Trace] = field(default_factory=dict)
    _prefixes: PrefixIndex = field(default_factory=PrefixIndex)
    _requests: PrefixIndex = field(default_factory=PrefixIndex)
    _consumer_ids: dict[_Shelf, set[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._traces)

    def __iter__(self) -> Iterator[ConversationRecord]:
        return iter(self._records.values())

    def get(self, conversation: str, scope: Scope) -> ConversationRecord | None:
        """The record with this id, if it belongs to this scope."""
        trace = self._traces.get(conversation)
        return self._here(conversation) if trace is not None and trace.shelf[0] == scope else None

    def put(self, record: ConversationRecord) -> None:
        self.version += 1
        self._move(record.id, _Trace(_shelf(record), joinable_places(record), _request(record)))
        self._records[record.id] = record

    def put_away(self, conversation: str) -> None:
        """Drop a record from memory, but not its index entries."""
        self._records.pop(conversation, None)

    def remove(self, conversation: str) -> None:
        self.version += 1
        self._records.pop(conversation, None)
        self._move(conversation, None)

    def with_consumer_id(self, scope: Scope, consumer_id: str) -> tuple[ConversationRecord, ...]:
        return tuple(self._here(name) for name in self._consumer_ids.get((scope, consumer_id), ()))

    def beginning_like(
        self, scope: Scope, consumer_id: str | None, history: NormalHistory
    ) -> tuple[int, tuple[ConversationRecord, ...]]:
        """The longest prefix of this history that records with this consumer id share: its length, and those records.

        It ends after an answer of ours, after the messages that opened an unsettled turn, or among the first user
        messages; the last is weak evidence, because many conversations begin with "hello". At most two records are
        returned: two are enough to know that the prefix identifies no single one.
        """
        places = self._prefixes.on((scope, consumer_id))
        for length in range(len(history.keys), 0, -1) if places else ():
            found = places.get(history.links[length - 1])
            if not found:
                continue
            # Two different beginnings may have the same link, so the keys are compared.
            beginning = history.keys[:length]
            sharing = (record for record in map(self._here, found) if record.keys[:length] == beginning)
            if first := tuple(islice(sharing, 2)):
                return length, first
        return 0, ()

    def tied(
        self, scope: Scope, consumer_id: str | None, history: NormalHistory, length: int
    ) -> tuple[tuple[ConversationRecord, ...], bool]:
        """The records with this consumer id that begin with so many items of this history, and whether these are all.

        They are not all if one is not in memory. If there are too many to compare, none is returned.
        """
        found = self._prefixes.on((scope, consumer_id)).get(history.links[length - 1], frozenset())
        if len(found) > _MOST_TIED:
            return (), False
        here = [self._records[name] for name in found if name in self._records]
        sharing = tuple(record for record in here if record.keys[:length] == history.keys[:length])
        return sharing, len(here) == len(found)

    def asked(
        self, scope: Scope, consumer_id: str | None, history: NormalHistory
    ) -> tuple[ConversationRecord, ...]:
        """The records with this consumer id whose last request, which may be repeated, had exactly this history.

        If there are too many to compare, none is returned.
        """
        found = self._requests.on((scope, consumer_id)).get(history.links[-1], frozenset())
        if len(found) > _MOST_TIED:
            return ()
        size = len(history.keys)
        return tuple(record for record in map(self._here, found) if record.keys[:size] == history.keys)

    def _here(self, conversation: str) -> ConversationRecord:
        record = self._records.get(conversation)
        if record is None:
            raise RecordNotLoaded(conversation)
        return record

    def _move(self, conversation: str, to: _Trace | None) -> None:
        """Replace the index entries of a conversation."""
        before = self._traces.pop(conversation, None)
        old = before.places if before is not None else frozenset()
        new = to.places if to is not None else frozenset()
        if before is not None and to is not None and before.shelf == to.shelf:
            old, new = old - new, new - old
        if before is not None:
            for link in old:
                self._prefixes.remove(before.shelf, link, conversation)
            if before.request is not None:
                self._requests.remove(before.shelf, before.request, conversation)
            self._forget_consumer_id(before.shelf, conversation)
        if to is not None:
            for link in new:
                self._prefixes.add(to.shelf, link, conversation)
            if to.request is not None:
                self._requests.add(to.shelf, to.request, conversation)
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


def joinable_places(record: ConversationRecord) -> frozenset[int]:
    """The links of where a request may join a record: after each reply, and after the messages that opened an unsettled turn.

    Also after each of the user's first messages, answered or not: if two records begin alike, neither is identified.
    """
    ends = {reply.ends for reply in record.replies if reply.ends > reply.starts}
    ends.update(place + 1 for place, _ in enumerate(takewhile(is_prompt, record.keys)))
    if record.is_unsettled:
        ends.add(record.opening)
    return frozenset(record.links[end - 1] for end in ends if end)


def _request(record: ConversationRecord) -> int | None:
    """The link of the history that the last request had, if that request is known.

    A fork has no reply of its own where it begins, so no place of its record leads a repeated request to it.
    """
    last = record.last
    return record.links[last.starts - 1] if last and last.starts and last.request_key is not None else None
