"""`terminal/…` of ACP, where the client shows terminals. https://agentclientprotocol.com/protocol/terminals

To create a terminal is to run a command: it becomes a permission request like any other, unless exactly this command was
approved in this turn. The command runs under our supervision; the client only shows it, and can stop it. Everything ends
with the turn.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shlex
from collections.abc import Callable, Coroutine
from pathlib import Path, PurePath

from dragoman.acp.messages import (
    PERMISSION_REFUSED,
    CreateTerminal,
    TerminalRequest,
    ToolActivity,
    UseTerminal,
)
from dragoman.backends.agent.machine.types import CallAnswer, Granted, MachineEvent, Refused
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.session.host import SessionHost
from dragoman.backends.agent.session.terminal_process import TerminalProcess
from dragoman.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, REQUEST_CANCELLED, Incoming
from dragoman.lm import JsonObject
from dragoman.permissions.action import Action
from dragoman.process import SpawnError
from dragoman.tools.builtin.child import NO_TERMINAL
from dragoman.visible import visible_exactly

__all__ = ["TERMINALS_AT_ONCE", "TerminalRequests"]

_log = logging.getLogger(__name__)

# Agents use one or two.
TERMINALS_AT_ONCE = 16
# Of the output, where the agent names no limit or a larger one. An agent reads it as text, for its model.
_DEFAULT_OUTPUT_BYTES = 1024 * 1024
_MOST_OUTPUT_BYTES = 16 * 1024 * 1024
_CANCELLED = "The turn ended before the command was started."


class TerminalRequests:
    """The terminals of one run of an agent. `dispatch` sends an event to the conversation."""

    def __init__(self, host: SessionHost, dispatch: Callable[[MachineEvent], None]) -> None:
        self._host = host
        self._dispatch = dispatch
        self._terminals: dict[str, TerminalProcess] = {}
        # Terminals that are being started or asked about.
        self._coming = 0
        # Terminals that the user has stopped before they were started.
        self._stopped: set[str] = set()

    def serve(self, request: TerminalRequest, incoming: Incoming) -> None:
        match request:
            case CreateTerminal():
                self._create(request, incoming)
            case UseTerminal(terminal_id=id_):
                terminal = self._terminals.get(id_)
                if terminal is None:
                    incoming.fail(INVALID_PARAMS, f"There is no terminal {id_!r}.")
                else:
                    self._use(terminal, id_, incoming)

    def end(self) -> None:
        """Kill and forget everything, because the turn or the agent has ended."""
        terminals, self._terminals = self._terminals, {}
        self._stopped.clear()
        for terminal in terminals.values():
            self._host.tasks.work(terminal.kill())

    def _use(self, terminal: TerminalProcess, id_: str, incoming: Incoming) -> None:
        match incoming.method:
            case "terminal/output":
                ended: JsonObject = {} if terminal.exit is None else {"exitStatus": _status(terminal)}
                output = terminal.output
                incoming.reply({"output": output.text, "truncated": output.is_truncated, **ended})
            case "terminal/wait_for_exit":
                self._work(_wait(terminal, incoming), incoming)
            case "terminal/kill":
                self._work(_kill(terminal, incoming), incoming)
            case _:
                # "The terminal ID becomes invalid", says ACP of a release.
                del self._terminals[id_]
                self._work(_kill(terminal, incoming), incoming)

    def _create(self, request: CreateTerminal, incoming: Incoming) -> None:
        if self._coming + len(self._terminals) >= TERMINALS_AT_ONCE:
            incoming.fail(
                INTERNAL_ERROR, f"There are {TERMINALS_AT_ONCE} terminals already. Release some first."
            )
            return
        if request.cwd is not None and not PurePath(request.cwd).is_absolute():
            incoming.fail(INVALID_PARAMS, f"{request.cwd!r} is not an absolute path.")
            return
        requests = self._host.permission_requests
        action = requests.describe(_activity(request, self._host.workspace[0]))
        self._coming += 1
        if requests.commands.spend(action):
            self._work(self._start(request, action, incoming), incoming)
            return

        def answer(given: CallAnswer) -> None:
            if isinstance(given, Granted):
                self._work(self._start(request, action, incoming), incoming)
                return
            self._coming -= 1
            match given:
                case Refused(reason=reason, by="no_one"):
                    why = f"The command was not run: the user was not asked. {reason}"
                    incoming.fail(PERMISSION_REFUSED, why)
                case Refused(reason=reason, by="timeout"):
                    incoming.fail(PERMISSION_REFUSED, f"The command was not run: {reason}")
                case Refused(reason=reason):
                    why = f" They say: {reason}" if reason else ""
                    incoming.fail(PERMISSION_REFUSED, f"The command was not run: the user refused it.{why}")
                case _:
                    incoming.fail(REQUEST_CANCELLED, _CANCELLED)

        requests.submit(action, incoming, answer, self._dispatch)

    async def _start(self, request: CreateTerminal, action: Action, incoming: Incoming) -> None:
        host = self._host
        turn = host.permission_requests.turn
        try:
            views = host.client.terminals
            if views is None:
                incoming.fail(INTERNAL_ERROR, "The editor is gone.")
                return
            id_ = f"term_{secrets.token_hex(8)}"
            settings = host.permission_requests.agent_settings
            view = views.open(_shown(request, action), action.folder, lambda: self._stop(id_))
            try:
                terminal = await TerminalProcess.start(
                    (request.command, *request.args) if request.args else ("/bin/sh", "-c", request.command),
                    _environment(settings, request),
                    Path(action.folder),
                    view,
                    _output_limit(request),
                    settings.ledger,
                )
            except SpawnError as error:
                view.show(f"{error}\n")
                view.ended(None, None)
                incoming.fail(INTERNAL_ERROR, f"The command could not be started. {error}")
                return
        finally:
            self._coming -= 1
        is_stopped = host.permission_requests.turn != turn or host.is_cancelling
        if is_stopped or incoming.token.cancelled():
            await terminal.kill()
            incoming.fail(REQUEST_CANCELLED, _CANCELLED)
            return
        self._terminals[id_] = terminal
        incoming.reply({"terminalId": id_})
        if id_ in self._stopped:
            self._stop(id_)

    def _stop(self, id_: str) -> None:
        """The user does not want the command any more. The agent gets its exit status as usual."""
        terminal = self._terminals.get(id_)
        if terminal is None:
            self._stopped.add(id_)
        else:
            self._stopped.discard(id_)
            self._host.tasks.work(terminal.kill())

    def _work(self, work: Coroutine[object, object, None], incoming: Incoming) -> None:
        self._host.tasks.work(_answering(work, incoming))


def _activity(request: CreateTerminal, folder: str) -> ToolActivity:
    """The command as a tool call of a permission request."""
    given: JsonObject = {"command": request.command}
    if request.cwd not in (None, folder):
        # The folder of the workspace is where every command runs that names none.
        given["cwd"] = request.cwd
    if request.args:
        given["args"] = list(request.args)
    if request.env:
        given["env"] = {variable.name: variable.value for variable in request.env}
    return ToolActivity("", "In a terminal", kind="execute", raw_input=given)


def _output_limit(request: CreateTerminal) -> int:
    wanted = request.output_byte_limit
    return min(_DEFAULT_OUTPUT_BYTES if wanted is None else wanted, _MOST_OUTPUT_BYTES)


def _shown(request: CreateTerminal, action: Action) -> str:
    """All of what runs, as one would type it: variables, command, arguments."""
    variables = (f"{variable.name}={shlex.quote(variable.value)}" for variable in request.env)
    return visible_exactly(" ".join((*variables, action.command or "")))


def _environment(settings: AgentSettings, request: CreateTerminal) -> dict[str, str]:
    own = {variable.name: variable.value for variable in request.env}
    return {**settings.env, **NO_TERMINAL, **own}


def _status(terminal: TerminalProcess) -> JsonObject:
    return {"exitCode": terminal.exit.code if terminal.exit is not None else None, "signal": terminal.signal}


async def _wait(terminal: TerminalProcess, incoming: Incoming) -> None:
    await terminal.wait()
    incoming.reply(_status(terminal))


async def _kill(terminal: TerminalProcess, incoming: Incoming) -> None:
    await terminal.kill()
    incoming.reply({})


async def _answering(work: Coroutine[object, object, None], incoming: Incoming) -> None:
    """Run the work. If it fails, the agent gets an error response."""
    try:
        await work
    except asyncio.CancelledError:
        raise
    except Exception:
        _log.exception("%s failed", incoming.method)
        if not incoming.answered:
            incoming.fail(INTERNAL_ERROR, f"{incoming.method} failed.")
