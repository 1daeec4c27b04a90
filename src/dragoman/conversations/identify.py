"""Identify which conversation a request belongs to, and what is new in it. Values in, a value out.

A *proved retry* belongs to the conversation whose last request it repeats, whatever else it contains. That may be a fork:
the history of its first request has only the names, and the answers, of the conversation that it came from. Several may
have had the same last request. Then it is the one with the same idempotency key, else one whose reply may not have arrived,
else the one that was used last.

Otherwise there is evidence, strongest first. The first that is present decides *which* conversation, unless a weaker one
matches more:

 a. a marker of ours in the history;
 b. the id of a call that we issued;
 c. an id of the consumer's: it narrows the candidates for d and e, because an editor shares it with its sub-agents;
 d. the longest prefix that contains an answer of ours; for a tie, see below;
 e. without any answer of ours: the one conversation that began with the same text, if its first turn is not settled;
 f. otherwise nothing: a new conversation.

A *tie*: several conversations share the longest prefix. The candidates are the conversations that end exactly there; one
that has gone on is none. If all candidates are provably equal, each is right, and the one that was used last continues: from
then on it differs. They are equal if their agents have only said text, all of it answers that are complete, after the same
context. If one candidate is not, or is not in memory, the tie identifies no conversation. A conversation in which the same
request is under way has gone on: a second request at the same moment goes to another candidate, if there is one.

*How far* the request follows that conversation is the last place that its history and our record have in common. If
the record ends there, the request continues the conversation. Otherwise it goes back, and there are four cases: its
history ends there (the same request again, or a request for another answer); it repeats the beginning of an answer that
was cut; it leaves out the rest of a turn that was never settled (the user refused it, and wrote something else); or it
differs (the history was edited: a fork).

*The same request again* is a retry, which gets the same reply, or a wish for another answer, which is a fork. If it was
asked in the conversation and in forks of it, the one that was used last counts. In this order:

 1. both have an idempotency key: equal keys are a retry, different keys are not;
 2. the client says that it repeats the request, or the reply is still under way: a retry;
 3. the whole reply has reached the client: another answer is wanted. If it has not, and the reply is complete: a retry;
 4. otherwise the time since its end decides.

A reply without content, or one that is no longer in memory, is never repeated; nor is one to the same words if the new
request demands another form of the answer, or a call. Nor is one that was *cut*: it is no answer, so the agent is asked
again. Stop and a lost connection look alike, and both end the agent's turn. There is one exception. A client's library
repeats a request without its user (1 and 2), and an agent that has acted would act twice. Such a retry gets the reply as it
is, which ends with an error.

Only proof counts: a marker or call id that is foreign or forged is ignored.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.conversations.history import (
    NormalAnswer,
    NormalHistory,
    NormalItem,
    NormalPrompt,
    NormalResult,
    common_prefix,
    is_answer,
    is_prompt,
    is_result,
    item_key,
)
from dragoman.conversations.ids import IdSigner
from dragoman.conversations.records import ConversationRecord, Records, ReplyRecord, RequestKey, Scope
from dragoman.conversations.vscode_results import with_outcome
from dragoman.lm import (
    DataPart,
    LanguageModelError,
    Message,
    Part,
    Request,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.lm.parts import STATEFUL_MARKER
from dragoman.lm.request import RETRY_OPTION, SIDE_REQUEST_OPTION
from dragoman.lm.rules import NAMESPACE

__all__ = ["Evidence", "Identified", "Knowledge", "RequestKind", "identify"]

Evidence: TypeAlias = Literal["marker", "call_id", "consumer_id", "prefix", "first_turn", "none"]
RequestKind: TypeAlias = Literal[
    "prompt", "results", "results_and_prompt", "refusal", "retry", "fork", "aside", "fresh"
]

# A consumer's summary of a history stands in this tag, and replaces the history from then on.
_SUMMARY = "<conversation-summary>"


class Knowledge(msgspec.Struct, frozen=True, gc=False):
    """The input of `identify` beside the request."""

    records: Records
    tokens: IdSigner
    scope: Scope
    # When this request arrived.
    now: float = 0.0
    retry_seconds: float = 10.0
    consumer_id: str | None = None


class Identified(msgspec.Struct, frozen=True, gc=False):
    """The result of `identify`: the kind of request, its conversation, and what is new in it."""

    kind: RequestKind
    evidence: Evidence
    # Why, in a sentence for the debug log.
    reason: str
    history: NormalHistory
    conversation: str | None = None
    # The reply after which the request joins; for a fork, the last one that the fork includes. None: before all of them.
    joins: int | None = None
    # The replies that the request's history contains: the number of each, and its place in that history.
    places: tuple[tuple[int, int], ...] = ()
    # Results of open calls. A refusal may bring some too: of calls that ran before the user stopped the turn.
    results: tuple[ToolResultPart, ...] = ()
    # User messages that the agent has not received.
    prompt: tuple[Message, ...] = ()
    # Messages since our last reply that did not pass through us: another model's turns.
    meanwhile: tuple[Message, ...] = ()
    # Calls whose result came too late, or a second time.
    unwanted: tuple[str, ...] = ()
    # Markers and call ids that look like ours and were not issued by us.
    foreign: tuple[str, ...] = ()


class _Join(msgspec.Struct, frozen=True, gc=False):
    """Where a request meets a record: the first `matched` items of its history match the first `ours` items of the record."""

    record: ConversationRecord
    # The last reply of ours among the matched items.
    reply: ReplyRecord | None
    matched: int
    ours: int
    evidence: Evidence
    # The replies that were matched on the way: the number of each, and how many items of the history precede its end.
    met: tuple[tuple[int, int], ...] = ()


def _met(
    record: ConversationRecord, reply: ReplyRecord | None, matched: int, ours: int, evidence: Evidence
) -> _Join:
    return _Join(record, reply, matched, ours, evidence, () if reply is None else ((reply.number, matched),))


def identify(request: Request, history: NormalHistory, known: Knowledge) -> Identified:
    """Identify a request. `history` is the normal form of its messages.

    Raises `LanguageModelError` for a request without a message that can be answered.
    """
    return _Identification(request, history, known).decide()


class _Identification:
    __slots__ = ("_asked", "_foreign", "_history", "_known", "_request", "_request_key", "_unknown")

    def __init__(self, request: Request, history: NormalHistory, known: Knowledge) -> None:
        self._request = request
        self._known = known
        self._history = history
        self._foreign: list[str] = []
        self._request_key: RequestKey | None = None
        # The record whose last request this one repeats.
        self._asked: ConversationRecord | None = None
        # Calls that the request has results for, but that neither its history nor the conversation contains.
        self._unknown: frozenset[str] = frozenset()

    def decide(self) -> Identified:
        items = self._history.items
        if not items or isinstance(items[-1], NormalAnswer):
            raise LanguageModelError(
                "bad_request",
                "The history ends with an assistant message." if items else "The request says nothing.",
                hint="End it with a user message or with tool results.",
            )
        if self._request.options.model_options.get(SIDE_REQUEST_OPTION) is True:
            return self._found("aside", None, "its front end says that it is a side request")
        join = self._repeated() or self._joined()
        self._set_aside_unknown_results(join)
        if join is None:
            return self._summarised() or self._found("fresh", None, "nothing in it is known")
        return self._goes_on(join) if join.reply is join.record.last else self._goes_back(join)

    def _set_aside_unknown_results(self, join: _Join | None) -> None:
        """Find new results of unknown calls. They are ignored; a request that contains nothing else is refused.

        The calls of other models are known: the history contains them with their results.
        """
        messages = self._history.messages
        # From the end: the last answer is nearly always the message before the last.
        last = next((place for place in reversed(range(len(messages))) if _answers(messages[place])), -1)
        new = [part for message in messages[last + 1 :] for part in message.content]
        results = [part.call_id for part in new if isinstance(part, ToolResultPart)]
        if not results:
            return
        made = {part.call_id for _, part in self._history.named if isinstance(part, ToolCallPart)}
        unknown = [
            call_id
            for call_id in dict.fromkeys(results)
            if call_id not in made and not (join is not None and self._is_call_of(join.record, call_id))
        ]
        self._unknown = frozenset(unknown)
        rest = (
            part for part in new if not isinstance(part, ToolResultPart) or part.call_id not in self._unknown
        )
        if unknown and not _has_content(rest):
            raise LanguageModelError(
                "bad_request",
                f"There is no call {unknown[0]!r} in this conversation, so there is nothing that its result could answer.",
                hint="Send the call before its result, or end the request with a user message.",
            )
        self._foreign += [call_id for call_id in unknown if call_id not in self._foreign]

    # Which conversation.

    def _repeated(self) -> _Join | None:
        """Find the record whose last request this one repeats, with proof. Without proof, it is noted for `_goes_back`."""
        known, history = self._known, self._history
        asked = [
            record
            for record in known.records.asked(known.scope, known.consumer_id, history)
            if (last := record.last) is not None
            and self._key.asks_the_same_as(last.request_key)
            and self._has_same_key(last) is not False
        ]
        self._asked = newest = max(asked, key=_last_used, default=None)
        proved = [record for record in asked if self._is_proved(record, is_newest=record is newest)]
        if not proved:
            return None
        self._asked = max(proved, key=self._likelihood)
        named = self._by_our_names()
        return self._whole(self._asked, named.evidence if named is not None else self._evidence(history.keys))

    def _is_proved(self, record: ConversationRecord, *, is_newest: bool) -> bool:
        """Whether the request repeats that of the record: by its key, by its client's word, or after a lost reply.

        A lost reply proves nothing about a first request: another chat may begin with the same words. The client's word about
        a reply that has arrived may be that of an equal chat.
        """
        last = record.replies[-1]
        if self._has_same_key(last):
            return True
        if self._says_retry:
            return _may_be_missed(last) or (
                is_newest and (not last.is_delivered or self._known.consumer_id is not None)
            )
        is_lost = last.is_delivered is False and last.status == "complete"
        return is_lost and any(map(is_answer, self._history.keys))

    def _likelihood(self, record: ConversationRecord) -> tuple[bool, bool, float]:
        last = record.replies[-1]
        return self._has_same_key(last) is True, _may_be_missed(last), _last_used(record)

    def _whole(self, record: ConversationRecord, evidence: Evidence) -> _Join:
        """The request, all of it, meets the record where its last request ended."""
        size = len(self._history.keys)
        return _met(record, record.reply_before(size), size, size, evidence)

    def _evidence(self, shared: Sequence[bytes]) -> Evidence:
        """What these items, shared with a record, are evidence of."""
        if self._known.consumer_id is not None:
            return "consumer_id"
        return "prefix" if any(map(is_answer, shared)) else "first_turn"

    def _joined(self) -> _Join | None:
        """Find the record by our names, unless another record of ours matches more answers.

        The history of a fork has the names of the conversation it came from, until the fork has issued names.
        """
        join = self._followed(self._by_our_names())
        if join is not None and not any(
            isinstance(item, NormalAnswer) for item in self._history.items[join.matched :]
        ):
            return join
        other = self._followed(self._by_prefix())
        if join is None or (other is not None and other.reply is not None and other.matched > join.matched):
            return other
        return join

    def _by_our_names(self) -> _Join | None:
        """Find the record by the last marker or call id. Consumers sometimes drop markers; at a tie the marker wins."""
        if not self._history.named:
            return None
        marker, call = self._by_marker(), self._by_call_id()
        if marker is None or call is None:
            return marker or call
        return call if call.matched > marker.matched else marker

    def _by_marker(self) -> _Join | None:
        for place, part in reversed(self._history.named):
            if not isinstance(part, DataPart) or part.mime_type != STATEFUL_MARKER:
                continue
            name = self._known.tokens.read_marker(part)
            record = self._known.records.get(name.conversation, self._known.scope) if name else None
            if name is None or record is None:
                self._foreign.append("marker")
                continue
            reply = record.reply(name.response)
            if reply is not None:
                return _met(record, reply, self._history.counts[place], reply.ends, "marker")
        return None

    def _by_call_id(self) -> _Join | None:
        for _, part in reversed(self._history.named):
            if not isinstance(part, ToolResultPart | ToolCallPart):
                continue
            name = self._known.tokens.read_call_id(part.call_id)
            record = self._known.records.get(name.conversation, self._known.scope) if name else None
            if record is None:
                if part.call_id.startswith(NAMESPACE):
                    self._foreign.append(part.call_id)
                continue
            reply = record.reply_with(part.call_id)
            if reply is not None:
                return _met(record, reply, self._matched_up_to(record, reply), reply.ends, "call_id")
        return None

    def _matched_up_to(self, record: ConversationRecord, reply: ReplyRecord) -> int:
        """How many items the history has up to the end of a reply with calls; if it is partial, up to its first result."""
        counts, ids = self._history.counts, reply.call_ids
        if self._history.keys[: reply.ends] == record.keys[: reply.ends]:
            return reply.ends
        first = next(
            place
            for place, part in self._history.named
            if isinstance(part, ToolCallPart | ToolResultPart) and part.call_id in ids
        )
        made = {call.call_id for call in self._history.messages[first].calls}
        if not made.isdisjoint(ids):
            return counts[first]
        return counts[first - 1] if first else 0

    def _by_prefix(self) -> _Join | None:
        """Find the record by its prefix, among those with the same consumer id (or those without one)."""
        known = self._known
        length, sharing = known.records.beginning_like(known.scope, known.consumer_id, self._history)
        if not sharing:
            return None
        first, *others = sharing
        reply = first.reply_before(length)
        evidence = self._evidence(self._history.keys[:length])
        if others or (evidence == "prefix" and self._is_under_way(first, length)):
            join = self._of_tie(length, reply, evidence)
            if join is not None or others:
                return join
        if evidence == "first_turn" and length == len(self._history.items):
            # Only the user's text matches, so the request must continue it.
            return None
        return _met(first, reply, length, length, evidence)

    def _is_under_way(self, record: ConversationRecord, length: int) -> bool:
        """Whether the turn that this request would begin is under way in the record."""
        last = record.last
        return (
            last is not None
            and last.status == "streaming"
            and last.starts == length == len(self._history.items)
        )

    def _of_tie(self, length: int, reply: ReplyRecord | None, evidence: Evidence) -> _Join | None:
        """Choose among conversations that are equal so far, as the head of this module says."""
        known = self._known
        # Where the turn that the request would begin is under way: others may still be where it begins.
        length = self._last_answer(length) if reply is None else reply.ends
        if not length:
            return None
        tied, are_all = known.records.tied(known.scope, known.consumer_id, self._history, length)
        candidates = [
            record
            for record in tied
            if len(record.keys) == length and self._has_same_context(record) is not False
        ]
        if not are_all or not candidates or not all(map(_is_interchangeable, candidates)):
            return None
        record = max(candidates, key=lambda each: (self._has_same_context(each) or False, _last_used(each)))
        return _met(record, record.last, length, length, evidence)

    def _has_same_context(self, record: ConversationRecord) -> bool | None:
        """Whether the record's last request had the context of this one. None: that is no longer in memory."""
        asked = None if record.last is None else record.last.request_key
        return None if asked is None else asked.context == self._key.context

    def _last_answer(self, length: int) -> int:
        """How many of the first items of the history end with an answer."""
        return next((place for place in range(length, 0, -1) if is_answer(self._history.keys[place - 1])), 0)

    def _followed(self, join: _Join | None) -> _Join | None:
        """Extend a join to the last item that both share. Results are skipped: one may be late, repeated or lost."""
        if join is None:
            return None
        theirs, ours = self._history.keys, join.record.keys
        matched, known, reply = join.matched, join.ours, join.reply
        if matched == len(theirs) or known == len(ours):
            return join
        met = dict(join.met)
        replies = {reply.ends: reply for reply in join.record.replies if reply.ends > reply.starts}
        while matched < len(theirs) and known < len(ours):
            if theirs[matched] == ours[known]:
                matched, known = matched + 1, known + 1
                if known in replies:
                    reply = replies[known]
                    met[reply.number] = matched
            elif is_result(theirs[matched]):
                matched += 1
            elif is_result(ours[known]):
                known += 1
            else:
                break
        return replace(join, matched=matched, ours=known, reply=reply, met=tuple(met.items()))

    # What is new.

    def _goes_on(self, join: _Join) -> Identified:
        """Classify a request whose history contains our last reply."""
        pending = join.record.pending
        new = self._new_messages(join.matched)
        theirs = len(new)
        while theirs and not _answers(new[theirs - 1]):
            theirs -= 1
        results = tuple(_first_results(new, pending))
        prompt = self._words(new[theirs:], join.record)
        meanwhile = tuple(_spoken(new[:theirs]))
        if not pending:
            if prompt:
                return self._found("prompt", join, "the history goes on", prompt=prompt, meanwhile=meanwhile)
            return self._found("results", join, "all its results are for calls that are settled")
        stopped = [result for result in results if result.outcome == "interrupted"]
        if stopped or meanwhile or (prompt and not results):
            return self._found(
                "refusal",
                join,
                "the person stopped the turn" if stopped else "the history went on without the open calls",
                results=tuple(result for result in results if result not in stopped),
                prompt=prompt,
                meanwhile=meanwhile,
            )
        answered = f"{len(results)} of {len(pending)} calls answered"
        if prompt:
            return self._found("results_and_prompt", join, answered, results=results, prompt=prompt)
        return self._found("results", join, answered, results=results)

    def _goes_back(self, join: _Join) -> Identified:
        """Classify a request that joins before our last reply."""
        record, last = join.record, join.record.replies[-1]
        beyond = self._history.items[join.matched :]
        is_same = join.ours == last.starts and not beyond
        again = join if self._asked is None else self._whole(self._asked, join.evidence)
        if (is_same or again is not join) and self._is_retry(again):
            return self._found("retry", again, "the same request again")
        if is_same:
            return self._found("fork", join, "another answer is wanted")
        if join.ours == last.starts and _echoes(beyond[0], record):
            matched = join.matched + 1
            met = (*join.met, (last.number, matched))
            return self._goes_on(replace(join, reply=last, matched=matched, ours=last.ends, met=met))
        if (
            _may_be_left_out(record, join.ours)
            and beyond
            and all(isinstance(item, NormalPrompt) for item in beyond)
        ):
            prompt = self._words(self._new_messages(join.matched), record)
            return self._found("refusal", join, "the open turn was left out", prompt=prompt)
        if join.reply is None:
            return self._found("fresh", None, "it begins like another conversation and goes on differently")
        return self._found("fork", join, "the history was changed")

    def _is_retry(self, join: _Join) -> bool:
        """Whether this is the request of the last reply again, and not a wish for another answer."""
        known, last = self._known, join.record.replies[-1]
        is_named = join.evidence in ("marker", "call_id", "consumer_id")
        if not is_named and not self._key.asks_the_same_as(last.request_key):
            return False
        asked = last.request_key
        if asked is not None and asked.options.demands != self._request.options.demands:
            # The same words, but the answer must have another form.
            return False
        is_streaming = last.status == "streaming"
        if not is_streaming and last.ended_at is None:
            # It is no longer in memory.
            return False
        has_same_key = self._has_same_key(last)
        is_proved = self._says_retry if has_same_key is None else has_same_key
        if last.status == "cut":
            return is_proved and last.has_acted
        if not is_streaming and last.ends == last.starts:
            # It is empty, and the request is tried again.
            return False
        if has_same_key is not None:
            return has_same_key
        if is_streaming or is_proved:
            return True
        if last.is_delivered is True:
            return False
        is_lost = last.is_delivered is False and last.status == "complete"
        return is_lost or (last.ended_at is not None and known.now - last.ended_at <= known.retry_seconds)

    def _has_same_key(self, last: ReplyRecord) -> bool | None:
        """Whether the request has the idempotency key of the last one. None if one of them has none."""
        theirs, ours = self._key.idempotency_key, last.request_key and last.request_key.idempotency_key
        return None if theirs is None or ours is None else theirs == ours

    @property
    def _says_retry(self) -> bool:
        return self._request.options.model_options.get(RETRY_OPTION) is True

    @property
    def _key(self) -> RequestKey:
        if self._request_key is None:
            self._request_key = RequestKey.by(self._request, self._history)
        return self._request_key

    def _new_messages(self, matched: int) -> tuple[Message, ...]:
        return self._history.messages[bisect_right(self._history.counts, matched) :]

    def _words(self, messages: Iterable[Message], record: ConversationRecord) -> tuple[Message, ...]:
        """The messages without results of the record's own calls, which are delivered or late, and of unknown calls."""
        words: list[Message] = []
        for message in messages:
            content = tuple(
                part
                for part in message.content
                if not isinstance(part, ToolResultPart)
                or not (part.call_id in self._unknown or self._is_call_of(record, part.call_id))
            )
            if _has_content(content):
                words.append(Message(message.role, content, message.name))
        return tuple(words)

    def _unwanted(self, record: ConversationRecord, same: int) -> Iterator[str]:
        """The calls of new results that no call waits for. Results that the record contains are only repeated."""
        history = self._history
        new = bisect_right(history.named, same, key=lambda it: history.counts[it[0]])
        wanted = set(record.pending)
        unwanted: set[str] = set()
        for _, part in history.named[new:]:
            if not isinstance(part, ToolResultPart):
                continue
            call_id = part.call_id
            if call_id in wanted:
                wanted.remove(call_id)
            elif (
                call_id not in unwanted
                and self._is_call_of(record, call_id)
                and item_key(NormalResult(call_id)) not in record.keys
            ):
                unwanted.add(call_id)
                yield call_id

    def _is_call_of(self, record: ConversationRecord, call_id: str) -> bool:
        if call_id in record.pending:
            # The id as we issued it.
            return True
        name = self._known.tokens.read_call_id(call_id)
        return name is not None and name.conversation == record.id

    def _summarised(self) -> Identified | None:
        """Find the record of a summarised history. It has no markers and answers, but maybe a consumer id."""
        known = self._known
        if known.consumer_id is None or not any(
            message.role == "user" and _SUMMARY in message.text for message in self._history.messages
        ):
            return None
        candidates = known.records.with_consumer_id(known.scope, known.consumer_id)
        if len(candidates) != 1:
            # Ambiguous: sub-agents have the id of their parent.
            return None
        join = _Join(candidates[0], None, 0, 0, "consumer_id")
        return self._found("fork", join, "the consumer has summarised the history")

    def _found(
        self,
        kind: RequestKind,
        join: _Join | None,
        reason: str,
        *,
        results: tuple[ToolResultPart, ...] = (),
        prompt: tuple[Message, ...] = (),
        meanwhile: tuple[Message, ...] = (),
    ) -> Identified:
        if join is None:
            return Identified(kind, "none", reason, self._history, foreign=tuple(self._foreign))
        same = common_prefix(join.record.keys, self._history.keys)
        return Identified(
            kind,
            join.evidence,
            reason,
            self._history,
            join.record.id,
            join.reply.number if join.reply else None,
            self._places(join, same),
            results,
            prompt,
            meanwhile,
            tuple(self._unwanted(join.record, same)) if self._history.named else (),
            tuple(self._foreign),
        )

    def _places(self, join: _Join, same: int) -> tuple[tuple[int, int], ...]:
        """Where the record's replies are in this history: at their old place if unchanged, else found by their names."""
        record = join.record
        places = {reply.number: reply.ends for reply in record.replies if reply.starts < reply.ends <= same}
        places |= dict(join.met)
        if len(places) < len(record.replies):
            places = {**self._named_places(record), **places}
        return tuple(places.items())

    def _named_places(self, record: ConversationRecord) -> dict[int, int]:
        places: dict[int, int] = {}
        made = {call_id: reply.number for reply in record.replies for call_id in reply.call_ids}
        for place, part in self._history.named:
            if isinstance(part, ToolCallPart):
                if part.call_id in made:
                    places[made[part.call_id]] = self._history.counts[place]
            elif isinstance(part, DataPart):
                name = self._known.tokens.read_marker(part)
                if name is not None and name.conversation == record.id:
                    places[name.response] = self._history.counts[place]
        return places


def _may_be_missed(reply: ReplyRecord) -> bool:
    """Whether its consumer may wait for this reply. One that was cut is no answer."""
    return not reply.is_delivered and reply.status != "cut"


def _last_used(record: ConversationRecord) -> float:
    ended_at = record.last.ended_at if record.last is not None else None
    # Without an end it is under way.
    return math.inf if ended_at is None else ended_at


def _is_interchangeable(record: ConversationRecord) -> bool:
    """Whether the agent of the record knows nothing that the history does not have."""
    return record.is_plain and not record.is_unsettled


def _echoes(echo: NormalItem, record: ConversationRecord) -> bool:
    """Whether an answer is the beginning of our last reply, which was cut: the part that the consumer received."""
    ours = record.cut
    return (
        ours is not None
        and isinstance(echo, NormalAnswer)
        and ours.text.startswith(echo.text)
        and set(echo.calls) <= set(ours.calls)
    )


def _may_be_left_out(record: ConversationRecord, place: int) -> bool:
    """Whether the record from here on is only the rest of a turn that was never settled, starting with a reply.

    Not if it contains a user message: the agent has received that message, and the request's history lacks it.
    """
    return (
        record.is_unsettled
        and any(reply.starts == place for reply in record.replies if place >= record.opening)
        and not any(map(is_prompt, record.keys[place:]))
    )


def _answers(message: Message) -> bool:
    return message.role == "assistant" and bool(message.text.strip() or message.calls)


def _first_results(messages: Iterable[Message], pending: frozenset[str]) -> Iterator[ToolResultPart]:
    """The first result for each open call, interpreted by `with_outcome`; further results for the same call are dropped."""
    seen: set[str] = set()
    for message in messages:
        for result in message.results:
            if result.call_id in pending and result.call_id not in seen:
                seen.add(result.call_id)
                yield with_outcome(result)


def _spoken(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages with content beyond internal data."""
    for message in messages:
        if _has_content(message.content):
            yield message


def _has_content(parts: Iterable[Part]) -> bool:
    for part in parts:
        match part:
            case TextPart(value=text):
                if text.strip():
                    return True
            case DataPart():
                if not part.is_internal:
                    return True
            case ToolCallPart() | ToolResultPart():
                return True
    return False
