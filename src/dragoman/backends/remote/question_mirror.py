"""Workers' questions in a gateway's inbox, and whom the gateway's console reaches.

The console shows a copy like a question of its own process. A decision about it is a request to the worker that has the
question, and counts when that worker says so. A worker's messages open and close copies of its own questions, and nothing
else: the owner of a copy is the node in the subject of its message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, NobodyThere, Received
from dragoman.fleet.console_messages import (
    DECISION_FORM,
    DECISION_RESULT_FORM,
    PRESENCE_FORM,
    QUESTION_FORM,
    DecideQuestion,
    Presence,
    QuestionClosedMessage,
    QuestionOpened,
    QuestionsWaiting,
)
from dragoman.fleet.subjects import ALL_QUESTIONS, EVERY_QUESTION, PRESENCE, decisions_subject
from dragoman.permissions.inbox import (
    DecidedAlready,
    DecisionNotAcknowledged,
    Inbox,
    InboxDecision,
    InboxOutcome,
    InboxQuestion,
    QuestionClosed,
)

__all__ = ["QuestionMirror"]

_log = logging.getLogger(__name__)

# How often a gateway says whom it reaches. Workers do not count on it after 16 seconds.
_PRESENCE_SECONDS = 5.0
# A worker with questions says so every 5 seconds. Three of these messages may be lost.
_SILENT_SECONDS = 16.0
# Less than the 30 seconds that a page waits. A write to three replicas can take 8 seconds while they choose a leader.
_DECIDE_SECONDS = 20.0


class QuestionMirror:
    """Use `QuestionMirror.running`. The gateway's inbox has workers' questions until the end of the block."""

    def __init__(
        self,
        connection: FleetConnection,
        gateway: str,
        inbox: Inbox,
        *,
        presence_seconds: float = _PRESENCE_SECONDS,
        decide_seconds: float = _DECIDE_SECONDS,
    ) -> None:
        self._connection = connection
        self._gateway = gateway
        self._inbox = inbox
        self._presence_seconds = presence_seconds
        self._decide_seconds = decide_seconds
        self._loop = asyncio.get_running_loop()
        # When each worker was heard last, by the loop's clock.
        self._last_heard: dict[str, float] = {}
        self._published: Presence | None = None
        self._must_publish = asyncio.Event()
        # Whether questions may have come that this gateway has not heard of.
        self._must_ask_for_all = True

    @classmethod
    @asynccontextmanager
    async def running(
        cls,
        connection: FleetConnection,
        gateway: str,
        inbox: Inbox,
        **seconds: float,
    ) -> AsyncIterator[None]:
        mirror = cls(connection, gateway, inbox, **seconds)
        end = await connection.subscribe(EVERY_QUESTION, mirror._take)
        inbox.on_change.append(mirror._note_change)
        connection.on_reconnect.append(mirror._start_over)
        publishing = asyncio.create_task(mirror._publish_presence())
        try:
            yield
        finally:
            connection.on_reconnect.remove(mirror._start_over)
            inbox.on_change.remove(mirror._note_change)
            await end()
            publishing.cancel()
            await asyncio.wait({publishing})
            for question in mirror._copies():
                inbox.close(question.id, "ended")

    def _copies(self, node: str | None = None) -> list[InboxQuestion]:
        return [each for each in self._inbox if each.node and node in (None, each.node)]

    # What workers say.

    async def _take(self, received: Received) -> None:
        node = received.subject.split(".")[2]
        try:
            message = QUESTION_FORM.decode(received.data)
        except msgspec.MsgspecError as error:
            _log.warning("%s has sent a question that cannot be read: %s", node, error)
            return
        if node not in self._last_heard:
            # It is new, and does not know yet whom this gateway reaches.
            self._published = None
            self._must_publish.set()
        self._last_heard[node] = self._loop.time()
        match message:
            case QuestionOpened():
                self._open(node, message)
            case QuestionClosedMessage():
                self._inbox.close_with(_copy_id(node, message.id), message.outcome)
            case QuestionsWaiting():
                await self._compare(node, {_copy_id(node, each) for each in message.ids})

    def _open(self, node: str, message: QuestionOpened) -> None:
        inbox = self._inbox

        async def apply(decision: InboxDecision) -> None:
            await self._decide(node, message.id, decision)

        now = inbox.now()
        copy = InboxQuestion(
            _copy_id(node, message.id),
            message.action,
            message.ask,
            message.conversation,
            message.connection,
            message.client,
            # Approvals are granted by the worker, which knows the session.
            approval_session="",
            workspace=message.workspace,
            asked_at=now - message.age_seconds,
            expires_at=now + message.seconds_left,
            since=inbox.monotonic() - message.age_seconds,
            node=node,
            node_levels=message.levels,
            calls_people=message.caller == self._gateway,
        )
        inbox.mirror(copy, apply)

    async def _compare(self, node: str, waiting: set[str]) -> None:
        """Messages were lost if the worker has other questions than there are copies here."""
        copies = {each.id for each in self._copies(node)}
        for id_ in copies - waiting:
            self._inbox.close(id_, "ended")
        if waiting - copies:
            await self._ask_for_all()

    async def _ask_for_all(self) -> None:
        try:
            await self._connection.publish(ALL_QUESTIONS, b"")
        except FleetUnavailable as error:
            _log.warning("questions of workers cannot be asked for now: %s", error)

    # Decisions.

    async def _decide(self, node: str, id_: str, decision: InboxDecision) -> None:
        """Give a decision to the worker, and close the copy as the worker says."""
        try:
            data = await self._connection.request(
                decisions_subject(node),
                DECISION_FORM.encode(DecideQuestion(id_, decision)),
                self._decide_seconds,
            )
            result = DECISION_RESULT_FORM.decode(data)
        except NobodyThere as error:
            raise DecisionNotAcknowledged(
                f"{node}, where the agent runs, cannot be reached. Nothing was decided.", may_count=False
            ) from error
        except (NoAnswer, FleetUnavailable, msgspec.MsgspecError) as error:
            raise DecisionNotAcknowledged(
                f"{node}, where the agent runs, did not answer, so it is not known whether this decision counts. The "
                "question stays here until that is known.",
                may_count=True,
            ) from error
        copy, outcome = _copy_id(node, id_), result.outcome
        if result.state == "failed":
            raise DecisionNotAcknowledged(
                f"{node}, where the agent runs, could not take the decision; its log says why. Try again.",
                may_count=False,
            )
        if result.state == "closed":
            self._inbox.close_with(copy, outcome or InboxOutcome("ended", self._inbox.now()))
            raise QuestionClosed(outcome)
        if outcome is not None:
            self._inbox.close_with(copy, outcome)
        if result.state == "decided":
            raise DecidedAlready(result.decision or decision, outcome)

    # What this gateway says.

    def _note_change(self) -> None:
        """Something has changed in the inbox."""
        if self._presence() != self._published:
            self._must_publish.set()

    def _start_over(self) -> None:
        """The connection is up again. Messages may be lost, and workers new."""
        self._last_heard.clear()
        self._must_ask_for_all = True
        self._must_publish.set()

    def _presence(self) -> Presence:
        inbox = self._inbox
        if not inbox.has_console:
            return Presence(self._gateway)
        reach = inbox.reach()
        return Presence(
            self._gateway,
            reach.everyone,
            tuple(sorted(reach.connections)),
            inbox.has_webhook,
            inbox.address,
            inbox.advice,
            inbox.question_seconds,
        )

    async def _publish_presence(self) -> None:
        while True:
            self._must_publish.clear()
            if self._must_ask_for_all:
                self._must_ask_for_all = False
                await self._ask_for_all()
            presence = self._presence()
            # A gateway without a console says nothing, but that it has none any more.
            if presence != Presence(self._gateway) or self._published not in (None, presence):
                try:
                    await self._connection.publish(PRESENCE, PRESENCE_FORM.encode(presence))
                except FleetUnavailable as error:
                    _log.warning("workers do not learn now whom the console reaches: %s", error)
            self._published = presence
            try:
                async with asyncio.timeout(self._presence_seconds):
                    await self._must_publish.wait()
            except TimeoutError:
                self._drop_silent()

    def _drop_silent(self) -> None:
        """Workers that have not been heard for so long are gone, with their questions."""
        earliest = self._loop.time() - _SILENT_SECONDS
        for question in self._copies():
            if self._last_heard.get(question.node, earliest) < earliest:
                self._inbox.close(question.id, "ended")


def _copy_id(node: str, id_: str) -> str:
    """The id of a copy. A worker cannot name the question of another one."""
    return f"{node}.{id_}"
