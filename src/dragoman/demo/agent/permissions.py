"""Asking for permission: `session/request_permission`. https://agentclientprotocol.com/protocol/tool-calls

The permission requests of all calls of one answer are sent at once, and each call runs when it is allowed. The loop
decides about the calls one by one: by the time it comes to a call, its request may already be answered.

ACP has no field for a reason. A client may put one under `_meta`, as Dragoman does: then the model gets the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from dragoman.acp.messages import Option, ToolActivity
from dragoman.demo.agent.actions import DemoAction, describe
from dragoman.demo.agent.tools import Toolbox
from dragoman.jsonrpc import ConnectionClosed, Decoder, ErrorResponse, Peer, RequestId, RpcReply, RpcResponse
from dragoman.lm import ToolCallPart
from dragoman.tools.decision import Approve, Decision, Deny, ToolQuestion

__all__ = ["OPTIONS", "DemoPermissions"]

_log = logging.getLogger(__name__)

# Clients choose by kind; only we use the ids.
OPTIONS = (
    Option("demo-once", "allow_once", "Allow"),
    Option("demo-always", "allow_always", "Allow for this session"),
    Option("demo-never", "reject_once", "Refuse"),
)
_APPROVALS: dict[str, Decision] = {"demo-once": Approve("once"), "demo-always": Approve("session")}


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str
    tool_call: ToolActivity
    options: tuple[Option, ...] = OPTIONS


class _Outcome(msgspec.Struct, frozen=True, rename="camel"):
    # "selected" with the id of an option, or "cancelled".
    outcome: str
    option_id: str | None = None


class _Remark(msgspec.Struct, frozen=True):
    reason: str | None = None
    # No person decided, so the reason is not a person's words.
    unasked: bool = False


class _Meta(msgspec.Struct, frozen=True):
    dragoman: _Remark = _Remark()


class _Answer(msgspec.Struct, frozen=True):
    outcome: _Outcome
    meta: _Meta = msgspec.field(name="_meta", default=_Meta())


_answer = Decoder(_Answer)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A permission request that was sent."""

    action: DemoAction
    identity: RequestId
    decision: asyncio.Future[Decision]


class DemoPermissions:
    """The open questions of one turn. `cancel` ends the turn: a client answers so when it has cancelled it."""

    def __init__(
        self,
        peer: Peer,
        session: str,
        toolbox: Toolbox,
        cancel: Callable[[], None],
    ) -> None:
        self._peer = peer
        self._session = session
        self._toolbox = toolbox
        self._cancel = cancel
        self._asked: dict[str, _Asked] = {}

    def ask_ahead(self, call: ToolCallPart, action: DemoAction) -> None:
        """Send the permission request for a call before the loop comes to it, if one is needed."""
        if action.key is not None and not self._toolbox.is_approved(call.name, action.key):
            self._ask(call.call_id, action)

    async def decide(self, question: ToolQuestion) -> Decision:
        """The client's decision. The request may have been sent already."""
        call_id = question.call_id
        action = describe(ToolCallPart(call_id, question.tool, question.input), self._toolbox)
        asked = self._asked.get(call_id)
        if asked is None or asked.action.activity.content != action.activity.content:
            # Not sent yet; or the file has changed since the user saw it.
            self.close(call_id)
            asked = self._ask(call_id, action)
        return await asked.decision

    def close(self, call_id: str) -> None:
        """Withdraw or forget the permission request of a call."""
        asked = self._asked.pop(call_id, None)
        if asked is not None and not asked.decision.done():
            asked.decision.cancel()
            with suppress(ConnectionClosed):
                self._peer.withdraw(asked.identity)

    def close_all(self) -> None:
        for call_id in tuple(self._asked):
            self.close(call_id)

    def _ask(self, call_id: str, action: DemoAction) -> _Asked:
        decision: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

        def on_reply(reply: RpcReply) -> None:
            if not decision.done():
                decision.set_result(self._decision(reply))

        request = _Request(self._session, action.activity)
        identity = self._peer.call("session/request_permission", request, on_reply)
        asked = self._asked[call_id] = _Asked(action, identity, decision)
        return asked

    def _decision(self, reply: RpcReply) -> Decision:
        """Never an approval unless the client chose one of the options that say so."""
        match reply:
            case RpcResponse(result=result):
                try:
                    answer = _answer.decode(result)
                except msgspec.DecodeError as error:
                    _log.warning("an answer about a permission cannot be read: %s", error)
                    return Deny()
                if answer.outcome.outcome == "cancelled":
                    # "If the client has cancelled the prompt turn […]": so it ends, also before the cancel arrives.
                    self._cancel()
                remark = answer.meta.dragoman
                return _APPROVALS.get(answer.outcome.option_id or "") or Deny(
                    remark.reason, by_user=not remark.unasked
                )
            case ErrorResponse(error=error):
                _log.warning("the client cannot ask for permission: %s", error.message)
                return Deny()
            case ConnectionClosed():
                self._cancel()
                return Deny()
