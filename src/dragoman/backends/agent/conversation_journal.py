"""The journal of a conversation under way: every event changes its record and is stored.

The text of a reply is not recorded part by part: it is collected from the reply when there is a reason to store it, at its
end at the latest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from dragoman.backends.agent.machine.types import ReplyEnd
from dragoman.backends.agent.reply.reply import Reply
from dragoman.conversations.history import NormalPrompt, NormalResult, item_key
from dragoman.conversations.identify import Identified
from dragoman.conversations.records import ConversationRecord, Records, RequestKey, Scope
from dragoman.journal.agent_events import (
    CallSettled,
    PlanMade,
    ReceivedResult,
    ReplyEnded,
    RequestReceived,
    SessionChanged,
    StepTaken,
    TextSaid,
    ThinkingSaid,
    UsageNoted,
)
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.fold import ConversationFold, ConversationState, history_change
from dragoman.journal.writer import JournalWriter
from dragoman.lm import (
    ActivityNote,
    ActivityPart,
    DataPart,
    LanguageModelError,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    UsagePart,
)
from dragoman.lm.parts import NoticePart
from dragoman.lm.surrogates import mended

__all__ = ["ConversationJournal", "title_of"]

# Of the first message, for the title. It is cut when secrets have been masked in it.
_TITLE_CHARACTERS = 2_000
_DIGEST_BYTES = 8

_Progress: TypeAlias = ActivityPart | PlanPart | UsagePart


@dataclass(slots=True)
class _Taken:
    """What is recorded of a reply: how many of its parts and characters, and its progress parts as they were then."""

    parts: int = 0
    characters: int = 0
    progress: dict[int, _Progress] = field(default_factory=dict)

    def spoken(self, number: int, run: list[TextPart | ThinkingPart]) -> Iterator[AnyEvent]:
        """Parts of one kind as an event."""
        text = "".join(part.value if isinstance(part, TextPart) else part.text for part in run)
        if not text:
            return
        if isinstance(run[0], ThinkingPart):
            yield ThinkingSaid(number, len(text), text)
        else:
            yield TextSaid(number, self.characters, len(text), text, isinstance(run[0], NoticePart))
            self.characters += len(text)


class ConversationJournal:
    """Has the record of one conversation, and records what happens in it."""

    def __init__(
        self,
        id_: str,
        scope: Scope,
        records: Records,
        writer: JournalWriter,
        state: ConversationState | None = None,
    ) -> None:
        """`state` is that of a stored conversation."""
        self._fold = ConversationFold(id_, state)
        self._scope = scope
        self._records = records
        self.writer = writer
        self.record: ConversationRecord = self._fold.record
        # What is recorded of the replies under way.
        self._taken: dict[int, _Taken] = {}
        # Whether the content of the latest request may be stored, and the replies whose content may not.
        self._stores_content = True
        self._unstored: set[int] = set()

    @property
    def state(self) -> ConversationState:
        return self._fold.state

    @property
    def calls(self) -> int:
        return self._fold.calls

    def happened(self, *events: AnyEvent) -> None:
        """Record events, and change the record by them."""
        for event in events:
            self._fold.apply(event)
            is_stored = getattr(event, "number", None) not in self._unstored
            self.writer.add(event, with_content=is_stored and self._stores_content)

    def changed(self, *events: AnyEvent) -> None:
        """Record events that requests are identified by."""
        self.happened(*events)
        self._put()

    def start(self, consumer_id: str | None, title: str, parent: str | None, program: str = "") -> None:
        """Begin the journal of a new conversation. `program` is the one behind the front end."""
        scope = self._scope
        title = mended(title[:_TITLE_CHARACTERS])
        self.happened(
            JournalStarted(
                "agent",
                scope.model,
                scope.workspace,
                scope.connection,
                consumer_id,
                parent,
                title,
                scope.client,
                program=mended(program),
            )
        )

    def store_content(self, *, stores: bool) -> None:
        """Whether what is said from now on may be stored."""
        self._stores_content = stores

    def request(self, found: Identified, request_key: RequestKey, *, goes_on: bool) -> int:
        """Record a request that belongs here. Returns the number of the reply that it begins."""
        record, history = self.record, found.history
        last = record.last
        is_here = found.conversation == record.id
        keeps, moved, dropped = history_change(record, history, dict(found.places) if is_here else {})
        number = last.number + 1 if last else 1
        if not self._stores_content:
            self._unstored.add(number)
        event = RequestReceived(
            number,
            (last.turn if last else 0) + (0 if goes_on and last else 1),
            found.kind,
            found.evidence,
            found.reason,
            f"{history.links[-1]:016x}",
            keeps,
            history.keys[keeps:],
            moved,
            dropped,
            None if is_here else found.conversation,
            tuple(item for item in history.items[keeps:] if not isinstance(item, NormalResult)),
            tuple(map(_received, found.results)),
        )
        self.happened(event)
        self._fold.note_request(request_key)
        self._put()
        return number

    def collect(self, reply: Reply) -> None:
        """Record what the agent has said and done in a reply since the last time."""
        self.happened(*self._news(reply))

    def end(
        self,
        reply: Reply,
        end: ReplyEnd,
        error: LanguageModelError | None,
        sentence: str | None,
        pending: Iterable[str],
        issued: int,
        now: float,
    ) -> None:
        """Record the end of a reply. `sentence` says why it failed."""
        last = self.record.last
        self.collect(reply)
        self._taken.pop(reply.number, None)
        answer = reply.answer
        # No history contains an answer without text and calls.
        key = item_key(answer) if answer.text or answer.calls else None
        self.happened(
            ReplyEnded(
                reply.number,
                end,
                key,
                answer.calls,
                tuple(pending),
                issued,
                error.kind if error is not None else None,
                sentence,
                "" if end == "complete" else answer.text,
            )
        )
        self._unstored.discard(reply.number)
        if last is not None and last.number == reply.number:
            self._fold.note_end(now)
        self._put()

    def note_delivery(self, *, whole: bool) -> None:
        """Note whether the last reply has reached the consumer whole. It is not stored: after a restart the time decides."""
        last = self.record.last
        if last is not None and last.ended_at is not None:
            # Otherwise another request has begun since.
            self._fold.note_delivery(whole=whole)
            self._put()

    def settle_orphans(self, waiting: Iterable[str], answered: Iterable[str], *, is_over: bool) -> None:
        """Settle calls that no agent waits for any more, because its process is gone.

        Those that the request answers; and all of them if the turn `is_over`. The agent `waiting` for the others lives.
        """
        orphans = self.record.pending - frozenset(waiting)
        over = orphans if is_over else orphans & frozenset(answered)
        if over:
            self.changed(*(CallSettled(call_id) for call_id in sorted(over)))

    def use_session(self, session: str | None) -> None:
        """Record which session of the agent has the conversation."""
        if session != self._fold.session:
            self.happened(SessionChanged(session))

    def forget_records(self) -> None:
        """Change no record any more: another process continues the conversation."""
        self._records = Records()

    def _put(self) -> None:
        self.record = self._fold.record
        self._records.put(self.record)

    def _news(self, reply: Reply) -> Iterator[AnyEvent]:
        said, number = reply.said, reply.number
        taken = self._taken.setdefault(number, _Taken())
        for place, before in taken.progress.items():
            part = said[place]
            if part is not before and isinstance(part, _Progress) and part != before:
                taken.progress[place] = part
                yield _progressed(number, part)
        begins, taken.parts = taken.parts, len(said)
        run: list[TextPart | ThinkingPart] = []
        for place in range(begins, len(said)):
            part = said[place]
            if isinstance(part, NoticePart | ActivityNote) and not part.is_recorded:
                yield from taken.spoken(number, run)
                run.clear()
                taken.characters += len(part.value) if isinstance(part, NoticePart) else 0
            elif isinstance(part, TextPart | ThinkingPart):
                if run and type(part) is not type(run[0]):
                    yield from taken.spoken(number, run)
                    run.clear()
                run.append(part)
            elif isinstance(part, _Progress):
                yield from taken.spoken(number, run)
                run.clear()
                taken.progress[place] = part
                yield _progressed(number, part)
        yield from taken.spoken(number, run)


def _progressed(number: int, part: _Progress) -> AnyEvent:
    match part:
        case ActivityPart():
            return StepTaken(number, part)
        case PlanPart():
            return PlanMade(number, part)
        case _:
            return UsageNoted(number, part)


def _received(result: ToolResultPart) -> ReceivedResult:
    data = (part for part in result.content if isinstance(part, DataPart) and not part.is_internal)
    return ReceivedResult(
        result.call_id, result.text, tuple(map(_described, data)), result.is_error, result.outcome
    )


def _described(part: DataPart) -> str:
    digest = hashlib.blake2b(part.data, digest_size=_DIGEST_BYTES).hexdigest()
    return f"{part.mime_type}, {len(part.data)} bytes, {digest}"


def title_of(found: Identified) -> str:
    return next((item.text for item in found.history.items if isinstance(item, NormalPrompt)), "")
