"""Building blocks for tests of the loop: tools that note what happens to them, a person with a script, and a run of both.

Everything of ours in them is real: registry, runtime, approvals, guard. Only the tools and the person are written here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from dragoman.clock import Clock
from dragoman.lm import (
    CancellationSource,
    CancellationToken,
    JsonObject,
    LanguageModel,
    Message,
    ModelInfo,
    Request,
    Sink,
    ToolCallPart,
    ToolResultPart,
    user,
)
from dragoman.lm.parts import ToolResult
from dragoman.loop import Hooks, LoopSettings, RunEvent, RunState, ToolLoop, begin
from dragoman.loop.events import Ended, TextReported
from dragoman.loop.history import gaps
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.rules_in_force import RulesInForce
from dragoman.tools.decision import Approve, Decision, Deny, ToolQuestion
from dragoman.tools.declaration import Declaration
from dragoman.tools.registry import ToolRegistry
from dragoman.tools.runtime import ToolRuntime
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation

__all__ = [
    "ANYTHING",
    "NO",
    "YES",
    "Answer",
    "Behaviour",
    "ClosedHistoryModel",
    "Gate",
    "Person",
    "RecordingTool",
    "events_of",
    "last_results",
    "no",
    "outcomes",
    "play",
    "shown_text",
    "toolbox",
]

_E = TypeVar("_E")

Behaviour: TypeAlias = Callable[[Invocation, CancellationToken], Awaitable[object]]

# What a person does when asked: decide, raise, or something that takes its own time.
Answer: TypeAlias = Decision | Exception | Callable[[ToolQuestion, CancellationToken], Awaitable[object]]

ANYTHING: JsonObject = {"type": "object"}

YES = Approve()
NO = Deny()


def no(reason: str) -> Deny:
    return Deny(reason)


async def _succeed(invocation: Invocation, _token: CancellationToken) -> str:
    return f"did {invocation.call_id}"


class RecordingTool:
    """A tool that notes when it began and when it ended, by call id, and with what it was invoked."""

    def __init__(
        self,
        name: str,
        behaviour: Behaviour = _succeed,
        *,
        read_only: bool = False,
        parallel: bool | None = None,
        schema: JsonObject | None = None,
        prepare: Callable[[Invocation], Awaitable[PreparedInvocation]] | None = None,
    ) -> None:
        self.declaration = Declaration(
            name=name,
            display_name=f"The {name} tool",
            model_description=f"Does what {name} does.",
            input_schema=schema or ANYTHING,
            read_only=read_only,
            parallel=parallel,
        )
        self._behaviour = behaviour
        self._prepare = prepare
        self.began: list[str] = []
        self.ended: list[str] = []
        self.inputs: list[JsonObject] = []

    async def invoke(self, invocation: Invocation, token: CancellationToken) -> ToolResult:
        self.began.append(invocation.call_id)
        self.inputs.append(invocation.input)
        value = await self._behaviour(invocation, token)
        self.ended.append(invocation.call_id)
        # The runtime takes whatever a tool returns, so a test may return anything.
        return ToolResult.text(value) if isinstance(value, str) else value  # type: ignore[return-value]

    async def prepare_invocation(
        self, invocation: Invocation, token: CancellationToken
    ) -> PreparedInvocation:
        if self._prepare is not None:
            return await self._prepare(invocation)
        return PreparedInvocation(
            f"Doing {self.declaration.name}", Confirmation(f"Do {self.declaration.name}?"), approval_key=""
        )


class Gate:
    """A behaviour that holds a tool up: it tells when somebody has come, and lets nobody pass until it is opened."""

    def __init__(self, value: str = "through") -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self._value = value

    async def __call__(self, _invocation: Invocation, _token: CancellationToken) -> str:
        self.reached.set()
        await self.opened.wait()
        return self._value


def toolbox(
    *tools: RecordingTool,
    approvals: Approvals | None = None,
    auto: AutoApproval | None = None,
    session: str = "session",
    limit: int = 128,
    rules: RulesInForce | None = None,
) -> ToolRuntime:
    registry = ToolRegistry()
    for tool in tools:
        registry.declare(tool.declaration)
        registry.register(tool.declaration.name, tool)
    return ToolRuntime(
        registry, approvals or Approvals(), auto or AutoApproval(), session=session, limit=limit, rules=rules
    )


class Person(Hooks):
    """A host that watches everything, and a person who answers the questions in turn as written, then approves."""

    def __init__(
        self,
        *answers: Answer,
        on_tool_use: Callable[[ToolCallPart], object] | None = None,
        on_tool_result: Callable[[ToolCallPart, ToolResult], object] | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        on_state: Callable[[RunState], object] | None = None,
    ) -> None:
        self._answers = list(answers)
        self._on_tool_use = on_tool_use
        self._on_tool_result = on_tool_result
        self._on_event = on_event
        self._on_state = on_state
        self.events: list[RunEvent] = []
        self.states: list[RunState] = []
        self.asked: list[ToolQuestion] = []
        # What `on_tool_result` was called with.
        self.reviewed: list[tuple[ToolCallPart, ToolResult, bool]] = []

    def on_event(self, event: RunEvent) -> None:
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def on_state(self, state: RunState) -> None:
        self.states.append(state)
        if self._on_state is not None:
            self._on_state(state)

    async def on_tool_use(self, call: ToolCallPart) -> ToolCallPart:
        if self._on_tool_use is None:
            return call
        return await _finally(self._on_tool_use(call))  # type: ignore[return-value]  # hooks may return nonsense

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        self.asked.append(question)
        answer = self._answers.pop(0) if self._answers else YES
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return await answer(question, token)  # type: ignore[return-value]  # people may say anything
        return answer

    async def on_tool_result(self, call: ToolCallPart, result: ToolResult, *, approved: bool) -> ToolResult:
        self.reviewed.append((call, result, approved))
        if self._on_tool_result is None:
            return result
        return await _finally(self._on_tool_result(call, result))  # type: ignore[return-value]  # as above


async def _finally(value: object) -> object:
    return await value if isinstance(value, Awaitable) else value


class ClosedHistoryModel:
    """A model that keeps what it was asked and notes every history that was not closed; otherwise the one inside."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.requests: list[Request] = []
        # Noted, not raised: what a model raises is an answer that failed, which a test may expect.
        self.gaps: list[str] = []

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    def count_tokens(self, text: str | Message) -> int:
        return self._model.count_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        self.gaps += gaps(request.messages)
        self.requests.append(request)
        await self._model.respond(request, sink, token)


async def play(
    model: LanguageModel,
    tools: ToolRuntime,
    person: Hooks,
    *,
    clock: Clock,
    settings: LoopSettings | None = None,
    token: CancellationToken | None = None,
    state: RunState | None = None,
) -> RunState:
    """A whole run, from one prompt or from `state`. Whatever happened, the history it leaves is closed."""
    closed = ClosedHistoryModel(model)
    loop = ToolLoop(closed, tools, hooks=person, settings=settings, clock=clock)
    ended = await loop.run(state or begin([user("Go.")]), token or CancellationSource().token)
    assert closed.gaps == []
    assert gaps(ended.messages) == []
    assert ended.ended is not None
    return ended


def events_of(person: Person, kind: type[_E]) -> list[_E]:
    return [event for event in person.events if isinstance(event, kind)]


def shown_text(person: Person) -> str:
    return "".join(event.text for event in events_of(person, TextReported))


def last_results(state: RunState) -> tuple[ToolResultPart, ...]:
    """The results of the last round in the history."""
    return next((message.results for message in reversed(state.messages) if message.results), ())


def outcomes(state: RunState) -> list[str | None]:
    return [result.outcome for result in last_results(state)]


def ended_as(events: Sequence[RunEvent]) -> list[str]:
    return [event.reason for event in events if isinstance(event, Ended)]
