"""The agent's permission requests on their way to a person and back.

Each waits here between the moment the agent asks and the moment it is answered. A consumer that offers the permission
tool of a request's class is handed a call; any other gets the configured policy, and is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.backends.agent.acp.messages import PermissionRequest
from dragoman.backends.agent.grants import Grants, PendingPermission
from dragoman.backends.agent.permission import PERMISSION_TOOLS, Action, choose, permission_call
from dragoman.backends.agent.settings import Policy
from dragoman.backends.agent.vocabulary import CallAnswer, Granted, Pending, Refused
from dragoman.jsonrpc import Incoming
from dragoman.lm import ToolResultPart
from dragoman.lm.gfm import escape

__all__ = ["Asking", "Decided", "answer_agent", "verdict"]

_CANCELLED = {"outcome": {"outcome": "cancelled"}}


@dataclass(frozen=True, slots=True)
class Decided:
    """A request that needs no person: what the agent is told, and what the user is."""

    granted: bool
    notice: str


@dataclass(slots=True)
class _Open:
    call_id: str
    request: PermissionRequest
    incoming: Incoming


class Asking:
    """The permission requests of one conversation that wait for an answer."""

    def __init__(self, conversation: str, grants: Grants, policy: Policy) -> None:
        self._conversation = conversation
        self._grants = grants
        self._policy = policy
        self._open: dict[str, _Open] = {}

    def ask(
        self,
        request: PermissionRequest,
        incoming: Incoming,
        action: Action,
        *,
        call_id: str,
        offered: frozenset[str],
    ) -> Pending | Decided:
        if PERMISSION_TOOLS[action.risk] not in offered:
            return self._by_policy(action)
        key = f"permission:{incoming.id}"
        self._open[key] = _Open(call_id, request, incoming)
        nonce = self._grants.open(PendingPermission(call_id, action, self._conversation))
        return Pending(key, "permission", permission_call(action, call_id, nonce))

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
        return answer_agent(waiting.request, waiting.incoming, answer)

    def withdraw(self, key: str, call_id: str) -> None:
        self._grants.close(call_id)
        waiting = self._open.pop(key, None)
        if waiting is not None and not waiting.incoming.answered:
            waiting.incoming.reply(_CANCELLED)

    def close(self) -> None:
        """The agent is gone: nothing can be answered, and nothing may be granted."""
        waiting, self._open = self._open, {}
        for each in waiting.values():
            self._grants.close(each.call_id)


def answer_agent(request: PermissionRequest, incoming: Incoming, answer: CallAnswer) -> str | None:
    """Choose among the agent's own options, by kind, never wider than what was decided."""
    if not isinstance(answer, Granted | Refused):
        incoming.reply(_CANCELLED)
        return None
    choice = choose(request, granted=isinstance(answer, Granted))
    if choice.option is None:
        incoming.reply(_CANCELLED)
    else:
        incoming.reply({"outcome": {"outcome": "selected", "optionId": choice.option}})
    return choice.notice


def verdict(grants: Grants, result: ToolResultPart) -> CallAnswer:
    """What a result says about the permission it answers: granted only if it carries the proof."""
    return Granted() if grants.redeem(result.call_id, result.text) else Refused()
