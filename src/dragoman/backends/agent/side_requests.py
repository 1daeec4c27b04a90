"""Side requests: a title, a commit message, a summary.

Each gets a separate short session: in an agent of the same scope (model, folder, connection) that already runs and does
not wait, else in a process that is started for it. The session has no tools and no permissions, and is not stored.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from dragoman.acp.content import ContentBlock
from dragoman.acp.launch import RunningAgent, launch
from dragoman.acp.link import TurnEnd
from dragoman.acp.messages import PERMISSION_REFUSED, FileRequest, PermissionRequest, SessionUpdate
from dragoman.backends.agent.machine.types import Refused
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.prompt.prompting import compose, last_words, split_prompt
from dragoman.backends.agent.reply.backpressure import Backpressure
from dragoman.backends.agent.reply.narrator import Narrator
from dragoman.backends.agent.session.opening import configure, logged_in, started
from dragoman.backends.agent.session.permission_requests import answer_agent
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.conversations.context import context_of
from dragoman.jsonrpc import Incoming
from dragoman.lm import LanguageModelError, Part, Presentation, Request, Sink, UsagePart
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
        self._presentation = Presentation(request.consumer.features, settings.style)
        self._backpressure: Backpressure | None = None
        self.has_spoken = False
        self._is_over = False

    # As a listener of its session.

    def on_update(self, update: SessionUpdate) -> None:
        if self._is_over:
            return
        for part in self._narrator.parts(update.update):
            self.has_spoken = self.has_spoken or not isinstance(part, UsagePart)
            self._report(part)
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
            ended: asyncio.Future[TurnEnd | None] = asyncio.get_running_loop().create_future()
            forget = agent.gone.on_cancel(lambda: _settle(ended, None))
            link.prompt(session, self._composed(agent), lambda end: _settle(ended, end))
            try:
                end = await ended
            except asyncio.CancelledError:
                link.cancel(session)
                raise
            finally:
                forget()
            await self._finish(agent, end)
        finally:
            self._is_over = True
            backpressure.stop()
            # A session that cannot be closed ends with its process.
            with suppress(LanguageModelError, DeadlinePassed):
                await within(link.close_session(session), self._settings.timing.grace, self._clock)

    async def _finish(self, agent: RunningAgent, end: TurnEnd | None) -> None:
        if end is None:
            raise await agent.explain_exit()
        if isinstance(end, LanguageModelError):
            raise end
        for part in (*self._narrator.end_turn(), *last_words(end), *self._narrator.usage(end.usage)):
            self._report(part)

    def _report(self, part: Part) -> None:
        for shown in self._presentation.present(part):
            self._sink.report(shown)

    def _composed(self, agent: RunningAgent) -> tuple[ContentBlock, ...]:
        before, words = split_prompt(self._request.messages)
        composed = compose(
            words,
            context=context_of(self._request.messages),
            history=before,
            images=agent.link.info.agent_capabilities.prompt_capabilities.image,
            budget=self._settings.replay_tokens,
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
