"""A worker's questions for the console, which gateways show.

It is the watcher of the worker's inbox: it publishes each question and how it ended, and knows from gateways whether a
person can be asked. A decision is a request of a gateway. The answer is sent when the conversation has taken the decision.

Messages may be lost. So the worker also says every few seconds which questions wait, and publishes all of them again when a
gateway asks for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, Received
from dragoman.fleet.console_messages import (
    DECISION_FORM,
    DECISION_RESULT_FORM,
    PENDING_LIST_FORM,
    PRESENCE_FORM,
    QUESTION_FORM,
    DecideQuestion,
    DecisionResult,
    LookUpCalls,
    QuestionClosedMessage,
    QuestionOpened,
    QuestionsWaiting,
    ShownAsItem,
)
from dragoman.fleet.subjects import ALL_QUESTIONS, PRESENCE, decisions_subject, questions_subject
from dragoman.frontends.worker.gateway_people import GatewayPeople
from dragoman.frontends.worker.permission_service import PermissionService
from dragoman.permissions.concluding import conclude, levels_for, promised_levels
from dragoman.permissions.inbox import DecidedAlready, InboxOutcome, InboxQuestion, QuestionClosed, Reach
from dragoman.permissions.pipeline import PermissionServices

__all__ = ["QuestionService"]

_log = logging.getLogger(__name__)

_SAY_SECONDS = 5.0
_NO_GATEWAY = "No person can be asked now: no gateway of the fleet has a console that is open to people."


class QuestionService:
    """Use `QuestionService.serving`. It has the inbox of the worker until the end of the block."""

    def __init__(
        self,
        connection: FleetConnection,
        node: str,
        services: PermissionServices,
        calls: PermissionService,
        *,
        may_act: Callable[[], bool] = lambda: True,
        say_seconds: float = _SAY_SECONDS,
    ) -> None:
        """`may_act`: the worker is not fenced."""
        self._may_act = may_act
        self._connection = connection
        self._subject = questions_subject(node)
        self._node = node
        self._services = services
        self._inbox = services.inbox
        self._calls = calls
        self._say_seconds = say_seconds
        self._people = GatewayPeople()
        self._loop = asyncio.get_running_loop()
        # What is to be published, in order.
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._decisions: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        ends = [
            await self._connection.subscribe(PRESENCE, self._take_presence),
            await self._connection.subscribe(ALL_QUESTIONS, self._publish_all),
            await self._connection.subscribe(decisions_subject(self._node), self._take_decision),
        ]
        await self._connection.flush()
        self._use_console()
        tasks = [asyncio.create_task(self._publish()), asyncio.create_task(self._say())]
        try:
            yield
        finally:
            for end in ends:
                await end()
            self._inbox.disconnect()
            for task in (*tasks, *self._decisions):
                task.cancel()
            await asyncio.wait({*tasks, *self._decisions})
            await self._publish_rest()

    # As the watcher of the inbox.

    def reach(self) -> Reach:
        return self._people.reach(self._loop.time())

    def opened(self, question: InboxQuestion) -> None:
        self._outgoing.put_nowait(QUESTION_FORM.encode(self._message(question)))

    def closed(self, question: InboxQuestion, outcome: InboxOutcome) -> None:
        self._outgoing.put_nowait(QUESTION_FORM.encode(QuestionClosedMessage(question.id, outcome)))

    def _message(self, question: InboxQuestion) -> QuestionOpened:
        inbox = self._inbox
        levels = levels_for(question, promised_levels(self._services, question))
        return QuestionOpened(
            question.id,
            question.action,
            question.ask,
            question.conversation,
            question.connection,
            question.client,
            question.workspace,
            levels,
            inbox.monotonic() - question.since,
            question.expires_at - inbox.now(),
            self._people.caller(self._loop.time()),
        )

    # What gateways say.

    async def _take_presence(self, received: Received) -> None:
        self._people.take(PRESENCE_FORM.decode(received.data), self._loop.time())
        self._use_console()
        self._inbox.changed()

    def _use_console(self) -> None:
        """Let the inbox name the console of a gateway that is there."""
        there = self._people.present(self._loop.time())
        if there:
            best = there[0]
            found = best.address, best.advice, best.question_seconds
        else:
            found = "", _NO_GATEWAY, self._inbox.question_seconds
        inbox = self._inbox
        if not inbox.has_console or found != (inbox.address, inbox.advice, inbox.question_seconds):
            inbox.connect(self, *found)

    async def _publish_all(self, _received: Received) -> None:
        for question in self._inbox:
            self.opened(question)

    async def _take_decision(self, received: Received) -> None:
        match DECISION_FORM.decode(received.data):
            case LookUpCalls() as look_up:
                await self._connection.answer(
                    received, PENDING_LIST_FORM.encode(self._calls.look_up(look_up))
                )
            case ShownAsItem() as shown:
                self._calls.note_item(shown)
            case DecideQuestion() as decide:
                # It waits for the store. Other messages do not wait for it.
                task = asyncio.create_task(self._decide(received, decide))
                self._decisions.add(task)
                task.add_done_callback(self._decisions.discard)

    async def _decide(self, received: Received, message: DecideQuestion) -> None:
        try:
            result = await self._result(message)
        except Exception:
            _log.exception("the decision about question %s could not be taken", message.id)
            result = DecisionResult("failed")
        try:
            await self._connection.answer(received, DECISION_RESULT_FORM.encode(result))
        except FleetUnavailable as error:
            _log.warning("a gateway does not learn what became of a decision: %s", error)

    async def _result(self, message: DecideQuestion) -> DecisionResult:
        if not self._may_act():
            return DecisionResult("failed")
        question, decision = self._inbox.find(message.id), message.decision
        if question is not None:
            may_reach = levels_for(question, promised_levels(self._services, question))
            if not decision.is_allowed or decision.level not in may_reach:
                # Never wider than this worker offers.
                decision = replace(decision, level="once")
        try:
            # The question may be decided or over. Then this raises, and nothing has changed.
            asked = self._inbox.check_open(message.id)
            outcome = await conclude(self._services, asked, replace(decision, new_rule=None))
        except DecidedAlready as first:
            return DecisionResult("decided", first.outcome, first.decision)
        except QuestionClosed as closed:
            return DecisionResult("closed", closed.outcome)
        return DecisionResult("taken", outcome)

    # What this worker says.

    async def _publish(self) -> None:
        while True:
            await self._send(await self._outgoing.get())

    async def _publish_rest(self) -> None:
        """How the last questions ended: with this worker."""
        while not self._outgoing.empty():
            await self._send(self._outgoing.get_nowait())

    async def _send(self, data: bytes) -> None:
        if not self._may_act():
            return
        try:
            await self._connection.publish(self._subject, data)
        except FleetUnavailable as error:
            _log.warning("gateways do not learn of a question now: %s", error)

    async def _say(self) -> None:
        """Say that this worker lives and which questions wait, as long as gateways may have some."""
        had_some = True
        while True:
            ids = tuple(question.id for question in self._inbox)
            if ids or had_some:
                self._outgoing.put_nowait(QUESTION_FORM.encode(QuestionsWaiting(ids)))
            had_some = bool(ids)
            await asyncio.sleep(self._say_seconds)
            self._use_console()
