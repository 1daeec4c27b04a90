"""The messages about permission requests, questions and conversations between gateways and workers.

A worker publishes its questions below `dg.question.NODE`; the node in the subject is the owner, whatever a message says. A
gateway sends decisions, look-ups and operations to `dg.node.NODE.decide` and `.operate`, and the answer says what came of it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.fleet.messages import Form, PendingMessage
from dragoman.other_nodes import NodeConversation, Operation, OperationState
from dragoman.permissions.action import Action
from dragoman.permissions.approvals import ApprovalLevel
from dragoman.permissions.decide import Ask
from dragoman.permissions.inbox import InboxDecision, InboxOutcome

__all__ = [
    "DECISION_FORM",
    "DECISION_RESULT_FORM",
    "OPERATION_FORM",
    "OPERATION_RESULT_FORM",
    "PENDING_LIST_FORM",
    "PRESENCE_FORM",
    "QUESTION_FORM",
    "DecideQuestion",
    "DecisionResult",
    "ListLive",
    "LookUpCalls",
    "Operate",
    "OperationResult",
    "PendingList",
    "Presence",
    "QuestionClosedMessage",
    "QuestionOpened",
    "QuestionsWaiting",
    "ShownAsItem",
]

# Questions, from workers.


class QuestionOpened(msgspec.Struct, frozen=True, tag="opened"):
    """A question waits at this worker. Times are spans: the clocks of two machines differ."""

    id: str
    action: Action
    ask: Ask
    conversation: str
    connection: str
    client: str
    workspace: tuple[str, ...]
    levels: tuple[ApprovalLevel, ...]
    age_seconds: float
    seconds_left: float
    # The gateway that calls people who have no console open.
    caller: str = ""


class QuestionClosedMessage(msgspec.Struct, frozen=True, tag="closed"):
    id: str
    outcome: InboxOutcome


class QuestionsWaiting(msgspec.Struct, frozen=True, tag="waiting"):
    """The questions that wait at this worker, by their ids. It lives."""

    ids: tuple[str, ...]


QUESTION_FORM: Form[QuestionOpened | QuestionClosedMessage | QuestionsWaiting] = Form(
    QuestionOpened | QuestionClosedMessage | QuestionsWaiting  # type: ignore[arg-type]  # a union is no class
)


class Presence(msgspec.Struct, frozen=True):
    """About whose conversations people at a gateway can decide now, and what its console says of itself."""

    gateway: str
    everyone: bool = False
    connections: tuple[str, ...] = ()
    has_webhook: bool = False
    # "": no browser can use the console there.
    address: str = ""
    advice: str = ""
    question_seconds: float = 0.0


PRESENCE_FORM = Form(Presence)


# Decisions, from gateways.


class DecideQuestion(msgspec.Struct, frozen=True, tag="decide"):
    id: str
    decision: InboxDecision


class LookUpCalls(msgspec.Struct, frozen=True, tag="calls"):
    """Which of these calls are permission requests that wait? The answer is a `PendingList`."""

    call_ids: tuple[str, ...]


class ShownAsItem(msgspec.Struct, frozen=True, tag="item"):
    """A client has got this permission call as an item. There is no answer."""

    call_id: str
    nonce: str


DECISION_FORM: Form[DecideQuestion | LookUpCalls | ShownAsItem] = Form(
    DecideQuestion | LookUpCalls | ShownAsItem  # type: ignore[arg-type]  # a union is no class
)


class DecisionResult(msgspec.Struct, frozen=True):
    """taken: the decision counts. decided: another one did. closed: the question has ended, or there is none.

    failed: the owner could not take it, and the question still waits.
    """

    state: Literal["taken", "decided", "closed", "failed"]
    outcome: InboxOutcome | None = None
    # The decision that counts, while it is on its way.
    decision: InboxDecision | None = None


DECISION_RESULT_FORM = Form(DecisionResult)


class PendingList(msgspec.Struct, frozen=True):
    pending: tuple[PendingMessage, ...] = ()


PENDING_LIST_FORM = Form(PendingList)


# Conversations.


class ListLive(msgspec.Struct, frozen=True, tag="live"):
    """Which conversations are in your process?"""


class Operate(msgspec.Struct, frozen=True, tag="conversation"):
    """Stop the turn of a conversation, park its agent, or forget it, because it is deleted."""

    conversation: str
    operation: Operation


OPERATION_FORM: Form[ListLive | Operate] = Form(ListLive | Operate)  # type: ignore[arg-type]  # a union is no class


class OperationResult(msgspec.Struct, frozen=True):
    state: OperationState = "done"
    live: tuple[NodeConversation, ...] = ()


OPERATION_RESULT_FORM = Form(OperationResult)
