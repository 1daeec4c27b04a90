"""Short starts of an agent without a prompt: to see what it offers, and to log in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from dragoman.acp.launch import RunningAgent, launch
from dragoman.acp.messages import (
    PERMISSION_REFUSED,
    FileRequest,
    OtherUpdate,
    PermissionRequest,
    SessionUpdate,
)
from dragoman.backends.agent.profile.offer import RememberedOffer, logins_of
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.session.opening import configure, logged_in, started
from dragoman.backends.agent.session.options import SessionOptions
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.jsonrpc import Incoming
from dragoman.lm import LanguageModelError

__all__ = ["introduced", "look_at"]

# Agents report their commands right after a session has begun, if they have any.
_COMMANDS_SECONDS = 2.0


@asynccontextmanager
async def introduced(
    settings: AgentSettings, folder: str, clock: Clock, offer: RememberedOffer
) -> AsyncIterator[RunningAgent]:
    """A process of the agent that has said how to log in. It ends with the block."""
    agent = await launch(settings.name, settings.command, settings.env, folder, lambda: None, settings.ledger)
    try:
        info = await started(agent, agent.link.initialize(), settings, clock)
        offer.note(logins=logins_of(info.auth_methods, settings.command, settings.own_env))
        yield agent
    finally:
        await agent.stop()


async def look_at(settings: AgentSettings, folder: str, clock: Clock, offer: RememberedOffer) -> None:
    """Begin a session without tools, note what it offers, and close it. Raises `LanguageModelError`."""
    async with introduced(settings, folder, clock, offer) as agent:
        link, listener = agent.link, _Onlooker(settings.name)
        beginning = logged_in(link, settings, lambda: link.new_session((folder,), (), listener))
        created = await started(agent, beginning, settings, clock)
        options = listener.options
        await started(agent, configure(link, created.session_id, created, settings, options), settings, clock)
        with suppress(DeadlinePassed):
            await within(listener.has_commands.wait(), _COMMANDS_SECONDS, clock)
        offer.note(options=options.offered, commands=options.commands)
        with suppress(LanguageModelError, DeadlinePassed):
            await within(link.close_session(created.session_id), settings.timing.grace, clock)


class _Onlooker:
    """The listener of a session that gets no prompt."""

    def __init__(self, name: str) -> None:
        self.options = SessionOptions(name)
        self.has_commands = asyncio.Event()

    def on_update(self, update: SessionUpdate) -> None:
        if isinstance(update.update, OtherUpdate):
            self.options.take(update.update)
            if self.options.commands:
                self.has_commands.set()

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:  # noqa: ARG002 - a listener
        incoming.reply({"outcome": {"outcome": "cancelled"}})

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        incoming.fail(PERMISSION_REFUSED, f"{request.path} is not for this session, which may do nothing.")
