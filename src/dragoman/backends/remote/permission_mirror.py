"""A gateway's copies of the permission requests that its workers' calls are about.

A permission call comes with its pending request. The gateway opens it in its own `Grants`, so that its front ends show and
prove it as they always do. What a front end has proved is sent to the worker as an `ApprovedCall`, without the proof. The
worker that has the request checks the nonce, and issues and redeems a grant of its own: whatever gateways do, it is granted
once.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from dragoman.conversations.ids import CONVERSATION_ID
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, NobodyThere
from dragoman.fleet.console_messages import DECISION_FORM, PENDING_LIST_FORM, LookUpCalls, ShownAsItem
from dragoman.fleet.messages import ApprovedCall, PendingMessage
from dragoman.fleet.stored import ELECTION_SECONDS
from dragoman.fleet.subjects import STATUS, decisions_subject
from dragoman.fleet.survey import statuses
from dragoman.lm import LanguageModelError, Message, Part, Request, TextPart, ToolResultPart
from dragoman.permissions.grants import Grants, PendingPermission
from dragoman.store.errors import JournalStoreError

__all__ = ["PermissionMirror"]

_log = logging.getLogger(__name__)

# Copies in memory. A gateway does not learn that a request was withdrawn. One that was dropped is looked up again.
_MOST_COPIES = 2_000
# The look-up is in memory there, and the client waits.
_LOOK_UP_SECONDS = 5.0
_AGAIN_SECONDS = 0.5
# All that live answer within milliseconds.
_STATUS_SECONDS = 1.0
# The conversation in a call id of ours. Only the worker can check the rest of it.
_CALL_ID = re.compile(rf"dg_({CONVERSATION_ID.pattern})_[0-9]{{1,9}}_[a-z2-7]{{16}}")
# As a client writes a yes itself. A transcript for another agent reads it. It grants nothing.
_ALLOWED = '{"decision": "allow"}'


class PermissionMirror:
    """The permission requests of workers that can be approved at this gateway."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[FleetConnection]],
        grants: Grants,
        owner_of: Callable[[str], Awaitable[str | None]],
    ) -> None:
        """`owner_of` returns the node that has a conversation now; None if none has, or nobody knows. It raises

        `JournalStoreError` if that cannot be read.
        """
        self._connect = connect
        self._grants = grants
        self._owner_of = owner_of
        # The node and the nonce of each, by its call id; the oldest first.
        self._copies: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        grants.on_item = self._shown_as_item

    def take(self, node: str, pending: Iterable[PendingMessage]) -> None:
        """Open copies of a worker's requests, before the front end gets their calls."""
        for each in pending:
            if self._grants.waiting(each.call_id) is not None:
                continue
            request = PendingPermission(each.call_id, each.action, each.conversation, ask=each.ask)
            self._grants.mirror(request, each.nonce, is_item=each.is_item)
            self._copies[each.call_id] = node, each.nonce
            while len(self._copies) > _MOST_COPIES:
                oldest, _ = self._copies.popitem(last=False)
                self._grants.close(oldest)

    def outgoing(self, request: Request) -> tuple[Request, tuple[ApprovedCall, ...]]:
        """A request as it is sent to a worker, and the calls that a person has approved in it.

        The copies stay until `settle`: a request that reaches no worker decides nothing, and may be sent again.
        """
        approved: list[ApprovedCall] = []

        def sent(part: Part) -> Part:
            if not isinstance(part, ToolResultPart) or part.call_id not in self._copies:
                return part
            if part.is_error or not self._grants.proves(part.call_id, part.text):
                return part
            _, nonce = self._copies[part.call_id]
            approved.append(ApprovedCall(part.call_id, nonce))
            return ToolResultPart(part.call_id, (TextPart(_ALLOWED),))

        def replaced(message: Message) -> Message:
            if not any(each.call_id in self._copies for each in message.results):
                return message
            return msgspec.structs.replace(message, content=tuple(map(sent, message.content)))

        messages = tuple(map(replaced, request.messages))
        return (msgspec.structs.replace(request, messages=messages) if approved else request), tuple(approved)

    def settle(self, request: Request) -> None:
        """A worker works on this request: what it answers is decided, and nothing more can be approved here."""
        for message in request.messages:
            for part in message.results:
                if self._copies.pop(part.call_id, None) is not None:
                    self._grants.close(part.call_id)

    async def recall(self, call_ids: Iterable[str]) -> None:
        """Open copies of those calls that wait at a worker, and that this gateway does not know.

        Raises `LanguageModelError` if a worker may have one and does not answer: without it, a yes would be lost.
        """
        by_conversation: dict[str, list[str]] = {}
        for call_id in call_ids:
            named = _CALL_ID.fullmatch(call_id)
            if named is not None and self._grants.waiting(call_id) is None:
                by_conversation.setdefault(named[1], []).append(call_id)
        for conversation, wanted in by_conversation.items():
            await self._recall(conversation, wanted)

    async def _recall(self, conversation: str, call_ids: list[str]) -> None:
        """Look up the calls of a conversation.

        An owner that does not answer is asked again, for as long as an election takes: a NATS server may hang, or may have
        just started and know no worker yet.
        """
        loop = asyncio.get_running_loop()
        limit = loop.time() + ELECTION_SECONDS
        while True:
            try:
                owner = await self._owner_of(conversation)
            except JournalStoreError as error:
                raise _not_given("it is not known now which machine runs the agent") from error
            nodes = [owner] if owner else await self._workers()
            have_answered = await asyncio.gather(*(self._look_up(node, call_ids) for node in nodes))
            if all(have_answered) or not owner:
                return
            if loop.time() >= limit:
                # Its lease lives. If it is only cut off from here, its agent still waits.
                raise _not_given(f"the worker {owner}, which runs the agent, does not answer")
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _look_up(self, node: str, call_ids: list[str]) -> bool:
        """Open copies of the calls that wait at a worker. False: it does not answer."""
        message = DECISION_FORM.encode(LookUpCalls(tuple(call_ids)))
        try:
            connection = await self._connect()
            data = await connection.request(decisions_subject(node), message, _LOOK_UP_SECONDS)
            found = PENDING_LIST_FORM.decode(data).pending
        except (NobodyThere, NoAnswer, FleetUnavailable, msgspec.MsgspecError) as error:
            _log.warning("the permission requests of %s cannot be looked up: %s", node, error)
            return False
        self.take(node, (each for each in found if each.call_id in call_ids))
        return True

    async def _workers(self) -> list[str]:
        answers = await (await self._connect()).collect(STATUS, b"", _STATUS_SECONDS)
        return [status.name for status in statuses(answers) if status.role == "worker"]

    def _shown_as_item(self, call_id: str) -> None:
        """Another gateway may get the answer. It must know from the owner that the item's id is an answer."""
        if (copy := self._copies.get(call_id)) is not None:
            task = asyncio.create_task(self._say_item(copy[0], ShownAsItem(call_id, copy[1])))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _say_item(self, node: str, message: ShownAsItem) -> None:
        try:
            connection = await self._connect()
            await connection.publish(decisions_subject(node), DECISION_FORM.encode(message))
        except FleetUnavailable as error:
            _log.warning("%s does not learn that its request is shown as an item: %s", node, error)


def _not_given(why: str) -> LanguageModelError:
    what = "your decision could not be given to the agent. Send the request again."
    return LanguageModelError(
        "unavailable",
        f"{why[0].upper()}{why[1:]}, so your decision could not be given to it.",
        hint="Send the request again.",
        retry_after=1.0,
        public=f"The machine that runs the agent cannot be reached, so {what}",
    )
