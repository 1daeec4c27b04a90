"""From events to the record of a conversation. Pure: no I/O, no clock.

The process that runs a conversation and the store that loads it use the same fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from dragoman.conversations.history import (
    NormalAnswer,
    NormalHistory,
    chain,
    common_prefix,
    is_answer,
    item_key,
)
from dragoman.conversations.records import (
    ConversationRecord,
    ReplyRecord,
    ReplyStatus,
    RequestKey,
    Scope,
    unrepeatable,
)
from dragoman.journal.agent_events import (
    CallSettled,
    ConversationImported,
    PermissionRequested,
    PlanMade,
    ReplyEnded,
    RequestReceived,
    SessionChanged,
    StepTaken,
    ThinkingSaid,
)
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, UnreadableJournal

__all__ = ["ConversationFold", "ConversationState", "history_change"]


class ConversationState(msgspec.Struct, frozen=True, array_like=True):
    """What a conversation's journal comes to: its record, the agent's session, and how many call ids were issued."""

    record: ConversationRecord
    session: str | None = None
    calls: int = 0


def history_change(
    record: ConversationRecord, history: NormalHistory, places: dict[int, int]
) -> tuple[int, tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    """What a request with this history changes: how many items of the record stay, which replies move, which are dropped.

    `places` has, for each earlier reply, how many items of this history precede its end. A consumer may have changed the
    items before a reply, so the old places are invalid. A reply that the history lacks is dropped.
    """
    moved: list[tuple[int, int, int]] = []
    dropped: list[int] = []
    for reply in record.replies:
        ends = places.get(reply.number)
        if ends is None:
            dropped.append(reply.number)
            continue
        # If the consumer dropped its text, only a marker is left of it.
        starts = ends - 1 if ends and is_answer(history.keys[ends - 1]) else ends
        if (starts, ends) != (reply.starts, reply.ends):
            moved.append((reply.number, starts, ends))
    return common_prefix(record.keys, history.keys), tuple(moved), tuple(dropped)


def _chained(keys: Sequence[bytes], links: Sequence[int] = ()) -> list[int]:
    if not all(keys):
        raise UnreadableJournal("the digest of an item is empty")
    return chain(keys, links[-1] if links else 0)


class ConversationFold:
    """Takes the events of a conversation one by one, and has its state."""

    def __init__(self, id_: str, state: ConversationState | None = None) -> None:
        """It goes on from `state`. Raises `UnreadableJournal` if that does not fit together."""
        record = state.record if state is not None else ConversationRecord(id_, Scope(""))
        self._record = record
        self._keys = list(record.keys)
        self._links = list(record.links)
        self._replies = list(record.replies)
        self._pending = set(record.pending)
        self._cut = record.cut
        self._is_plain = record.is_plain
        # Whether the agent has acted in the turn under way. Of a turn that a state was saved in, it is not known.
        self._has_acted = state is not None
        self.session = state.session if state is not None else None
        self.calls = state.calls if state is not None else 0
        self._check_places()

    @property
    def record(self) -> ConversationRecord:
        return replace(
            self._record,
            keys=tuple(self._keys),
            links=tuple(self._links),
            replies=tuple(self._replies),
            pending=frozenset(self._pending),
            cut=self._cut,
            is_plain=self._is_plain,
        )

    @property
    def state(self) -> ConversationState:
        return ConversationState(self.record.at_rest(), self.session, self.calls)

    def apply(self, event: AnyEvent) -> None:
        """Raises `UnreadableJournal` for an event that cannot follow the ones before it."""
        match event:
            case RequestReceived():
                self._request(event)
            case ReplyEnded():
                self._end(event)
            case CallSettled(call_id=call_id):
                self._pending.discard(call_id)
            case SessionChanged(session=session):
                self.session = session
            case ConversationImported():
                self._import(event)
            case JournalStarted():
                scope = Scope(event.model, event.workspace, event.connection, event.client)
                self._record = replace(self._record, scope=scope, consumer_id=event.consumer_id)
                self._is_plain = True
            case ThinkingSaid() | StepTaken() | PlanMade() | PermissionRequested():
                # The agent knows more than a history of the conversation has.
                self._is_plain = False
                self._has_acted |= isinstance(event, StepTaken | PermissionRequested)
            case _:
                # What a person may read, and no request is recognised by.
                pass

    def apply_all(self, events: Iterable[AnyEvent]) -> ConversationFold:
        for event in events:
            self.apply(event)
        return self

    # Only in the process that runs the conversation.

    def note_request(self, request_key: RequestKey) -> None:
        """The request that the open reply answers, for as long as that may be repeated."""
        self._replies[-1] = replace(self._replies[-1], request_key=request_key)

    def note_end(self, now: float) -> None:
        """When the last reply ended."""
        self._replies[-1] = replace(self._replies[-1], ended_at=now, has_acted=self._has_acted)

    def note_delivery(self, *, whole: bool) -> None:
        """Whether the last reply, which has ended, has reached the consumer whole."""
        self._replies[-1] = replace(self._replies[-1], is_delivered=whole)

    def _request(self, event: RequestReceived) -> None:
        before = len(self._keys)
        if not self._replies or self._replies[-1].turn != event.turn:
            self._has_acted = False
        if not 0 <= event.keeps <= before:
            raise UnreadableJournal(f"request {event.number} keeps {event.keeps} items of {before}")
        del self._keys[event.keeps :], self._links[event.keeps :]
        self._links += _chained(event.keys, self._links)
        self._keys += event.keys
        if event.moved or event.dropped or event.keeps < before:
            self._replies = [*self._placed(event)]
            self._check_places()
        elif self._replies:
            # As nearly always: the history has only grown. Only the last reply could be repeated.
            self._replies[-1] = unrepeatable(self._replies[-1])
        size = len(self._keys)
        self._replies.append(ReplyRecord(event.number, event.turn, size, size))
        self._cut = None

    def _import(self, event: ConversationImported) -> None:
        self._keys, self._links = list(event.keys), _chained(event.keys)
        self._replies = list(event.replies)
        self._is_plain = False
        self._check_places()
        self._pending = set(event.pending)
        self.session, self.calls = event.session, event.issued
        last = self._replies[-1] if self._replies else None
        if last is not None and last.status != "complete" and last.starts < last.ends <= len(event.items):
            item = event.items[last.starts]
            self._cut = item if isinstance(item, NormalAnswer) else None

    def _check_places(self) -> None:
        size = len(self._keys)
        if len(self._links) != size or any(
            not 0 <= reply.starts <= reply.ends <= size for reply in self._replies
        ):
            raise UnreadableJournal("its replies do not fit its history")

    def _placed(self, event: RequestReceived) -> Iterator[ReplyRecord]:
        moved = {number: (starts, ends) for number, starts, ends in event.moved}
        for reply in self._replies:
            if reply.number in moved:
                starts, ends = moved[reply.number]
                yield unrepeatable(replace(reply, starts=starts, ends=ends))
            elif reply.number not in event.dropped:
                yield unrepeatable(reply)

    def _end(self, event: ReplyEnded) -> None:
        self._pending.update(event.pending)
        self.calls = max(self.calls, event.issued)
        if not self._replies or self._replies[-1].number != event.number:
            # A further request came before its end, and says what is left of it.
            self._replies = [
                replace(each, status=event.status) if each.number == event.number else each
                for each in self._replies
            ]
            return
        reply = self._replies[-1]
        del self._keys[reply.starts :], self._links[reply.starts :]
        if event.key is not None:
            self._links += _chained([event.key], self._links)
            self._keys.append(event.key)
        call_ids = tuple(call_id for call_id, _, _ in event.calls)
        status: ReplyStatus = event.status
        self._replies[-1] = replace(reply, ends=len(self._keys), status=status, call_ids=call_ids)
        answer = NormalAnswer(event.text, event.calls)
        # Where content was removed, what is left has another digest.
        is_whole = status != "complete" and event.key is not None and item_key(answer) == event.key
        self._cut = answer if is_whole else None
