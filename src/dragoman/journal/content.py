"""Removes the content of events. No I/O.

Without content, a journal says that something happened, when, how much of it and by whose decision; not what was said,
what would run, or what a tool returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec.structs import replace

from dragoman.journal.agent_events import (
    AgentStopped,
    ConversationImported,
    PermissionDecided,
    PermissionRequested,
    PlanMade,
    ReceivedResult,
    ReplyEnded,
    RequestReceived,
    StepTaken,
    TextSaid,
    ThinkingSaid,
)
from dragoman.journal.chat_events import MessagesAdded, RunEnded
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.response_events import (
    ItemsAdded,
    MetadataChanged,
    PartsReported,
    ResponseClosed,
    ResponseOpened,
)
from dragoman.lm import ActivityPart, Message, Part, PlanPart, ToolCallPart, ToolResultPart
from dragoman.permissions.approvals import LEVELS

__all__ = ["JournalContent", "decisions_in", "is_decision", "without_content"]

# full: everything. metadata: digests and decisions. off: nothing is stored.
JournalContent: TypeAlias = Literal["full", "metadata", "off"]


def is_decision(event: AnyEvent) -> bool:
    """Whether it is part of the record of decisions, which outlives the content of its journal."""
    return isinstance(event, PermissionRequested | PermissionDecided)


def decisions_in(entries: Iterable[JournalEntry]) -> Iterator[JournalEntry]:
    """The decisions among these entries, without their content."""
    for entry in entries:
        if is_decision(entry.event) and (event := without_content(entry.event)) is not None:
            yield replace(entry, event=event)


def without_content(event: AnyEvent) -> AnyEvent | None:
    """The event without its content; None if nothing is left that is worth storing."""
    match event:
        case JournalStarted():
            return replace(event, title="")
        case RequestReceived():
            results = tuple(
                ReceivedResult(each.call_id, is_error=each.is_error, outcome=each.outcome)
                for each in event.results
            )
            return replace(event, items=(), results=results)
        case ConversationImported():
            return replace(event, items=())
        case TextSaid() | ThinkingSaid():
            return replace(event, text="")
        case StepTaken(part=part):
            step = ActivityPart(part.id, "", part.kind, part.status, exit_status=part.exit_status)
            return replace(event, part=step)
        case PlanMade():
            return replace(event, part=PlanPart(()))
        case ReplyEnded():
            calls = tuple((call_id, name, "") for call_id, name, _ in event.calls)
            return replace(event, calls=calls, sentence=None, text="")
        case PermissionRequested():
            return replace(event, action=None)
        case PermissionDecided():
            # What a person or a client gave as the reason is content. How far an approval reaches, and the name of an
            # approval, a rule or a setting, is not.
            is_level = event.is_allowed and event.why in LEVELS
            is_name = event.by in ("approval", "rule", "read-only", "setting", "mode") or (
                event.by == "person" and is_level
            )
            return event if is_name else replace(event, why=None)
        case AgentStopped():
            return replace(event, error="" if event.error is not None else None)
        case MessagesAdded():
            return replace(event, messages=tuple(map(_bare, event.messages)), has_content=False)
        case RunEnded():
            return replace(event, error=None, hint=None)
        case ResponseClosed():
            return replace(event, error=None)
        case ResponseOpened() | PartsReported() | ItemsAdded() | MetadataChanged():
            return None
        case _:
            return event


def _bare(message: Message) -> Message:
    """Who spoke, what was called, and what came of it."""
    content: list[Part] = []
    for part in message.content:
        match part:
            case ToolCallPart():
                content.append(ToolCallPart(part.call_id, part.name, {}))
            case ToolResultPart():
                content.append(
                    ToolResultPart(part.call_id, is_error=part.is_error, name=part.name, outcome=part.outcome)
                )
            case _:
                pass
    return Message(message.role, tuple(content))
