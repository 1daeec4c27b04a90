"""Events of journals in words, for `dragoman conversations show` and `dragoman approvals history`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt
from dragoman.conversations.identify import Evidence, RequestKind
from dragoman.frontends.terminal.steps import step_state, usage_in_words
from dragoman.journal.agent_events import (
    AgentLaunched,
    AgentStopped,
    CallSettled,
    ConversationImported,
    PermissionDecided,
    PermissionRequested,
    PlanMade,
    ReplyEnded,
    RequestReceived,
    SessionChanged,
    StepTaken,
    TextSaid,
    ThinkingSaid,
    UsageNoted,
)
from dragoman.journal.chat_events import MessagesAdded, ModelChosen, RunEnded
from dragoman.journal.decision_text import permission_in_words, whole_decision_in_words
from dragoman.journal.event import ContentDeleted, JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.response_events import (
    HttpEvent,
    ItemRemoved,
    ItemsAdded,
    MetadataChanged,
    PartsReported,
    ResponseClosed,
    ResponseOpened,
)
from dragoman.lm import (
    ActivityPart,
    DataPart,
    Message,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.lm.json import JsonObject, encode_text
from dragoman.permissions.action import is_permission_tool

__all__ = ["NOT_KEPT", "counted", "event_in_words"]

NOT_KEPT = "(not kept)"
# Beside each other on the screen, more than this of a result or an input hides what was said.
_LONGEST = 2_000

_REQUESTS: dict[RequestKind, str] = {
    "prompt": "continues",
    "results": "continues with results of calls",
    "results_and_prompt": "continues with results of calls and a prompt",
    "refusal": "continues without the open turn",
    "retry": "repeats the last request",
    "fork": "branches off",
    "aside": "a side request",
    "fresh": "new conversation",
}
_EVIDENCE: dict[Evidence, str] = {
    "marker": ", by the marker",
    "call_id": ", by the id of a call",
    "consumer_id": ", by the client's id",
    "prefix": ", by what was said before",
    "first_turn": ", by its first prompt",
    "none": "",
}
_STARTS = {
    "chat": "chat",
    "agent": "conversation",
    "response": "background response",
    "items": "conversation made by /v1/conversations",
}


def counted(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def event_in_words(
    event: AnyEvent, *, in_chat: bool = False, has_agents: bool = False, is_incomplete: bool = False
) -> Iterator[str]:
    """An event as texts, each of which may have several lines. None for what a person need not see.

    `in_chat`: it belongs to an agent's conversation that is part of a chat, and the chat has what was said. `has_agents`: it
    belongs to such a chat, and the agents' conversations have their steps and permissions. `is_incomplete`: it belongs to a
    reply that has not ended, or that its chat did not get.
    """
    match event:
        case JournalStarted():
            where = f" in {event.workspace[0]}" if event.workspace else ""
            yield f"{_STARTS[event.kind]}{f' with {event.model}' if event.model else ''}{where}"
        case RequestReceived():
            fork = f" from {event.origin}" if event.origin else ""
            how = f"{_REQUESTS[event.kind]}{fork}{_EVIDENCE[event.evidence]}"
            yield f"request {event.number}: {how} ({event.reason})"
            if not in_chat:
                yield from _items(event.items)
                for result in event.results:
                    yield f"result of {result.call_id}{_outcome(result.outcome)}: {_cut(result.text) or NOT_KEPT}"
        case ConversationImported():
            yield f"taken over from version 0.1: {len(event.keys)} items, {len(event.replies)} replies"
            yield from _items(event.items)
        case TextSaid() | ThinkingSaid():
            if not in_chat or is_incomplete:
                who = "assistant" if isinstance(event, TextSaid) else "thinking"
                mark = " (incomplete)" if is_incomplete else ""
                yield f"{who}{mark}: {event.text or f'{NOT_KEPT}, {event.length} characters'}"
        case StepTaken(part=part):
            yield from _part(part)
        case PlanMade(part=plan):
            yield from _part(plan)
        case UsageNoted():
            if words := usage_in_words(event.part):
                yield f"usage: {words}"
        case ReplyEnded():
            why = f": {event.sentence or event.error}" if event.error else ""
            yield f"reply {event.number} ended, {event.status}{why}"
            if not in_chat:
                yield from (f"call {name} {_cut(arguments)}".rstrip() for _, name, arguments in event.calls)
        case CallSettled():
            # The result, or the end of the turn, stands beside it.
            pass
        case PermissionRequested():
            yield f"permission: {permission_in_words(event)}"
        case PermissionDecided():
            yield whole_decision_in_words(event)
        case AgentLaunched():
            session = "a new session" if event.is_new else "the session"
            yield f"agent {event.name} {event.version or ''} started, process {event.pid}, with {session} {event.session}"
        case AgentStopped():
            yield f"agent ended{f': {event.error}' if event.error else ''}"
        case SessionChanged():
            yield f"session of the agent: {event.session or 'none'}"
        case MessagesAdded():
            for message in event.messages:
                yield from _message(message, has_content=event.has_content, has_agents=has_agents)
        case ModelChosen():
            yield f"model: {event.model}"
        case RunEnded():
            if event.reason != "completed":
                yield f"ended: {event.reason}{f': {event.error}' if event.error else ''}"
        case ContentDeleted():
            yield "what was said was deleted"
        case _:
            yield from _http_event(event)


def _http_event(event: HttpEvent) -> Iterator[str]:
    match event:
        case ResponseOpened():
            yield "the response has begun"
        case PartsReported():
            yield from _parts("assistant", event.parts)
        case ResponseClosed():
            message = (event.error or {}).get("message")
            yield f"the response has ended, {event.end}{f': {message}' if message else ''}"
        case ItemsAdded():
            yield from map(_item, event.items)
        case ItemRemoved():
            yield f"item {event.item} was deleted"
        case MetadataChanged():
            yield f"metadata: {encode_text(event.metadata)}"


def _item(item: JsonObject) -> str:
    """An item of the Responses API: who said it, or what it is, and its text."""
    match item:
        case {"role": str() as role, "content": content}:
            return f"{role}: {_cut(_text_of(content))}"
        case {"type": "function_call", "name": str() as name}:
            return f"call {name} {_cut(str(item.get('arguments', '')))}".rstrip()
        case {"type": "function_call_output", "output": output}:
            return f"result of {item.get('call_id')}: {_cut(_text_of(output))}"
        case {"type": "reasoning", "summary": summary}:
            return f"thinking: {_cut(_text_of(summary))}"
        case _:
            return f"{item.get('type', 'item')}: {_cut(encode_text(item))}"


def _text_of(content: object) -> str:
    match content:
        case str():
            return content
        case list():
            return "".join(map(_text_of, content))
        case {"text": str() as text}:
            return text
        case {"type": str() as kind}:
            return f"({kind})"
        case _:
            return ""


def _items(items: Iterable[NormalItem]) -> Iterator[str]:
    for item in items:
        match item:
            case NormalPrompt():
                yield f"user: {item.text}" if item.text else f"user: {len(item.data)} files"
            case NormalAnswer():
                if item.text:
                    yield f"assistant: {item.text}"
                yield from (f"call {name} {_cut(arguments)}" for _, name, arguments in item.calls)
            case _:
                pass


def _message(message: Message, *, has_content: bool, has_agents: bool) -> Iterator[str]:
    if not has_content and not message.calls and not message.results:
        yield f"{message.role}: {NOT_KEPT}"
    yield from _parts(
        message.role, (part for part in message.content if not (has_agents and _is_of_agents(part)))
    )


def _parts(role: str, parts: Iterable[Part]) -> Iterator[str]:
    """Parts in words. Text that was reported piece by piece is one text."""
    for kind, same in groupby(parts, type):
        if kind is TextPart:
            yield f"{role}: {''.join(part.value for part in same if isinstance(part, TextPart))}"
        elif kind is ThinkingPart:
            yield f"thinking: {''.join(part.text for part in same if isinstance(part, ThinkingPart))}"
        else:
            for part in same:
                yield from _part(part)


def _is_of_agents(part: Part) -> bool:
    match part:
        case ActivityPart() | PlanPart():
            return True
        case ToolCallPart(name=name) | ToolResultPart(name=str() as name):
            return is_permission_tool(name)
        case _:
            return False


def _part(part: Part) -> Iterator[str]:
    match part:
        case ToolCallPart():
            yield f"call {part.name} {_cut(part.unparsed or encode_text(part.input))}"
        case ToolResultPart():
            yield f"result of {part.name or part.call_id}{_outcome(part.outcome)}: {_cut(part.text) or NOT_KEPT}"
        case ActivityPart():
            yield f"step: {part.title or NOT_KEPT} ({step_state(part)})"
        case PlanPart():
            entries = "; ".join(f"{entry.text} ({entry.status})" for entry in part.entries)
            yield f"plan: {entries or NOT_KEPT}"
        case DataPart() if not part.is_internal:
            yield f"data: {part.mime_type}, {len(part.data):,} bytes"
        case _:
            pass


def _outcome(outcome: str | None) -> str:
    return f", {outcome}" if outcome not in (None, "ok") else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text) - _LONGEST:,} more characters)"
