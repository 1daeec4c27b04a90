"""The loop: ask the model, run its calls, ask again, until it has nothing more to call.

The invariants, whatever hooks, tools, users and models do:

- every call gets exactly one result, in call order, and the result is true;
- calls are looked at in order, one question at a time; a call that may run beside others starts as soon as it is
  approved, one that may not waits for the others and is waited for before the next question;
- a denial without a reason ends the run; with a reason the model gets to react; in both cases the calls after it are
  skipped. Where the settings say to ask for each, a denial concerns its own call only, and the model gets to react.
  Calls that already run are awaited, never cut;
- a cancel ends the run at once: finished results are recorded, everything else is interrupted, nothing starts any more;
- no history goes to a model before it is closed;
- whenever a process dies, the stored state can be continued to the same end.

`round`, which is pure, has the states of a call; `settle` asks and runs; this module runs one turn after another.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from dragoman.clock import Clock, SystemClock
from dragoman.lm import (
    CancellationError,
    CancellationToken,
    Consumer,
    Features,
    GuardedModel,
    LanguageModel,
    LanguageModelError,
    Message,
    Request,
    RequestOptions,
    ToolDefinition,
)
from dragoman.loop.attempts import ModelAttempts
from dragoman.loop.events import ToolUsed, TurnEnded, TurnStarted
from dragoman.loop.history import gaps
from dragoman.loop.hooks import Hooks
from dragoman.loop.host import Host
from dragoman.loop.progress import RunProgress
from dragoman.loop.settings import LoopSettings
from dragoman.loop.settle import Settlement
from dragoman.loop.state import RunState
from dragoman.tools.result import failure_text
from dragoman.tools.runtime import ToolRuntime

__all__ = ["FEATURES", "ToolLoop"]

_log = logging.getLogger(__name__)

# The loop takes everything, records what a failed answer said, and answers a call that cannot be made with an error.
FEATURES = Features(
    thinking=True,
    data=True,
    keeps_parts_of_failures=True,
    unparsed_calls=True,
    unknown_calls=True,
    activity=True,
)


class ToolLoop:
    """A model, its tools and a host. Has no state of a run: several may be under way."""

    def __init__(
        self,
        model: LanguageModel,
        runtime: ToolRuntime,
        *,
        hooks: Hooks | None = None,
        settings: LoopSettings | None = None,
        consumer: Consumer | None = None,
        clock: Clock | None = None,
        agent: str | None = None,
    ) -> None:
        """`agent` is the id that rules and records have for the model; without it, the model's own id."""
        self._model = model if isinstance(model, GuardedModel) else GuardedModel(model)
        self._runtime = runtime
        self._hooks = hooks or Hooks()
        self._settings = settings or LoopSettings()
        self._consumer = msgspec.structs.replace(consumer or Consumer(name="loop"), features=FEATURES)
        self._clock = clock or SystemClock()
        self._agent = agent or self._model.info.id

    async def run(self, state: RunState, token: CancellationToken) -> RunState:
        """Run from `state` until the run ends. The returned state says how it ended, a failing model included."""
        progress = RunProgress(state, self._hooks)
        settlement = Settlement(
            progress,
            self._runtime,
            self._hooks,
            self._settings,
            self._clock,
            token,
            agent=self._agent,
        )
        try:
            await self._go_on(progress, settlement, token)
        except CancellationError:
            try:
                await settlement.interrupt()
            finally:
                progress.end("cancelled")
        except asyncio.CancelledError:
            # The task we run in was cancelled from outside: nothing may wait any more, but finished results are recorded.
            settlement.abandon("cancelled")
            progress.end("cancelled")
            raise
        except Exception as fault:
            # Ours. The host gets a run that has ended, and a history it can go on from.
            _log.exception("a run failed")
            error = LanguageModelError("internal", failure_text(fault))
            settlement.abandon("failed", error)
            progress.end("failed", error)
        return progress.state

    async def _go_on(self, progress: RunProgress, settlement: Settlement, token: CancellationToken) -> None:
        progress.take_up()
        if progress.state.round is not None:
            settlement.recover()
        while progress.state.ended is None:
            token.raise_if_cancelled()
            error = await self._turn(progress, token) if progress.state.round is None else None
            if error is not None:
                # The answer is incomplete: none of its calls is made.
                settlement.abandon("failed", error)
                progress.end("failed", error)
            elif progress.state.round is not None:
                end = await settlement.settle()
                if end != "suspended":
                    progress.emit(TurnEnded(progress.state.turn))
                if end is not None:
                    progress.end(end)

    def _offer(self, messages: tuple[Message, ...]) -> tuple[ToolDefinition, ...]:
        """The tools to offer to the model, no more than it takes."""
        takes = _takes(self._model)
        return () if takes == 0 else self._runtime.definitions(_prompt(messages), limit=takes)

    async def _turn(self, progress: RunProgress, token: CancellationToken) -> LanguageModelError | None:
        """Get one answer of the model. Without calls it goes into the history; with calls it opens a round."""
        messages = progress.state.messages
        if progress.state.turn >= self._settings.turns:
            progress.end("turn_limit")
            return None
        if found := gaps(messages):
            raise AssertionError(f"an open history was about to go to a model: {found}")
        turn = progress.begin_turn()
        progress.emit(TurnStarted(turn))
        try:
            tools = self._offer(messages)
        except LanguageModelError as too_many:
            return too_many
        request = Request(messages, RequestOptions(tools=tools), self._consumer)
        await Host(self._hooks, self._settings, self._clock, token).prepare_request()
        answer = ModelAttempts(self._model, settings=self._settings, clock=self._clock, emit=progress.emit)
        try:
            error = await answer.ask(request, token)
        finally:
            # Whatever ends it, a cancel of our own task included: what the model said is recorded.
            message = answer.response.message()
            if message.calls:
                progress.open_round(message)
                for call in message.calls:
                    progress.emit(ToolUsed(call))
            elif message.content:
                progress.add_last(message)
        token.raise_if_cancelled()
        if error is None and not message.calls:
            progress.emit(TurnEnded(turn))
            progress.end("completed")
        return error


def _takes(model: LanguageModel) -> int | None:
    """How many tools the model takes; None: as many as it is offered."""
    takes = model.info.capabilities.tool_calling
    return None if takes is True else int(takes)


def _prompt(messages: tuple[Message, ...]) -> str:
    """The user's last message, which may name a tool."""
    return next(
        (message.text for message in reversed(messages) if message.role == "user" and message.text), ""
    )
