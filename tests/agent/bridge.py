"""A bridge without agents, and a consumer without a screen: what `identify` stands between.

`Bridge` does with records what a conversation does: it takes a request in, says something, and ends the reply.
`Chat` is a consumer that stores a history the way an editor does, and sends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache

from agent.timeline import Timeline
from dragoman.conversations.history import NormalAnswer, normalise
from dragoman.conversations.identify import Identified, Knowledge, identify
from dragoman.conversations.ids import CallName, IdSigner, MarkerName
from dragoman.conversations.records import ConversationRecord, Records, ReplyStatus, RequestKey, Scope
from dragoman.lm import (
    AnswerForm,
    Consumer,
    DataPart,
    JsonObject,
    Message,
    Part,
    Request,
    RequestOptions,
    Response,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    assistant,
    system,
    user,
)

__all__ = ["MODEL", "SCOPE", "Bridge", "Chat", "Reply", "crowded", "result", "text_of"]

MODEL = "claude"
SCOPE = Scope(MODEL, ("/work",), "editor")
TOOLS = (ToolDefinition("look"), ToolDefinition("touch"))
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def result(call_id: str, text: str = "done") -> ToolResultPart:
    return ToolResultPart(call_id, (TextPart(text),))


def text_of(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages]


@dataclass(frozen=True)
class Reply:
    """What the bridge answered, as the consumer got it."""

    found: Identified
    conversation: str
    number: int
    parts: tuple[Part, ...]

    @property
    def call_ids(self) -> tuple[str, ...]:
        return tuple(part.call_id for part in self.parts if isinstance(part, ToolCallPart))


@dataclass
class Bridge:
    tokens: IdSigner = field(default_factory=lambda: IdSigner(b"k" * 32))
    records: Records = field(default_factory=Records)
    now: float = 1_000.0
    timelines: dict[str, Timeline] = field(default_factory=dict)
    # Those that no other bridge has.
    own: set[str] = field(default_factory=set)
    # What was asked last.
    _asked: RequestKey | None = None
    _made: int = 0
    _calls: int = 0

    def identify(
        self,
        messages: Iterable[Message],
        *,
        tools: bool = True,
        scope: Scope = SCOPE,
        consumer: str = "vscode",
        consumer_id: str | None = None,
        model_options: JsonObject | None = None,
        form: AnswerForm | None = None,
    ) -> Identified:
        options = RequestOptions(
            tools=TOOLS if tools else (), model_options=model_options or {}, answer_form=form
        )
        request = Request(tuple(messages), options, Consumer(name=consumer))
        known = Knowledge(self.records, self.tokens, scope, now=self.now, consumer_id=consumer_id)
        history = normalise(request.messages)
        self._asked = RequestKey.by(request, history)
        return identify(request, history, known)

    def take(
        self,
        found: Identified,
        *,
        scope: Scope = SCOPE,
        consumer_id: str | None = None,
    ) -> ConversationRecord:
        """The request is committed, and a reply begins: in its conversation, or in a new one."""
        goes_on = found.kind in ("prompt", "results", "results_and_prompt", "refusal")
        known = self.records.get(found.conversation, scope) if goes_on and found.conversation else None
        timeline = self.timeline(known.id) if known else self._begun(scope, consumer_id)
        record = timeline.record
        same_turn = found.kind in ("results", "results_and_prompt")
        turn = (record.last.turn if record.last else 0) + (0 if same_turn else 1)
        # Whatever was pending has been answered, one way or the other.
        if record.pending:
            timeline.settle(*record.pending)
        places = dict(found.places) if known else {}
        record = timeline.request(found.history, places, turn=turn, request_key=self._asked)
        self.records.put(record)
        return record

    def _begun(self, scope: Scope, consumer_id: str | None) -> Timeline:
        id_ = self.new_id()
        timeline = self.timelines[id_] = Timeline(id_, scope, consumer_id)
        self.own.add(id_)
        return timeline

    def timeline(self, conversation: str) -> Timeline:
        if conversation not in self.own:
            self.own.add(conversation)
            self.timelines[conversation] = deepcopy(self.timelines[conversation])
        return self.timelines[conversation]

    def settle(self, conversation: str, call_ids: Iterable[str]) -> None:
        """These calls have their results, or none is waited for any more."""
        self.records.put(self.timeline(conversation).settle(*call_ids))

    def deliver(self, conversation: str, *, whole: bool) -> None:
        """The front end says whether the last reply has reached the consumer."""
        self.records.put(self.timeline(conversation).deliver(whole=whole))

    def cut(self, conversation: str) -> None:
        """The reply under way was cut a minute ago, before it said anything."""
        self.records.put(self.timeline(conversation).end(NormalAnswer(""), "cut", self.now - 60))

    def new_id(self) -> str:
        self._made += 1
        number, letters = self._made, []
        for _ in range(16):
            number, digit = divmod(number, len(_LETTERS))
            letters.append(_LETTERS[digit])
        return "".join(reversed(letters))

    def say(
        self, record: ConversationRecord, text: str, calls: int = 0, status: ReplyStatus | None = "complete"
    ) -> tuple[ConversationRecord, tuple[Part, ...]]:
        """The open reply, from its first marker to its end. Without a status it goes on streaming."""
        last = record.last
        assert last is not None
        marker = self.tokens.marker(MODEL, MarkerName(record.id, last.turn, last.number))
        said: list[Part] = [TextPart(text)] if text else []
        for _ in range(calls):
            self._calls += 1
            call_id = self.tokens.call_id(CallName(record.id, self._calls))
            said.append(ToolCallPart(call_id, "look", {"n": self._calls}))
        response = Response()
        for part in said:
            response.report(part)
        answer = NormalAnswer.of(response.message())
        if status is not None:
            record = self.timeline(record.id).end(answer, status, self.now, answer.call_ids)
            self.records.put(record)
        return record, (marker, *said, *((marker,) if status == "complete" else ()))

    def remember(self, record: ConversationRecord, message: Message) -> None:
        """That message was our reply, all of it."""
        answer = NormalAnswer.of(message)
        self.records.put(self.timeline(record.id).end(answer, "complete", self.now, answer.call_ids))

    def respond(
        self,
        messages: Iterable[Message],
        text: str = "",
        calls: int = 0,
        status: ReplyStatus | None = "complete",
        *,
        tools: bool = True,
        scope: Scope = SCOPE,
        consumer: str = "vscode",
        consumer_id: str | None = None,
        model_options: JsonObject | None = None,
    ) -> Reply:
        found = self.identify(
            messages,
            tools=tools,
            scope=scope,
            consumer=consumer,
            consumer_id=consumer_id,
            model_options=model_options,
        )
        record = self.take(found, scope=scope, consumer_id=consumer_id)
        record, parts = self.say(record, text, calls, status)
        assert record.last is not None
        return Reply(found, record.id, record.last.number, parts)

    def record(self, conversation: str, scope: Scope = SCOPE) -> ConversationRecord:
        found = self.records.get(conversation, scope)
        assert found is not None
        return found


@dataclass
class Chat:
    """An editor's chat. It merges text, puts it before the calls, keeps one marker, and drops thinking and usage."""

    bridge: Bridge
    keeps_markers: bool = True
    consumer_id: str | None = None
    scope: Scope = SCOPE
    consumer: str = "vscode"
    history: list[Message] = field(default_factory=list)

    def ask(
        self, text: str, answer: str = "", calls: int = 0, status: ReplyStatus | None = "complete"
    ) -> Reply:
        self.history.append(user(text))
        return self.send(answer, calls, status)

    def give(
        self, results: Mapping[str, str], answer: str = "", calls: int = 0, *, says: str | None = None
    ) -> Reply:
        self.history += [user(result(call_id, text)) for call_id, text in results.items()]
        if says is not None:
            self.history.append(user(says))
        return self.send(answer, calls)

    def send(self, answer: str = "", calls: int = 0, status: ReplyStatus | None = "complete") -> Reply:
        reply = self.bridge.respond(
            self.history,
            answer,
            calls,
            status,
            scope=self.scope,
            consumer=self.consumer,
            consumer_id=self.consumer_id,
        )
        self.hear(reply.parts)
        return reply

    def hear(self, parts: Iterable[Part]) -> None:
        response = Response()
        markers: list[DataPart] = []
        for part in parts:
            if isinstance(part, DataPart):
                markers = [part] if self.keeps_markers else []
            else:
                response.report(part)
        content = sorted(response.message().content, key=lambda part: isinstance(part, ToolCallPart))
        if markers or content:
            self.history.append(assistant(*markers, *content))

    def identify(self, *, tools: bool = True) -> Identified:
        return self.bridge.identify(
            self.history,
            tools=tools,
            scope=self.scope,
            consumer=self.consumer,
            consumer_id=self.consumer_id,
        )

    def then(self, *messages: Message | str) -> Chat:
        """The same chat with more in its history, which is not sent yet."""
        more = [user(message) if isinstance(message, str) else message for message in messages]
        return replace(self, history=[*self.history, *more])


@cache
def _crowd(others: int) -> Bridge:
    bridge = Bridge()
    for number in range(others):
        first = ("hello", "hi", "good morning", f"question {number}")[number % 4]
        chat = Chat(
            bridge, keeps_markers=bool(number % 3), consumer_id=f"chat {number}" if number % 5 == 0 else None
        )
        chat.history += [
            system("You are an editor."),
            user("instructions"),
            user(f"environment {number % 2}"),
        ]
        kind = number % 7
        reply = chat.ask(
            first,
            "Hello!" if kind < 4 else "",
            calls=int(kind > 3),
            status="cut" if kind == 1 else "complete",
        )
        if kind in (2, 3):
            chat.ask(f"and {number % 10}?", f"That is {number % 10}.", calls=kind - 2)
        if kind == 5:
            chat.give(dict.fromkeys(reply.call_ids, "found"), "I see.")
    assert len(bridge.records) >= others
    return bridge


def crowded(others: int = 1_000) -> Bridge:
    """Many other conversations of the same scope: finished, pending and cut, and most of them begin alike."""
    crowd = _crowd(others)
    bridge = replace(crowd, records=Records(), timelines=dict(crowd.timelines), own=set())
    for record in crowd.records:
        bridge.records.put(record)
    return bridge
