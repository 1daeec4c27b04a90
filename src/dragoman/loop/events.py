"""The events that a run emits to its watcher, in the order in which things happen.

Events are for looking; the questions that need an answer are in `hooks`. `to_json` is the form that
`dragoman chat --json` prints, one object a line.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.lm import (
    ActivityPart,
    DataPart,
    JsonObject,
    Message,
    PlanPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
)
from dragoman.lm.json import encode_text
from dragoman.permissions.action import Action
from dragoman.permissions.record import By
from dragoman.tools.decision import ApprovalLevel, ToolQuestion

__all__ = [
    "ActivityReported",
    "CallDecided",
    "DataReported",
    "EndReason",
    "Ended",
    "MessageAdded",
    "PlanReported",
    "QuestionAsked",
    "Retrying",
    "RunEvent",
    "TextReported",
    "ThinkingReported",
    "ToolFinished",
    "ToolProgressed",
    "ToolStarted",
    "ToolUsed",
    "TurnEnded",
    "TurnStarted",
    "UsageReported",
    "Withdrawn",
    "question_asked",
    "to_json",
]

# completed: the model had nothing more to call. tool_denied: a person said no and gave no reason. cancelled: stopped.
# turn_limit: as many turns as allowed. timed_out: no decision in time. failed: the model failed. suspended: saved for later.
EndReason: TypeAlias = Literal[
    "completed", "tool_denied", "cancelled", "turn_limit", "timed_out", "failed", "suspended"
]


class _Event(msgspec.Struct, frozen=True, tag_field="event", rename="camel", omit_defaults=True):
    pass


class TurnStarted(_Event, frozen=True, tag="turn_started"):
    turn: int


class TextReported(_Event, frozen=True, tag="text"):
    text: str


class ThinkingReported(_Event, frozen=True, tag="thinking"):
    text: str


class DataReported(_Event, frozen=True, tag="data"):
    part: DataPart


class ActivityReported(_Event, frozen=True, tag="activity"):
    """A step that an agent takes itself, as it is now: it replaces the one with its id."""

    part: ActivityPart


class PlanReported(_Event, frozen=True, tag="plan"):
    """An agent's plan as it is now."""

    part: PlanPart


class UsageReported(_Event, frozen=True, tag="usage"):
    """Tokens, context and cost, as far as they are known."""

    part: UsagePart


class Withdrawn(_Event, frozen=True, tag="withdrawn"):
    """The answer failed half-way and another attempt says something else: what this turn showed does not count."""


class Retrying(_Event, frozen=True, tag="retrying"):
    attempt: int
    delay: float
    error: str


class ToolUsed(_Event, frozen=True, tag="tool_used"):
    """The model made a call. Whether it will run is not decided yet."""

    call: ToolCallPart


class QuestionAsked(_Event, frozen=True, tag="asked"):
    """A person is being asked about a call: all that is needed in order to decide, and what may be chosen."""

    call_id: str
    tool: str
    title: str
    # Markdown, safe to render.
    message: str = ""
    # As it would run.
    input: JsonObject = {}
    levels: tuple[ApprovalLevel, ...] = ("once",)
    # What an approval that lasts would be for, in plain words.
    covers: str = ""
    # The whole message, where `message` leaves something out.
    whole: str = ""
    # The question on one line, and what an agent calls the action.
    summary: str = ""
    subject: str = ""
    # What is shown while the tool runs.
    doing: str = ""
    # What rules are applied to; not part of the JSON.
    action: Action | None = None


class CallDecided(_Event, frozen=True, tag="decided"):
    """It is decided whether a call may run."""

    # As it would run.
    call: ToolCallPart
    # What is shown while the tool runs.
    doing: str
    allowed: bool
    by: By
    # Which approval, rule or setting; how far a person's approval reaches, or their reason.
    why: str | None = None
    # From the question to the decision.
    seconds: float = 0.0
    read_only: bool = False
    # What rules are applied to; not part of the JSON.
    action: Action | None = None
    # File and line of the rule that a person made of their answer.
    new_rule: str | None = None
    # The change to files as a unified diff, where a mode allowed it; not part of the JSON.
    change: str = ""


class ToolStarted(_Event, frozen=True, tag="tool_started"):
    call_id: str
    tool: str
    message: str
    # Why it may run: "approved once", "read-only", …
    approved: str


class ToolProgressed(_Event, frozen=True, tag="tool_progressed"):
    call_id: str
    line: str


class ToolFinished(_Event, frozen=True, tag="tool_finished"):
    """The one result of a call, as it is recorded. `seconds` is how long it ran; 0 when it did not."""

    result: ToolResultPart
    approved: bool
    seconds: float = 0.0


class MessageAdded(_Event, frozen=True, tag="message"):
    message: Message


class TurnEnded(_Event, frozen=True, tag="turn_ended"):
    turn: int


class Ended(_Event, frozen=True, tag="ended"):
    reason: EndReason
    error: str | None = None
    hint: str | None = None


RunEvent: TypeAlias = (
    TurnStarted
    | TextReported
    | ThinkingReported
    | DataReported
    | ActivityReported
    | PlanReported
    | UsageReported
    | Withdrawn
    | Retrying
    | ToolUsed
    | QuestionAsked
    | CallDecided
    | ToolStarted
    | ToolProgressed
    | ToolFinished
    | MessageAdded
    | TurnEnded
    | Ended
)


def question_asked(question: ToolQuestion, doing: str) -> QuestionAsked:
    return QuestionAsked(
        question.call_id,
        question.tool,
        question.confirmation.title,
        question.confirmation.message,
        question.input,
        question.levels,
        question.covers,
        question.confirmation.whole,
        question.confirmation.summary or question.confirmation.title,
        question.confirmation.subject,
        doing,
        question.action,
    )


def to_json(event: RunEvent) -> str:
    if isinstance(event, QuestionAsked):
        event = msgspec.structs.replace(event, action=None)
    if isinstance(event, CallDecided):
        event = msgspec.structs.replace(event, action=None, change="")
    return encode_text(event)
