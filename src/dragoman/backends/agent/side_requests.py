"""Side requests: a title, a commit message, a summary.

Each gets a separate short session: in an agent of the same scope (model, folder, connection) that already runs and does
not wait, else in a process that is started for it. The session has no tools and no permissions, and is not stored.

An answer of a form is held back, judged and asked for once more, as in a conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from dragoman.acp.content import ContentBlock
from dragoman.acp.launch import RunningAgent, launch
from dragoman.acp.link import TurnEnd
from dragoman.acp.messages import PERMISSION_REFUSED, FileRequest, PermissionRequest, SessionUpdate
from dragoman.backends.agent.machine.types import Refused, Unmet
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.prompt.demands import Demand
from dragoman.backends.agent.prompt.prompting import compose, last_words, split_prompt
from dragoman.backends.agent.reply.backpressure import Backpressure
from dragoman.backends.agent.reply.held_text import HeldText, only_thinking, style_of_form
from dragoman.backends.agent.reply.judging import judged, without_stop
from dragoman.backends.agent.reply.narrator import Narrator
from dragoman.backends.agent.session.opening import configure, logged_in, started
from dragoman.backends.agent.session.permission_requests import answer_agent
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.conversations.context import context_of
from dragoman.jsonrpc import Incoming
from dragoman.lm import LanguageModelError, Message, Part, Presentation, Request, Sink, TextPart, UsagePart
from dragoman.lm.foreign_items import ignored_files

__all__ = ["SideRequest"]

# Why everything is refused, for the agent.
_NOTHING_RUNS = "This is a side request: nothing may run in it."


class SideRequest:
    """Answers one side request. `sink` gets what the agent says."""

    def __init__(self, settings: AgentSettings, clock: Clock, request: Request, sink: Sink) -> None:
        self._settings = settings
        self._clock = clock
        self._request = request
        self._sink = sink
        self._narrator = Narrator(lambda _activity: False)
        self._features = request.consumer.features
        form = request.options.answer_form
        self._demand = (
            None if form is None else Demand(settings.name, form, connection=request.consumer.connection)
        )
        self._held = HeldText(self._features, has_form=True)
        style = settings.style if form is None else style_of_form(settings.style, self._features)
        self._presentation = Presentation(self._features, style)
        self._backpressure: Backpressure | None = None
        self.has_spoken = False
        self._is_over = False

    # As a listener of its session.

    def on_update(self, update: SessionUpdate) -> None:
        if self._is_over:
            return
        for part in self._narrator.parts(update.update):
            self.has_spoken = self.has_spoken or not isinstance(part, UsagePart)
            self._take(part)
            if self._backpressure is not None:
                self._backpressure.given(part)

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:
        answer_agent(request, incoming, Refused(_NOTHING_RUNS, by="no_one"))

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        incoming.fail(PERMISSION_REFUSED, f"{request.path} is not for this session, which may do nothing.")

    async def borrow(self, agent: RunningAgent, workspace: tuple[str, ...]) -> None:
        """Answer it in a session of another conversation's process. Raises `LanguageModelError`; can be cancelled."""
        link, backpressure = agent.link, Backpressure(agent.peer, lambda: (self._sink,))
        self._backpressure = backpressure
        entering = logged_in(link, self._settings, lambda: link.new_session(workspace, (), self))
        created = await started(agent, entering, self._settings, self._clock)
        session = created.session_id
        try:
            await configure(link, session, created, self._settings)
            before, words = split_prompt(self._request.messages)
            unmet = await self._turn(
                agent, session, self._composed(agent, words, before, context_of(self._request.messages))
            )
            if unmet is not None:
                unmet = await self._turn(agent, session, self._composed(agent, unmet.prompt))
            if unmet is not None:
                raise unmet.error
        finally:
            self._is_over = True
            backpressure.stop()
            # A session that cannot be closed ends with its process.
            with suppress(LanguageModelError, DeadlinePassed):
                await within(link.close_session(session), self._settings.timing.grace, self._clock)

    async def _turn(
        self, agent: RunningAgent, session: str, blocks: tuple[ContentBlock, ...]
    ) -> Unmet | None:
        """Run a turn to its end. Returns what its answer lacks."""
        link = agent.link
        ended: asyncio.Future[TurnEnd | None] = asyncio.get_running_loop().create_future()
        forget = agent.gone.on_cancel(lambda: _settle(ended, None))
        link.prompt(session, blocks, lambda end: _settle(ended, end))
        try:
            end = await ended
        except asyncio.CancelledError:
            link.cancel(session)
            raise
        finally:
            forget()
        if end is None:
            raise await agent.explain_exit()
        if isinstance(end, LanguageModelError):
            raise end
        words = (*self._narrator.end_turn(), *last_words(end), *self._narrator.usage(end.usage))
        unmet = await self._judge(words)
        for part in words:
            self._take(part if unmet is None else without_stop(part))
        return unmet

    async def _judge(self, last_words: Iterable[Part]) -> Unmet | None:
        if self._demand is None:
            return None
        verdict = await judged(self._demand, 0, self._held.text, last_words)
        if verdict.unmet is not None:
            for part in self._held.release():
                self._report(part)
        for part in verdict.answer:
            self._report(part)
        return verdict.unmet

    def _take(self, part: Part) -> None:
        """Report a part, or hold it back."""
        for each in (part,) if self._demand is None else self._held.take(part):
            self._report(each)

    def _report(self, part: Part) -> None:
        shown = self._presentation.present(part)
        if self._demand is not None and not isinstance(part, TextPart):
            shown = only_thinking(shown, self._features)
        for each in shown:
            self._sink.report(each)

    def _composed(
        self,
        agent: RunningAgent,
        words: Sequence[Message],
        history: Sequence[Message] = (),
        context: str = "",
    ) -> tuple[ContentBlock, ...]:
        composed = compose(
            words,
            context=context,
            history=history,
            images=agent.link.info.agent_capabilities.prompt_capabilities.image,
            budget=self._settings.replay_tokens,
            demand="" if self._demand is None else self._demand.words,
        )
        if composed.left_out and not self.has_spoken:
            for shown in self._presentation.present(ignored_files(composed.left_out)):
                self._sink.report(shown)
        return composed.blocks

    async def start(self, workspace: tuple[str, ...]) -> None:
        """Answer it in a process that is started for it."""
        settings = self._settings
        agent = await launch(
            settings.name, settings.command, settings.env, workspace[0], lambda: None, settings.ledger
        )
        try:
            await started(agent, agent.link.initialize(), settings, self._clock)
            await self.borrow(agent, workspace)
        finally:
            await agent.stop()


def _settle(ended: asyncio.Future[TurnEnd | None], end: TurnEnd | None) -> None:
    if not ended.done():
        ended.set_result(end)
