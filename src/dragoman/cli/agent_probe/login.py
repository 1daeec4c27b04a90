"""Whether an agent is logged in: starts it and opens a session, as the examination does, and nothing more.

Some agents open a session without a login and refuse the first prompt. So a passed check shows less than an answer.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass

from dragoman.acp.launch import RunningAgent, launch
from dragoman.acp.login import LoginCommand, login_commands
from dragoman.acp.messages import (
    PERMISSION_REFUSED,
    AuthMethod,
    FileRequest,
    PermissionRequest,
    SessionUpdate,
)
from dragoman.backends.agent.machine.types import Refused
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.session.opening import logged_in, started
from dragoman.backends.agent.session.permission_requests import answer_agent
from dragoman.clock import SystemClock
from dragoman.jsonrpc import Incoming
from dragoman.lm import LanguageModelError

__all__ = ["LoginCheck", "check_login"]

# The user finds a password and a second factor in a browser.
_LOGIN_SECONDS = 600.0
_ONLY_A_CHECK = "This is only a check; nothing is to be done."


@dataclass(frozen=True, slots=True)
class LoginCheck:
    # Why the agent opens no session; None if it does.
    refusal: LanguageModelError | None
    # What the agent names for logging in, whether that is needed or not: commands for a terminal, and ways that the agent
    # goes alone when it is asked to.
    commands: tuple[LoginCommand, ...]
    methods: tuple[AuthMethod, ...]


async def check_login(settings: AgentSettings, method: str | None = None) -> LoginCheck:
    """Start the agent and open a session. `LanguageModelError` if anything but a missing login prevents that.

    `method`: ask the agent to log in by this way first. It may open a browser and wait for the user.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-login-") as folder:
        agent = await launch(
            settings.name, settings.command, settings.env, folder, lambda: None, settings.ledger
        )
        link, clock = agent.link, SystemClock()
        try:
            said = await started(agent, link.initialize(files=settings.fs), settings, clock)
            commands = login_commands(said.auth_methods, settings.command)
            methods = tuple(each for each in said.auth_methods if each.type in (None, "agent"))
            methods = tuple(each for each in methods if not login_commands((each,), settings.command))
            if method is not None and (refusal := await _refused(agent, method)) is not None:
                return LoginCheck(refusal, commands, methods)
            opening = logged_in(link, settings, lambda: link.new_session((folder,), (), _Silent()))
            try:
                await started(agent, opening, settings, clock)
            except LanguageModelError as error:
                if error.kind != "auth_required":
                    raise
                return LoginCheck(error, commands, methods)
            return LoginCheck(None, commands, methods)
        finally:
            await agent.stop()


async def _refused(agent: RunningAgent, method: str) -> LanguageModelError | None:
    """Ask the agent to log in. Returns the error if it does not."""
    try:
        async with asyncio.timeout(_LOGIN_SECONDS):
            await agent.link.authenticate(method)
    except TimeoutError:
        return LanguageModelError("timeout", f"The login has not ended in {_LOGIN_SECONDS:g} seconds.")
    except LanguageModelError as error:
        return error
    return None


class _Silent:
    """A listener that allows nothing."""

    def on_update(self, update: SessionUpdate) -> None:
        del update

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:
        answer_agent(request, incoming, Refused(_ONLY_A_CHECK))

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        incoming.fail(PERMISSION_REFUSED, f"{request.path}: {_ONLY_A_CHECK}")
