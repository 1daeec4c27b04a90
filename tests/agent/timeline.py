"""One conversation as events, beside the same conversation as Dragoman 0.1 stored it.

After every step the fold of the journal, written and read again, must be what the snapshot of 0.1 gave. So every test that
uses it compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable

from conversations.snapshot_0_1 import Record01, load_0_1, save_0_1
from dragoman.conversations.history import NormalAnswer, NormalHistory, chain, item_key
from dragoman.conversations.records import ConversationRecord, ReplyStatus, RequestKey, Scope
from dragoman.journal.agent_events import CallSettled, ReplyEnded, RequestReceived, TextSaid
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, decode_events, encode_events
from dragoman.journal.fold import ConversationFold, history_change

__all__ = ["Timeline"]


class Timeline:
    def __init__(self, id_: str, scope: Scope, consumer_id: str | None = None) -> None:
        self._id = id_
        self._fold = ConversationFold(id_)
        self._snapshot = Record01(id_, scope, consumer_id=consumer_id)
        self.events: list[AnyEvent] = []
        self._is_plain = True
        self._happened(JournalStarted("agent", scope.model, scope.workspace, scope.connection, consumer_id))

    @property
    def record(self) -> ConversationRecord:
        return self._fold.record

    def request(
        self,
        history: NormalHistory,
        places: dict[int, int] | None = None,
        *,
        turn: int = 1,
        request_key: RequestKey | None = None,
    ) -> ConversationRecord:
        keeps, moved, dropped = history_change(self.record, history, places or {})
        last = self.record.last
        number = last.number + 1 if last else 1
        event = RequestReceived(
            number, turn, "prompt", "none", "a test", "", keeps, history.keys[keeps:], moved, dropped
        )
        self._snapshot = self._snapshot.with_request(
            history, places or {}, turn=turn, request_key=request_key
        )
        self._happened(event)
        if request_key is not None:
            self._fold.note_request(request_key)
        return self.record

    def end(
        self,
        answer: NormalAnswer,
        status: ReplyStatus = "complete",
        now: float = 0.0,
        pending: Iterable[str] = (),
    ) -> ConversationRecord:
        last = self.record.last
        number = last.number if last else 0
        ids = tuple(pending)
        self._snapshot = self._snapshot.with_answer(answer).ended(status, now, ids)
        key = item_key(answer) if answer.text or answer.calls else None
        if answer.text:
            self._happened(TextSaid(number, 0, len(answer.text), answer.text), compares=False)
        text = "" if status == "complete" else answer.text
        self._happened(ReplyEnded(number, status, key, answer.calls, ids, text=text))
        self._fold.note_end(now)
        return self.record

    def deliver(self, *, whole: bool) -> ConversationRecord:
        """The front end says what has reached the consumer. It is in no event."""
        self._fold.note_delivery(whole=whole)
        self._compare()
        return self.record

    def do(self, event: AnyEvent) -> ConversationRecord:
        """The agent does something beside its answer."""
        self._is_plain = False
        self._happened(event)
        return self.record

    def settle(self, *call_ids: str) -> ConversationRecord:
        self._snapshot = self._snapshot.settled(call_ids)
        for call_id in call_ids:
            self._happened(CallSettled(call_id), compares=call_id == call_ids[-1])
        return self.record

    def _happened(self, event: AnyEvent, *, compares: bool = True) -> None:
        self.events.append(event)
        self._fold.apply(event)
        if compares:
            self._compare()

    def _compare(self) -> None:
        stored = [event for _, event in decode_events(encode_events([(0.0, each) for each in self.events]))]
        folded = ConversationFold(self._id).apply_all(stored).state.record
        snapshot = load_0_1(save_0_1(self._snapshot, None, 0)).record
        keys = tuple(map(item_key, snapshot.items))
        last = snapshot.last
        cut = None
        if last is not None and last.status != "complete" and last.starts < last.ends:
            item = snapshot.items[last.starts]
            cut = item if isinstance(item, NormalAnswer) else None
        expected = ConversationRecord(
            snapshot.id,
            snapshot.scope,
            keys,
            tuple(chain(keys)),
            snapshot.replies,
            snapshot.pending,
            snapshot.consumer_id,
            cut,
            is_plain=self._is_plain,
        )
        assert folded == expected, f"{folded}\n{expected}"
        live = self.record.at_rest()
        assert live == folded, f"{live}\n{folded}"
