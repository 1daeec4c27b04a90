"""Opening a session: all that must be done before a first prompt, in order.

Start the agent, offer it the tools, resume its session or create a new one, set mode and options, and wait until
it has listed the tools. An agent that is known to list them, and did not, gets one more session before the user sees a
notice.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dragoman.acp.launch import RunningAgent, launch
from dragoman.acp.link import AgentLink, ToolServerAddress
from dragoman.acp.messages import (
    Header,
    HttpServer,
    SessionCreated,
    StdioServer,
)
from dragoman.backends.agent.profile.observations import Observations, name_of
from dragoman.backends.agent.profile.offer import RememberedOffer, logins_of
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.session.history_listener import HistoryListener
from dragoman.backends.agent.session.listener import AgentListener
from dragoman.backends.agent.session.options import SessionOptions
from dragoman.backends.agent.session.session import AgentSession
from dragoman.backends.agent.toolserver import Endpoint, ToolServer
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.jsonrpc import ConnectionClosed
from dragoman.lm import CancellationError, LanguageModelError, ToolDefinition
from dragoman.lm.errors import ASK_OPERATOR
from dragoman.lm.gfm import escape

__all__ = [
    "SessionPlan",
    "address_of",
    "configure",
    "logged_in",
    "open_session",
    "started",
    "wait_listed",
]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# The bridge does not wait for an agent that lists the tools again and again.
_MAX_ROUNDS = 10
_WITHOUT_TOOLS = "{name} did not look at the tools it was offered; this turn may go without them. {hint}"


@dataclass(frozen=True, slots=True)
class SessionPlan:
    workspace: tuple[str, ...]
    tools: tuple[ToolDefinition, ...]
    # The agent's previous session id, if it has one; the user's last message in that session, and the answer to it.
    previous: str | None = None
    last_words: str = ""
    last_answer: str = ""
    # Whether the agent is offered files through us.
    files: bool = False
    # Whether it is offered terminals of the client.
    terminals: bool = False


async def open_session(
    settings: AgentSettings,
    server: ToolServer,
    plan: SessionPlan,
    listener: AgentListener,
    clock: Clock,
    observations: Observations,
    offer: RememberedOffer,
) -> AgentSession:
    """Start an agent and open its session. Raises `LanguageModelError` after ending what was started."""
    agent = await launch(
        settings.name, settings.command, settings.env, plan.workspace[0], listener.on_closed, settings.ledger
    )
    endpoint: Endpoint | None = None
    try:
        introducing = agent.link.initialize(files=plan.files, terminals=plan.terminals)
        await started(agent, introducing, settings, clock)
        info = agent.link.info
        offer.note(logins=logins_of(info.auth_methods, settings.command, settings.own_env))
        name = name_of(info.agent_info, settings.command)
        traits = settings.traits.after(observations.of(name))
        endpoint = server.endpoint(
            # Random, so that no model can name it by chance.
            name=f"dg-{secrets.token_hex(4)}",
            limit_seconds=settings.tool_limit_seconds or traits.tool_limit_seconds,
            on_call=listener.on_call,
            on_withdrawn=listener.on_withdrawn,
            on_waits=listener.on_waits,
        )
        session = listener.session = AgentSession(
            agent, endpoint, listener, traits, partial(observations.note, name)
        )
        endpoint.set_tools(plan.tools)
        endpoint.on_listed = session.on_listed
        session.began_without_tools = not plan.tools
        await started(agent, _enter(session, settings, plan, listener, clock), settings, clock)
        offer.note(options=session.options.offered)
    except BaseException:
        if endpoint is not None:
            await endpoint.close()
        await agent.stop()
        raise
    return session


async def started(agent: RunningAgent, step: Awaitable[_T], settings: AgentSettings, clock: Clock) -> _T:
    """Await a step of starting, with a time limit. If the agent has exited, the error says that, whatever else failed."""
    try:
        return await within(step, settings.timing.start, clock, agent.gone)
    except (CancellationError, LanguageModelError) as error:
        is_failure = isinstance(error, CancellationError) or error.kind == "agent_failed"
        if is_failure and agent.gone.cancelled():
            raise await agent.explain_exit() from error
        raise
    except DeadlinePassed as passed:
        message = f"{settings.name} did not start within {settings.timing.start:g} seconds."
        raise LanguageModelError(
            "timeout",
            message,
            hint=" ".join(filter(None, (agent.last_words, agent.link.next_step))),
            public=f"{message} {ASK_OPERATOR}",
        ) from passed


async def _enter(
    session: AgentSession, settings: AgentSettings, plan: SessionPlan, listener: AgentListener, clock: Clock
) -> None:
    previous = plan.previous
    # A second session helps an agent that lists tools as a rule.
    for attempt in (1, 2) if session.traits.lists else (1,):
        history = await _take_up(session, settings, previous, plan)
        if history is None:
            previous = None
            await _begin(session, settings, plan, listener)
        has_listed = await _listed(session, settings, plan, clock)
        if history is not None and not await _history_ended(session, settings, history, listener, clock):
            previous = None
            session.endpoint.forget_listing()
            await _begin(session, settings, plan, listener)
            has_listed = await _listed(session, settings, plan, clock)
        if has_listed:
            return
        _log.info("%s has not listed the tools (attempt %d)", settings.name, attempt)
        if attempt == 1 and session.traits.lists:
            with suppress(LanguageModelError):
                await session.agent.link.close_session(session.id)
    session.learn(lists=False)
    hint = escape(settings.traits.when_no_tools or "")
    session.add_notice(_WITHOUT_TOOLS.format(name=escape(settings.name), hint=hint).strip())


async def _listed(session: AgentSession, settings: AgentSettings, plan: SessionPlan, clock: Clock) -> bool:
    """Whether the agent has listed the tools, or there are none."""
    return not plan.tools or await wait_listed(
        session.endpoint, _patience(session, settings), settings, clock
    )


async def wait_listed(endpoint: Endpoint, seconds: float, settings: AgentSettings, clock: Clock) -> bool:
    """Whether the agent has listed the tools in that time. One outside the catalogue may list them several times, and is
    given a moment to take them in.
    """
    if not await endpoint.wait_listed(seconds):
        return False
    seen, rounds = 0, 0
    while not settings.traits.is_known and seen != endpoint.listings and rounds < _MAX_ROUNDS:
        seen, rounds = endpoint.listings, rounds + 1
        await clock.sleep(settings.timing.list_settle)
    return True


async def _history_ended(
    session: AgentSession,
    settings: AgentSettings,
    history: HistoryListener,
    listener: AgentListener,
    clock: Clock,
) -> bool:
    """Whether all of a resumed session's history has arrived. If so, the listener is attached."""
    link, traits = session.agent.link, session.traits
    if not session.resumes or history.has_updates:
        observed = await history.wait_complete(traits.history, settings.timing, clock)
        session.learn(history=observed)
        if observed == "unusable":
            _log.warning("%s did not finish sending the history of %s", settings.name, session.id)
            link.detach(session.id)
            return False
    # An agent in the catalogue that resumes sessions does not send their history.
    session.may_send_history = not (session.resumes and traits.is_known)
    link.attach(session.id, listener)
    return True


def _patience(session: AgentSession, settings: AgentSettings) -> float:
    """How long to wait until the agent lists the tools, in seconds."""
    timing = settings.timing
    match session.traits.lists:
        case True:
            return timing.list_tools
        case None:
            return timing.list_tools_unsure
        case False:
            return timing.list_tools_unlikely


async def _begin(
    session: AgentSession, settings: AgentSettings, plan: SessionPlan, listener: AgentListener
) -> None:
    link = session.agent.link
    created = await logged_in(
        link,
        settings,
        lambda: link.new_session(
            plan.workspace, (address_of(session.endpoint, session.agent.link),), listener
        ),
    )
    session.id, session.is_new = created.session_id, True
    await configure(link, session.id, created, settings, session.options)


async def _take_up(
    session: AgentSession, settings: AgentSettings, previous: str | None, plan: SessionPlan
) -> HistoryListener | None:
    """Resume or load the agent's previous session. Returns the listener for its history, or None if that failed."""
    if previous is None or not session.can_be_taken_up:
        return None
    link, servers = session.agent.link, (address_of(session.endpoint, session.agent.link),)
    take_up = link.resume_session if session.resumes else link.load_session
    history = HistoryListener(plan.last_words, plan.last_answer)
    link.attach(previous, history)
    try:
        taken_up = await logged_in(
            link, settings, lambda: take_up(previous, plan.workspace, servers, history.on_answer)
        )
    except LanguageModelError as error:
        if error.kind == "bad_request":
            # An error of the configuration. If a login is needed, a new session will show that.
            raise
        _log.info("session %s could not be resumed: %s", previous, error.sentence)
        link.detach(previous)
        return None
    session.id, session.is_new = previous, False
    await configure(link, session.id, taken_up, settings, session.options)
    return history


async def logged_in(
    link: AgentLink, settings: AgentSettings, ask: Callable[[], Coroutine[object, object, _T]]
) -> _T:
    """Send a request. If the agent requires a login and `auth` is configured, log in and send it again."""
    try:
        return await ask()
    except LanguageModelError as error:
        if error.kind != "auth_required" or (method := settings.login_method) is None:
            raise
    _log.info("%s requires a login: using %s", settings.name, method)
    await link.authenticate(method)
    return await ask()


async def configure(
    link: AgentLink,
    session: str,
    created: SessionCreated,
    settings: AgentSettings,
    options: SessionOptions | None = None,
) -> None:
    """Set mode and options as configured. `options` then has what the session has."""
    options = SessionOptions(settings.name) if options is None else options
    options.begin(created)
    try:
        await options.configure(link, session, settings.mode, settings.options)
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
    """The address of the tool server: over HTTP where the agent supports that, else over stdio."""
    if link.info.agent_capabilities.mcp_capabilities.http:
        url, headers = endpoint.http()
        return HttpServer(endpoint.name, url, tuple(Header(name, value) for name, value in headers.items()))
    command, arguments, env = endpoint.stdio()
    return StdioServer(
        endpoint.name, command, tuple(arguments), tuple(Header(name, value) for name, value in env.items())
    )
