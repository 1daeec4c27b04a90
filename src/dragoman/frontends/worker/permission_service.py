"""A worker's permission calls, whose decisions come from gateways.

Every permission call leaves with its pending request. A call that a person has approved at a gateway comes back as an
`ApprovedCall`: if its nonce selects what waits, the result gets a grant of this worker, which is redeemed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.fleet.console_messages import LookUpCalls, PendingList, ShownAsItem
from dragoman.fleet.messages import ApprovedCall, PendingMessage
from dragoman.lm import Part, Request, TextPart, ToolCallPart, ToolResultPart
from dragoman.permissions.action import is_permission_tool
from dragoman.permissions.grants import Grants

__all__ = ["PermissionService"]

_REFUSED = "The user refused it."


class PermissionService:
    """Says what waits, and proves what gateways have approved."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants
        # The grant of each call that waits. Two gateways may send one approval: a second grant would void the first.
        self._issued: dict[str, str] = {}

    def pending(self, parts: Iterable[Part]) -> tuple[PendingMessage, ...]:
        """The pending requests of the permission calls among these parts."""
        calls = (each for each in parts if isinstance(each, ToolCallPart) and is_permission_tool(each.name))
        return self._pending(call.call_id for call in calls)

    def look_up(self, message: LookUpCalls) -> PendingList:
        return PendingList(self._pending(message.call_ids))

    def note_item(self, message: ShownAsItem) -> None:
        """A client has got the request as an item, so its id is an answer."""
        found = self._grants.of_call(message.call_id)
        if found is not None and found[0] == message.nonce:
            self._grants.show_as_item(message.nonce)

    def proved(self, request: Request, approved: Sequence[ApprovedCall]) -> Request:
        """The request with a grant as the result of each approved call that waits."""
        if not approved:
            return request
        nonces = {each.call_id: each.nonce for each in approved}

        def proof(part: Part) -> Part:
            if not isinstance(part, ToolResultPart) or part.is_error or part.call_id not in nonces:
                return part
            text = self._grant(part.call_id, nonces[part.call_id])
            return part if text is None else ToolResultPart(part.call_id, (TextPart(text),))

        return msgspec.structs.replace(
            request,
            messages=tuple(
                msgspec.structs.replace(message, content=tuple(map(proof, message.content)))
                if message.results
                else message
                for message in request.messages
            ),
        )

    def _grant(self, call_id: str, nonce: str) -> str | None:
        """The text that proves the approval, or refuses it. None: nothing waits, so it is decided already."""
        waiting = {
            each: token for each, token in self._issued.items() if self._grants.of_call(each) is not None
        }
        self._issued = waiting
        found = self._grants.of_call(call_id)
        if found is None:
            return None
        expected, pending = found
        if nonce != expected:
            return _REFUSED
        if call_id not in waiting:
            waiting[call_id] = self._grants.issue(nonce, pending.action.permission_tool) or _REFUSED
        return waiting[call_id]

    def _pending(self, call_ids: Iterable[str]) -> tuple[PendingMessage, ...]:
        found: list[PendingMessage] = []
        for call_id in call_ids:
            if (waits := self._grants.of_call(call_id)) is not None:
                nonce, pending = waits
                is_item = self._grants.is_item(call_id)
                found.append(
                    PendingMessage(call_id, nonce, pending.action, pending.ask, pending.conversation, is_item)
                )
        return tuple(found)
