"""A session with an agent: its process, its tools, its narrator.

`open_session` does all that must be done before a first prompt, in order: start the agent, offer it the tools, take up
the session it had or make a new one, set mode and options, and wait until it has listed the tools. An agent that did not
list them gets one more session before the user is told.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from dragoman.backends.agent.acp.content import Block
from dragoman.backends.agent.acp.launch import RunningAgent, launch
from dragoman.backends.agent.acp.link import AgentLink, ToolServerAddress, TurnEnd
from dragoman.backends.agent.acp.messages import (
    FileRequest,
    Header,
    HttpServer,
    PermissionRequest,
    SessionCreated,
    SessionUpdate,
    StdioServer,
    ToolActivity,
)
from dragoman.backends.agent.catalogue import recognise, recognise_asked
from dragoman.backends.agent.ear import Ear
from dragoman.backends.agent.filing import PERMISSION_REFUSED
from dragoman.backends.agent.narrator import Narrator
from dragoman.backends.agent.settings import AgentSettings
from dragoman.backends.agent.toolserver import Endpoint, ToolServer
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.jsonrpc import ConnectionClosed, Incoming
from dragoman.lm import CancellationError, LanguageModelError, ToolDefinition

__all__ = ["Session", "SessionPlan", "address_of", "configure", "logged_in", "open_session", "started"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_UNKNOWN = object()
_WITHOUT_TOOLS = "{name} did not look at the tools it was offered; this turn may go without them."


@dataclass(frozen=True, slots=True)
class SessionPlan:
    workspace: tuple[str, ...]
    tools: tuple[ToolDefinition, ...]
    # The agent's own name for the session it had, if it had one.
    previous: str | None = None


class Session:
    def __init__(self, agent: RunningAgent, endpoint: Endpoint, settings: AgentSettings, ear: Ear) -> None:
        self.agent = agent
        self.ear = ear
        self.endpoint = endpoint
        self.id = ""
        # Not one that the agent had before, and was taken up.
        self.is_new = True
        # The agent has looked at the tools before; when they change, it will again.
        self.has_listed = False
        self._notices: list[str] = []
        self.narrator = Narrator(lambda activity: self.own_tool((activity,)) is not None)
        self._traits = settings.traits

    @property
    def takes_images(self) -> bool:
        return self.agent.link.info.agent_capabilities.prompt_capabilities.image

    @property
    def steers(self) -> bool:
        return self.agent.link.info.steers

    @property
    def awaits_listing(self) -> bool:
        """Whether the tools are others than the agent has seen, and it is about to look."""
        return self.has_listed and self._traits.lists_again and not self.endpoint.is_listed

    def own_tool(self, said: tuple[ToolActivity, ...]) -> str | None:
        """The tool of ours that a tool call of the agent's is, if what was said of it shows that."""
        return recognise(self._traits, said, self.endpoint.name, self.endpoint.own_names)

    def asked_tool(self, asked: ToolActivity) -> str | None:
        """The tool of ours that the agent asks for permission to call, if that is what it asks for."""
        announced = self.narrator.known(ToolActivity(asked.tool_call_id))
        return recognise_asked(self._traits, announced, asked, self.endpoint.name, self.endpoint.own_names)

    def tell_later(self, text: str) -> None:
        """Something the user should know, with the next turn."""
        self._notices.append(text)

    def take_notices(self) -> tuple[str, ...]:
        notices, self._notices = tuple(self._notices), []
        return notices

    def prompt(self, blocks: tuple[Block, ...], on_end: Callable[[TurnEnd], None]) -> None:
        self.agent.link.prompt(self.id, blocks, on_end)

    def steer(self, blocks: tuple[Block, ...], on_outcome: Callable[[bool], None]) -> None:
        self.agent.link.steer(self.id, blocks, on_outcome)

    def cancel(self) -> None:
        self.agent.link.cancel(self.id)

    async def close(self) -> None:
        try:
            await self.endpoint.close()
        finally:
            await self.agent.stop()


async def open_session(
    settings: AgentSettings, server: ToolServer, plan: SessionPlan, ear: Ear, clock: Clock
) -> Session:
    """Raises `LanguageModelError`; whatever was started by then is ended."""
    agent = await launch(
        settings.name, settings.command, settings.env, plan.workspace[0], ear.on_closed, settings.ledger
    )
    endpoint: Endpoint | None = None
    try:
        await started(agent, agent.link.initialize(files=settings.fs), settings, clock)
        endpoint = server.endpoint(
            # Random, so that no model can name it by chance.
            name=f"dg-{secrets.token_hex(4)}",
            limit_seconds=settings.traits.tool_limit_seconds,
            on_call=ear.on_call,
            on_withdrawn=ear.on_withdrawn,
            on_waits=ear.on_waits,
        )
        endpoint.set_tools(plan.tools)
        session = ear.session = Session(agent, endpoint, settings, ear)
        await started(agent, _enter(session, settings, plan, ear), settings, clock)
    except BaseException:
        if endpoint is not None:
            await endpoint.close()
        await agent.stop()
        raise
    return session


async def started(agent: RunningAgent, step: Awaitable[_T], settings: AgentSettings, clock: Clock) -> _T:
    """A step of starting: done in time, or told why not. When the agent is gone, that is why, whatever else failed."""
    try:
        return await within(step, settings.timing.start, clock, agent.gone)
    except (CancellationError, LanguageModelError) as error:
        is_failure = isinstance(error, CancellationError) or error.kind == "agent_failed"
        if is_failure and agent.gone.cancelled():
            raise await agent.explain_exit() from error
        raise
    except DeadlinePassed as passed:
        raise LanguageModelError(
            "timeout",
            f"{settings.name} did not start within {settings.timing.start:g} seconds.",
            hint=" ".join(filter(None, (agent.last_words, agent.link.next_step))),
        ) from passed


async def _enter(session: Session, settings: AgentSettings, plan: SessionPlan, ear: Ear) -> None:
    previous = plan.previous
    for attempt in (1, 2):
        if not await _take_up(session, settings, previous, plan, ear):
            previous = None
            await _begin(session, settings, plan, ear)
        if not plan.tools or await _listed(session, settings):
            return
        _log.warning("%s has not listed the tools (attempt %d)", settings.name, attempt)
        if attempt == 1:
            with suppress(LanguageModelError):
                await session.agent.link.close_session(session.id)
    session.tell_later(_WITHOUT_TOOLS.format(name=settings.name))


async def _begin(session: Session, settings: AgentSettings, plan: SessionPlan, ear: Ear) -> None:
    link = session.agent.link
    created = await logged_in(
        link,
        settings,
        lambda: link.new_session(plan.workspace, (address_of(session.endpoint, session.agent.link),), ear),
    )
    session.id, session.is_new = created.session_id, True
    await configure(link, session.id, created, settings)


async def _listed(session: Session, settings: AgentSettings) -> bool:
    session.has_listed = await session.endpoint.wait_listed(settings.timing.list_tools)
    return session.has_listed


async def _take_up(
    session: Session, settings: AgentSettings, previous: str | None, plan: SessionPlan, ear: Ear
) -> bool:
    """Whether the session that the agent had was taken up. An agent that says it can may still fail."""
    if previous is None:
        return False
    link, servers = session.agent.link, (address_of(session.endpoint, session.agent.link),)
    capabilities = link.info.agent_capabilities
    try:
        if capabilities.session_capabilities.resume is not None:
            taken_up = await logged_in(
                link, settings, lambda: link.resume_session(previous, plan.workspace, servers)
            )
        elif capabilities.load_session:
            # What it tells before it answers is the history: attached to nobody, it is emitted to nobody.
            link.attach(previous, _Deaf())
            taken_up = await logged_in(
                link, settings, lambda: link.load_session(previous, plan.workspace, servers)
            )
        else:
            return False
    except LanguageModelError as error:
        if error.kind == "bad_request":
            # Of the configuration. Whether it is a login that is wanted, a new session will show.
            raise
        _log.info("session %s could not be taken up: %s", previous, error.sentence)
        link.detach(previous)
        return False
    session.id, session.is_new = previous, False
    link.attach(session.id, ear)
    await configure(link, session.id, taken_up, settings)
    return True


async def logged_in(
    link: AgentLink, settings: AgentSettings, ask: Callable[[], Coroutine[object, object, _T]]
) -> _T:
    """What the agent answers; where it wants a login first, and the configuration says which, once more after that."""
    try:
        return await ask()
    except LanguageModelError as error:
        if error.kind != "auth_required" or settings.auth is None:
            raise
    _log.info("%s wants a login: asked for %s", settings.name, settings.auth)
    await link.authenticate(settings.auth)
    return await ask()


class _Deaf:
    """Listens to nothing, and allows nothing."""

    def on_update(self, update: SessionUpdate) -> None:
        pass

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:  # noqa: ARG002 - a listener
        incoming.reply({"outcome": {"outcome": "cancelled"}})

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        incoming.fail(PERMISSION_REFUSED, f"{request.path} is not for a session that is only being told.")


async def configure(link: AgentLink, session: str, created: SessionCreated, settings: AgentSettings) -> None:
    """Mode and options as they are configured. What the agent says is so already is not asked for."""
    try:
        if settings.mode not in (None, created.mode):
            await link.set_mode(session, settings.mode or "")
        for option, value in settings.options.items():
            if created.options.get(option, _UNKNOWN) != value:
                await link.set_option(session, option, value)
    except LanguageModelError as error:
        if error.kind == "auth_required" or isinstance(error.__cause__, ConnectionClosed):
            # Neither is a fault of the configuration.
            raise
        raise LanguageModelError(
            "bad_request",
            error.message,
            hint="Check `mode` and `options` of this model in the configuration.",
        ) from error


def address_of(endpoint: Endpoint, link: AgentLink) -> ToolServerAddress:
    """Over HTTP where the agent takes that."""
    if link.info.agent_capabilities.mcp_capabilities.http:
        url, headers = endpoint.http()
        return HttpServer(endpoint.name, url, tuple(Header(name, value) for name, value in headers.items()))
    command, arguments, env = endpoint.stdio()
    return StdioServer(
        endpoint.name, command, tuple(arguments), tuple(Header(name, value) for name, value in env.items())
    )
