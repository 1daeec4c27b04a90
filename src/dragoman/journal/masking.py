"""Events without secrets. What identifies a conversation (digests, ids) is never changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.cleaning import Cleaning
from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt
from dragoman.journal.agent_events import (
    AgentStopped,
    ConversationImported,
    PermissionDecided,
    PermissionRequested,
    PlanMade,
    ReplyEnded,
    RequestReceived,
    StepTaken,
    TextSaid,
    ThinkingSaid,
)
from dragoman.journal.chat_events import MessagesAdded, RunEnded
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.lm import (
    ActivityPart,
    ContentPart,
    DataPart,
    JsonObject,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

__all__ = ["masked"]

# The length of a title, which is the start of the first message.
_TITLE_CHARACTERS = 120

_S = TypeVar("_S", bound=msgspec.Struct)


def masked(event: AnyEvent, cleaning: Cleaning) -> AnyEvent:
    clean = _Clean(cleaning)
    match event:
        case TextSaid(text=text) | ThinkingSaid(text=text):
            return replace(event, text=clean.text(text))
        case JournalStarted(title=title):
            # Cut only now: half a secret is not recognised.
            title = clean.text(title)[:_TITLE_CHARACTERS]
            return replace(event, title=title, program=clean.text(event.program))
        case ConversationImported():
            return replace(event, items=tuple(map(clean.item, event.items)))
        case RequestReceived():
            items = tuple(map(clean.item, event.items))
            results = tuple(replace(each, text=clean.text(each.text)) for each in event.results)
            return replace(event, items=items, results=results)
        case StepTaken(part=part):
            return replace(event, part=clean.struct(part))
        case PlanMade(part=plan):
            return replace(event, part=clean.struct(plan))
        case ReplyEnded():
            return replace(
                event,
                calls=clean.calls(event.calls),
                sentence=clean.maybe(event.sentence),
                text=clean.text(event.text),
            )
        case PermissionRequested(action=action) if action is not None:
            return replace(event, action=clean.struct(action))
        case PermissionDecided():
            return replace(event, why=clean.maybe(event.why))
        case AgentStopped():
            return replace(event, error=clean.maybe(event.error))
        case MessagesAdded():
            messages = tuple(replace(each, content=clean.parts(each.content)) for each in event.messages)
            return replace(event, messages=messages)
        case RunEnded():
            return replace(event, error=clean.maybe(event.error), hint=clean.maybe(event.hint))
        case _:
            # What the HTTP server keeps for its clients stays as it is, too: see `response_events`.
            return event


class _Clean:
    def __init__(self, cleaning: Cleaning) -> None:
        self._cleaning = cleaning

    def text(self, text: str) -> str:
        return self._cleaning.text(text) if text else text

    def maybe(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def json(self, value: JsonObject) -> JsonObject:
        return {name: self._cleaning.value(name, each) for name, each in value.items()}

    def struct(self, value: _S) -> _S:
        return msgspec.convert(self._cleaning.value("", msgspec.to_builtins(value)), type(value))

    def calls(self, calls: Iterable[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
        return tuple((call_id, name, self.text(arguments)) for call_id, name, arguments in calls)

    def item(self, item: NormalItem) -> NormalItem:
        match item:
            case NormalPrompt():
                return NormalPrompt(self.text(item.text), item.data)
            case NormalAnswer():
                return NormalAnswer(self.text(item.text), self.calls(item.calls))
            case _:
                return item

    def parts(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        return tuple(map(self._part, parts))

    def _part(self, part: Part) -> Part:
        match part:
            case TextPart() | DataPart():
                return self._content(part)
            case ThinkingPart(value=str() as text):
                return replace(part, value=self.text(text))
            case ThinkingPart(value=tuple() as texts):
                return replace(part, value=tuple(map(self.text, texts)))
            case ToolCallPart():
                return replace(part, input=self.json(part.input), unparsed=self.maybe(part.unparsed))
            case ToolResultPart():
                content = tuple(map(self._content, part.content))
                return replace(
                    part, content=content, input=None if part.input is None else self.json(part.input)
                )
            case ActivityPart() | PlanPart():
                return self.struct(part)
            case _:
                return part

    def _content(self, part: ContentPart) -> ContentPart:
        if isinstance(part, TextPart):
            return replace(part, value=self.text(part.value))
        if not part.is_textual or part.is_internal:
            return part
        text = part.data.decode("utf-8", "surrogateescape")
        return replace(part, data=self.text(text).encode("utf-8", "surrogateescape"))
