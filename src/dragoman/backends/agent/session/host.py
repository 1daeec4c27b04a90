"""The interface of a conversation for one run of its agent.

This is the only way back from an agent's session to the conversation, so nothing in this package imports
`conversation`. A listener keeps the *epoch* it was made with: each start of an agent has another one, and a conversation
takes events from the current epoch only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dragoman.backends.agent.machine.tasks import Tasks
from dragoman.backends.agent.machine.types import MachineEvent
from dragoman.backends.agent.session.permission_requests import PermissionRequests
from dragoman.backends.agent.session.session import AgentSession
from dragoman.lm import UsagePart

__all__ = ["SessionHost"]


class SessionHost(Protocol):
    workspace: tuple[str, ...]
    # The background tasks of the conversation.
    tasks: Tasks
    # The agent's permission requests that wait for an answer.
    permission_requests: PermissionRequests

    @property
    def is_cancelling(self) -> bool:
        """Whether the turn under way was cancelled: then nothing more is granted in it."""
        ...

    @property
    def is_streaming(self) -> bool:
        """Whether a reply is open for the agent's output."""
        ...

    def is_current(self, epoch: int) -> bool:
        """Whether the run of this epoch is the current one."""
        ...

    def receive(self, epoch: int, event: MachineEvent) -> None:
        """Take an event of the run of this epoch. Nothing happens if another run is the current one."""
        ...

    def on_offer(self, session: AgentSession) -> None:
        """The agent has reported other options or commands."""
        ...

    def on_usage(self, usage: UsagePart) -> None:
        """The agent has reported the size of its context."""
        ...

    def new_call_id(self) -> str: ...

    def on_stale_update(self, session: AgentSession) -> None:
        """The agent sent an update of an earlier turn in the middle of this one."""
        ...

    def on_exit(self, session: AgentSession) -> None:
        """The connection to the agent has ended, and the conversation did not close it."""
        ...

    def uncollected(self, session: AgentSession) -> Iterable[str]:
        """At the end of a turn: notices about results that the agent never fetched."""
        ...
