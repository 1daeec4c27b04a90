"""`fs/read_text_file` and `fs/write_text_file`, where the agent is offered them.

Reading inside the workspace needs no permission, except for files that may contain secrets and where a rule says
otherwise. A write that the agent sends
to us has no permission yet: it becomes a permission request like any other, with a diff, unless an edit that a person
approved in this turn covers it. If the client offers its files (`lm.client_services`), texts are those of its open documents,
and it makes the changes. Every check comes before that.
https://agentclientprotocol.com/protocol/file-system
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Literal

from dragoman.acp.messages import (
    PERMISSION_REFUSED,
    FileRequest,
    Location,
    ReadTextFile,
    ToolActivity,
    WriteTextFile,
)
from dragoman.backends.agent.machine.types import CallAnswer, Granted, MachineEvent, Refused, Spoke
from dragoman.backends.agent.reply.narrator import new_activity_id
from dragoman.backends.agent.session.approved_edits import Change, FileRefused, read_text, wanted_lines
from dragoman.backends.agent.session.host import SessionHost
from dragoman.backends.agent.session.permission_requests import PermissionRequests
from dragoman.jsonrpc import INTERNAL_ERROR, REQUEST_CANCELLED, Incoming
from dragoman.lm import ActivityLocation as Place, ActivityNote
from dragoman.lm.client_services import ClientServiceError
from dragoman.lm.gfm import code
from dragoman.permissions.action import Action
from dragoman.permissions.decide import Allowed, Ask, StepDecision

__all__ = ["AT_ONCE", "FileRequests"]

_log = logging.getLogger(__name__)

# An agent has a few open at a time. Each may hold a file twice, as it is and as it shall be.
AT_ONCE = 32


class FileRequests:
    """Serves the file requests of one run of an agent. `dispatch` sends an event to the conversation."""

    def __init__(self, host: SessionHost, dispatch: Callable[[MachineEvent], None]) -> None:
        self._host = host
        self._dispatch = dispatch
        self._open: set[Incoming] = set()

    @property
    def _requests(self) -> PermissionRequests:
        return self._host.permission_requests

    def serve(self, request: FileRequest, incoming: Incoming) -> None:
        self._open = {each for each in self._open if not each.answered}
        if len(self._open) >= AT_ONCE:
            incoming.fail(INTERNAL_ERROR, f"More than {AT_ONCE} file requests wait already.")
            return
        self._open.add(incoming)
        match request:
            case ReadTextFile():
                self._run(self._read(request, incoming), incoming)
            case WriteTextFile():
                self._run(self._write(request, incoming), incoming)

    def _run(self, work: Coroutine[object, object, None], incoming: Incoming) -> None:
        self._host.tasks.work(_answering(work, incoming))

    async def _read(self, request: ReadTextFile, incoming: Incoming) -> None:
        place = Location(request.path, request.line)
        action = self._requests.describe(
            ToolActivity("", f"Read {request.path}", kind="read", locations=(place,))
        )
        decision = self._requests.decide(action, read_only=True)
        if _is_ordinary(action, decision):
            await self._give(request, incoming)
        else:
            do = partial(self._give, request, incoming)
            await self._ask(action, request.path, "read", do, incoming, decision)

    async def _give(self, request: ReadTextFile, incoming: Incoming) -> None:
        path, text = await asyncio.to_thread(read_text, self._host.workspace, request.path)
        files = self._host.client.files
        if files is not None and (buffer := await files.buffer(path)) is not None:
            text = buffer
        self._did("Read", request.path, "read")
        incoming.reply({"content": wanted_lines(text, request)})

    async def _write(self, request: WriteTextFile, incoming: Incoming) -> None:
        requests = self._requests
        turn = requests.turn
        change = await asyncio.to_thread(Change.of, self._host.workspace, request)
        files = self._host.client.files
        if files is not None and (buffer := await files.buffer(change.path)) is not None:
            # A person decides about what they see in the editor.
            change = replace(change, old=buffer)
        is_stopped = requests.turn != turn or self._host.is_cancelling
        if is_stopped or incoming.token.cancelled():
            _cancel(incoming)
        elif change.new == change.old:
            incoming.reply({})
        elif requests.edits.spend(change):
            await self._make(change, incoming)
        else:
            action = self._requests.describe(change.activity)
            await self._ask(action, change.path, "written", lambda: self._make(change, incoming), incoming)

    async def _ask(
        self,
        action: Action,
        path: str,
        done: Literal["read", "written"],
        do: Callable[[], Coroutine[object, object, None]],
        incoming: Incoming,
        decision: StepDecision | None = None,
    ) -> None:
        """Ask a person, and do it when they allow it."""

        def answer(given: CallAnswer) -> None:
            match given:
                case Granted():
                    self._run(do(), incoming)
                case Refused(reason=reason, by="no_one"):
                    why = f"{path} was not {done}: the user was not asked. {reason}"
                    incoming.fail(PERMISSION_REFUSED, why)
                case Refused(reason=reason, by="timeout"):
                    incoming.fail(PERMISSION_REFUSED, f"{path} was not {done}: {reason}")
                case Refused(reason=reason):
                    why = f" They say: {reason}" if reason else ""
                    incoming.fail(PERMISSION_REFUSED, f"{path} was not {done}: the user refused it.{why}")
                case _:
                    _cancel(incoming)

        self._requests.submit(action, incoming, answer, self._dispatch, decision)

    async def _make(self, change: Change, incoming: Incoming) -> None:
        files = self._host.client.files
        if files is None:
            await asyncio.to_thread(change.make)
            written = change.new
        else:
            await asyncio.to_thread(change.check)
            saved = await files.write(change.path, change.new, change.old)
            if saved is None:
                raise change.outdated
            written = saved
        if (edits := self._host.client.edits) is not None:
            edits.changed(self._host.id, self._requests.agent_name, change.path, change.old, written)
        self._did("Wrote", change.path, "edit")
        incoming.reply({})

    def _did(self, what: str, path: str, kind: Literal["read", "edit"]) -> None:
        """Report a file access as the narrator reports a tool call."""
        text = f"\n\n▸ {what} {code(path)}\n"
        place = Place(path)
        self._dispatch(
            Spoke(
                ActivityNote(
                    new_activity_id(), f"{what} {path}", kind, "completed", locations=(place,), text=text
                )
            )
        )


def _is_ordinary(action: Action, decision: StepDecision) -> bool:
    """Whether a read needs no permission. Where the path leads is checked when the file is opened."""
    match decision:
        case Allowed():
            return action.sensitive is None
        case Ask():
            return not decision.needs_person
        case _:
            return False


async def _answering(work: Coroutine[object, object, None], incoming: Incoming) -> None:
    """Run the work. If it fails, the agent gets an error response."""
    try:
        await work
    except FileRefused as refused:
        incoming.fail(refused.code, refused.message)
    except ClientServiceError as error:
        incoming.fail(INTERNAL_ERROR, f"{incoming.method} failed. {error}")
    except Exception:
        _log.exception("%s failed", incoming.method)
        if not incoming.answered:
            incoming.fail(INTERNAL_ERROR, f"{incoming.method} failed.")


def _cancel(incoming: Incoming) -> None:
    incoming.fail(REQUEST_CANCELLED, "The turn ended before a decision.")
