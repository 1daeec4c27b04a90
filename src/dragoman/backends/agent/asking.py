"""The agent's permission requests on their way to a person and back.

Each waits here between the moment the agent asks and the moment it is answered. A consumer that offers the permission
tool of a request's class is handed a call; any other gets the configured policy, and is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dragoman.backends.agent.acp.messages import PermissionRequest
from dragoman.backends.agent.changes import ApprovedEdits
from dragoman.backends.agent.dialect import UNASKED
from dragoman.backends.agent.grants import Grants, PendingPermission
from dragoman.backends.agent.permission import PERMISSION_TOOLS, Action, choose, permission_call
from dragoman.backends.agent.settings import Policy
from dragoman.backends.agent.vocabulary import (
    CallAnswer,
    Called,
    Event,
    Granted,
    Pending,
    Refused,
    TurnCancelled,
    Withdrawn,
)
from dragoman.jsonrpc import Incoming
from dragoman.lm import JsonObject, ToolResultPart
from dragoman.lm.gfm import escape

__all__ = ["Asking", "Decided", "Question", "answer_agent", "verdict"]

_CANCELLED = {"outcome": {"outcome": "cancelled"}}
# What an agent may ask for at once, in one conversation: people decide one by one.
_MAX_OPEN = 64
_MAX_OPEN_BYTES = 16 * 1024 * 1024
# How a consumer's result reads when the person gave a reason.
_WITH_REASON = "Tool use rejected with user message: "


@dataclass(frozen=True, slots=True)
class Decided:
    """A request that needs no person: what the agent is told, and what the user is."""

    granted: bool
    notice: str


@dataclass(frozen=True, slots=True)
class Question:
    """What the agent wants to do. `answer` tells it what became of that, and returns what the user should know."""

    key: str
    action: Action
    call_id: str
    answer: Callable[[CallAnswer], str | None]
    # Of the request, which is held until it is answered.
    size: int = 0


class Asking:
    """The permission requests of one conversation that wait for an answer."""

    def __init__(self, conversation: str, grants: Grants, policy: Policy) -> None:
        self._conversation = conversation
        self._grants = grants
        self._policy = policy
        self._open: dict[str, Question] = {}
        # What was approved in the turn under way, and which turn that is: a number, to see that it is another.
        self.edits = ApprovedEdits()
        self.turn = 0

    def ask(self, question: Question, offered: frozenset[str]) -> Pending | Decided:
        action, call_id = question.action, question.call_id
        if PERMISSION_TOOLS[action.risk] not in offered:
            return self._by_policy(action)
        held = question.size + sum(each.size for each in self._open.values())
        if len(self._open) >= _MAX_OPEN or held > _MAX_OPEN_BYTES:
            return Decided(
                granted=False,
                notice=f"The agent asked for permission: {escape(action.title)}. It was refused, because too much that it "
                "asked for waits already.",
            )
        self._open[question.key] = question
        nonce = self._grants.open(PendingPermission(call_id, action, self._conversation))
        return Pending(question.key, "permission", permission_call(action, call_id, nonce))

    def _by_policy(self, action: Action) -> Decided:
        granted = self._policy == "allow" or (self._policy == "allow-reads" and action.risk == "read")
        done = "allowed" if granted else "refused"
        return Decided(
            granted,
            f"The agent asked for permission: {escape(action.title)}. This client cannot ask you, so it was {done} "
            f'by the setting `permission = "{self._policy}"`.',
        )

    def answer(self, pending: Pending, answer: CallAnswer) -> str | None:
        """Tell the agent. Returns what the user should know, if anything."""
        self._grants.close(pending.call_id)
        waiting = self._open.pop(pending.key, None)
        if waiting is None:
            return None
        told = waiting.answer(answer)
        if isinstance(answer, Refused) and not answer.asked:
            return _unasked(waiting.action, answer.reason)
        return told

    def hand_over(self, pending: Pending, incoming: Incoming, tell: Callable[[Event], None]) -> None:
        """To whoever asks a person. It ends when the agent withdraws its request."""

        def withdrawn() -> None:
            self._withdraw(pending.key)
            tell(Withdrawn(pending.key))

        incoming.token.on_cancel(withdrawn)
        tell(Called(pending))

    def _withdraw(self, key: str) -> None:
        """The agent does not wait any more; it is answered all the same, if nobody has yet."""
        waiting = self._open.pop(key, None)
        if waiting is not None:
            self._grants.close(waiting.call_id)
            waiting.answer(TurnCancelled())

    def end_turn(self) -> None:
        """What was approved in it is not approved any more."""
        self.turn += 1
        self.edits.clear()

    def close(self) -> None:
        """The agent is gone: nothing can be answered, and nothing may be granted."""
        self.end_turn()
        waiting, self._open = self._open, {}
        for each in waiting.values():
            self._grants.close(each.call_id)


def _unasked(action: Action, reason: str | None) -> str:
    why = f" {escape(reason)}" if reason else ""
    return (
        f"The agent asked for permission: {escape(action.title)}. You were not asked, so it was refused.{why}"
    )


def answer_agent(request: PermissionRequest, incoming: Incoming, answer: CallAnswer) -> str | None:
    """Choose among the agent's own options, by kind, never wider than what was decided."""
    if not isinstance(answer, Granted | Refused):
        incoming.reply(_CANCELLED)
        return None
    choice = choose(request, granted=isinstance(answer, Granted))
    if choice.option is None:
        incoming.reply(_CANCELLED)
    else:
        selected: JsonObject = {"outcome": {"outcome": "selected", "optionId": choice.option}}
        if isinstance(answer, Refused) and answer.reason:
            # ACP has no place for it but this one; an agent that does not look there gets the plain refusal.
            reason = answer.reason if answer.asked else f"The user was not asked. {answer.reason}"
            selected["_meta"] = {"dragoman": {"reason": reason}}
        incoming.reply(selected)
    return choice.notice


def verdict(grants: Grants, result: ToolResultPart) -> CallAnswer:
    """What a result says about the permission it answers: granted only if it carries the proof."""
    if not result.is_error and grants.redeem(result.call_id, result.text):
        return Granted()
    if result.outcome in UNASKED:
        return Refused(result.text, asked=False)
    return Refused(result.text.removeprefix(_WITH_REASON) if result.text.startswith(_WITH_REASON) else None)
