"""The events of a conversation with an agent."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.conversations.history import NormalItem
from dragoman.conversations.identify import Evidence, RequestKind
from dragoman.conversations.records import ReplyRecord, ReplyStatus
from dragoman.journal.event import JournalEvent
from dragoman.lm import ActivityPart, PlanPart, UsagePart
from dragoman.permissions.action import Action
from dragoman.permissions.record import By

__all__ = [
    "AgentEvent",
    "AgentLaunched",
    "AgentStopped",
    "CallSettled",
    "ConversationImported",
    "PermissionDecided",
    "PermissionRequested",
    "PlanMade",
    "ReceivedResult",
    "ReplyEnded",
    "RequestReceived",
    "SessionChanged",
    "StepTaken",
    "TextSaid",
    "ThinkingSaid",
    "UsageNoted",
]


class ReceivedResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a call. Pictures and files are given by their type and digest."""

    call_id: str
    text: str = ""
    data: tuple[str, ...] = ()
    is_error: bool = False
    outcome: str | None = None


class RequestReceived(JournalEvent, frozen=True):
    """A request of the consumer, and how it was identified. It begins the reply `number`.

    The history of the request is the first `keeps` items of the record, followed by `keys`. Replies whose place in the
    history has changed are in `moved`, as number, start and end; those that the history lacks are in `dropped`.
    """

    number: int
    turn: int
    kind: RequestKind
    evidence: Evidence
    reason: str
    # Of the normal history of the request.
    digest: str
    keeps: int = 0
    keys: tuple[bytes, ...] = ()
    moved: tuple[tuple[int, int, int], ...] = ()
    dropped: tuple[int, ...] = ()
    # The conversation that the request was identified as, if this one is a fork of it.
    origin: str | None = None
    # Content: the new items, and the results of calls that were open.
    items: tuple[NormalItem, ...] = ()
    results: tuple[ReceivedResult, ...] = ()


class ConversationImported(JournalEvent, frozen=True):
    """The state of a conversation that was stored before there were journals. Nothing precedes it but the start."""

    keys: tuple[bytes, ...]
    replies: tuple[ReplyRecord, ...]
    pending: tuple[str, ...] = ()
    session: str | None = None
    issued: int = 0
    # Content.
    items: tuple[NormalItem, ...] = ()


class TextSaid(JournalEvent, frozen=True):
    """A piece of a reply's text, as the agent said it. `offset` counts the characters of the reply before it.

    `is_notice`: Dragoman said it, and not the agent.

    It is for people to read. A request is recognised by what the consumer got: `ReplyEnded` has the digest.
    """

    number: int
    offset: int
    length: int
    text: str = ""
    is_notice: bool = False


class ThinkingSaid(JournalEvent, frozen=True):
    number: int
    length: int
    text: str = ""


class StepTaken(JournalEvent, frozen=True):
    """A step of the agent's own, in its last state in this reply or at this time."""

    number: int
    part: ActivityPart


class PlanMade(JournalEvent, frozen=True):
    number: int
    part: PlanPart


class UsageNoted(JournalEvent, frozen=True):
    number: int
    part: UsagePart


class ReplyEnded(JournalEvent, frozen=True):
    """A reply has ended. `key` is the digest of its text and calls; None for a reply without either."""

    number: int
    status: ReplyStatus
    key: bytes | None = None
    calls: tuple[tuple[str, str, str], ...] = ()
    # Calls that wait for a result from now on.
    pending: tuple[str, ...] = ()
    # How many call ids this conversation has issued.
    issued: int = 0
    # Why it failed: the kind of error, and a sentence.
    error: str | None = None
    sentence: str | None = None
    # Content: what the consumer got of a reply that is not complete. It may send a part of that back.
    text: str = ""


class CallSettled(JournalEvent, frozen=True):
    """A call no longer waits for a result."""

    call_id: str


class PermissionRequested(JournalEvent, frozen=True):
    """An agent or a tool of the terminal requests a permission. `id` is unique among the open requests of its journal."""

    id: str
    # The agent and the class of the action are no content.
    agent: str
    risk: str
    tool: str
    # Of the whole action: equal actions have equal digests.
    digest: str
    is_sensitive: bool = False
    # Content.
    action: Action | None = None


class PermissionDecided(JournalEvent, frozen=True):
    id: str
    is_allowed: bool
    by: By
    # Where the person was asked or could not be: the front end.
    where: str
    # From the request to the decision.
    seconds: float
    # Which approval, rule or setting; or a person's reason.
    why: str | None = None
    # File and line of the rule that a person made of their answer.
    new_rule: str | None = None
    # How far a yes at the console reaches. (A tool of the terminal has it in `why`.)
    level: str = "once"


class AgentLaunched(JournalEvent, frozen=True):
    """An agent's process is up, with a session that is new or was taken up."""

    name: str
    version: str | None
    pid: int
    session: str
    is_new: bool


class AgentStopped(JournalEvent, frozen=True):
    """The agent's process has ended: on our request, or with an error."""

    error: str | None = None


class SessionChanged(JournalEvent, frozen=True):
    """The agent's session that has this conversation; None: no session has it."""

    session: str | None


AgentEvent: TypeAlias = (
    RequestReceived
    | ConversationImported
    | TextSaid
    | ThinkingSaid
    | StepTaken
    | PlanMade
    | UsageNoted
    | ReplyEnded
    | CallSettled
    | PermissionRequested
    | PermissionDecided
    | AgentLaunched
    | AgentStopped
    | SessionChanged
)
