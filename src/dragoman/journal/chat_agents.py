"""What the journals of its agents add to a chat: what became of permissions, and replies that the chat did not get. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from dragoman.journal.agent_events import (
    PermissionDecided,
    PermissionRequested,
    PlanMade,
    RequestReceived,
    StepTaken,
    TextSaid,
    ThinkingSaid,
)
from dragoman.journal.chat_events import MessagesAdded, RunEnded
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.lm import Message
from dragoman.permissions.action import Action

__all__ = [
    "AgentRequest",
    "AgentsEntries",
    "AllowedProgress",
    "LostReply",
    "agent_requests",
    "begins_prompt",
    "is_prompt",
    "lost_replies",
]

# By the id of the agent's journal.
AgentsEntries: TypeAlias = Mapping[str, Sequence[JournalEntry]]
# What the journal has of a step after it was allowed.
AllowedProgress: TypeAlias = Literal["unknown", "running", "done"]
_Reported: TypeAlias = TextSaid | ThinkingSaid | StepTaken | PlanMade


class AgentRequest(msgspec.Struct, frozen=True):
    """A permission that an agent requested through the chat."""

    action: Action
    progress: AllowedProgress = "unknown"


class LostReply(msgspec.Struct, frozen=True):
    """A reply that the chat has nothing of, because its process ended before the reply was complete."""

    journal: str
    number: int
    events: tuple[AnyEvent, ...]


def is_prompt(message: Message) -> bool:
    return message.role == "user" and not message.results


def begins_prompt(event: AnyEvent) -> bool:
    return isinstance(event, MessagesAdded) and any(map(is_prompt, event.messages))


def agent_requests(agents: AgentsEntries) -> dict[str, AgentRequest]:
    """What the agents asked for, by the id of the call that asked."""
    found: dict[str, AgentRequest] = {}
    for entries in agents.values():
        allowed: set[str] = set()
        for entry in entries:
            match entry.event:
                case PermissionRequested(id=id_, action=Action() as action):
                    found[id_] = AgentRequest(action)
                case PermissionDecided(id=id_, is_allowed=True) if id_ in found:
                    allowed.add(id_)
                case StepTaken(part=part) if part.status != "pending":
                    progress: AllowedProgress = "running" if part.status == "in_progress" else "done"
                    for id_ in allowed:
                        action = found[id_].action
                        # An agent gives a step the title that its request had, or the command.
                        if part.title in (action.title, action.command):
                            found[id_] = AgentRequest(action, progress)
                case _:
                    pass
    return found


def lost_replies(chat: Sequence[JournalEntry], agents: AgentsEntries) -> dict[int, list[LostReply]]:
    """The replies that a chat lost, by the sequence number of the last message before them."""
    cuts = list(_cuts(chat))
    found: dict[int, list[LostReply]] = {}
    for journal, entries in agents.items():
        for entry in entries:
            if not isinstance(entry.event, RequestReceived):
                continue
            number = entry.event.number
            for last, end in cuts:
                if last.at <= entry.at < end:
                    said = tuple(each.event for each in entries if _is_of(each.event, number))
                    found.setdefault(last.sequence, []).append(LostReply(journal, number, said))
    return found


def _is_of(event: AnyEvent, number: int) -> bool:
    return isinstance(event, _Reported) and event.number == number


def _cuts(chat: Sequence[JournalEntry]) -> Iterator[tuple[JournalEntry, float]]:
    """Where an answer ended before it was complete: its last message, and when the next prompt came."""
    starts = [place for place, entry in enumerate(chat) if begins_prompt(entry.event)]
    for start, end in pairwise([*starts, len(chat)]):
        run = chat[start:end]
        if not any(isinstance(entry.event, RunEnded) for entry in run):
            last = [entry for entry in run if isinstance(entry.event, MessagesAdded)][-1]
            yield last, chat[end].at if end < len(chat) else float("inf")
