"""Questions in an inbox, and a conversation that takes the answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.config import load
from dragoman.frontends.console.sessions import ConsoleRole, ConsoleScope, ConsoleSession
from dragoman.models import Models
from dragoman.permissions.action import Action
from dragoman.permissions.decide import Ask
from dragoman.permissions.inbox import Inbox, InboxDecision, InboxQuestion
from permissions.actions import action

__all__ = ["ADMIN", "ALICE", "Asking", "models_in", "question_of", "session_of", "stamped"]

ADMIN = ConsoleScope()
ALICE = ConsoleScope("alice", "http:a")


def session_of(
    scope: ConsoleScope = ADMIN, role: ConsoleRole = "decide", name: str = "phone"
) -> ConsoleSession:
    return ConsoleSession(f"s-{name}", name, role, scope, 0.0, 0.0)


def models_in(folder: Path, rules: str = "", *, is_stored: bool = True) -> Models:
    folder.mkdir(exist_ok=True)
    file = folder / "own.toml"
    file.write_text(rules)
    return Models(load(file), folder / "state" if is_stored else None)


@dataclass
class Asking:
    """Asks in an inbox as a conversation does: a decision is stored first, and then the agent gets it."""

    inbox: Inbox
    workspace: str = "/srv/project"
    # Cleared: a decision waits here, as for a slow disk.
    stored: asyncio.Event = field(default_factory=asyncio.Event)
    # What the agent has got.
    got: list[InboxDecision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stored.set()

    def ask(
        self, ask: Ask | None = None, *, connection: str = "http:a", conversation: str = "c1", **fields: Any
    ) -> InboxQuestion:
        fields = fields or {"kind": "execute", "input": {"command": "git log --oneline"}}
        id_ = ""

        async def apply(decision: InboxDecision) -> None:
            await self.stored.wait()
            if self.inbox.outcome(id_) is None:
                self.got.append(decision)
                self.inbox.close(id_, "allowed" if decision.is_allowed else "denied")

        id_ = self.inbox.open(
            self.action(**fields),
            ask or Ask(),
            apply,
            lambda _reason: self.inbox.close(id_, "expired"),
            conversation=conversation,
            connection=connection,
            client="openai-python/3.49",
            approval_session="s1",
            workspace=(self.workspace,),
        )
        question = self.inbox.find(id_)
        assert question is not None
        return question

    def action(self, **fields: Any) -> Action:
        from dragoman.permissions.sensitive import Places  # noqa: PLC0415 - only here

        return action(places=Places.around((self.workspace,), ()), **fields)


def question_of(ask: Ask | None = None, **fields: Any) -> InboxQuestion:
    return Asking(Inbox()).ask(ask, **fields)


def stamped(frame: bytes) -> tuple[str | None, str]:
    """Id and name of a server-sent event."""
    lines = frame.decode().rstrip("\n").split("\n")
    fields = dict(line.split(": ", 1) for line in lines)
    return fields.get("id"), fields["event"]
