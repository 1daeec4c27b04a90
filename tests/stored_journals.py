"""Journals in a state folder, for tests of the commands that show them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from dragoman.conversations.history import NormalAnswer, NormalPrompt, item_key
from dragoman.journal.agent_events import (
    AgentLaunched,
    AgentStopped,
    CallSettled,
    PermissionDecided,
    PermissionRequested,
    ReceivedResult,
    ReplyEnded,
    RequestReceived,
    SessionChanged,
    StepTaken,
    TextSaid,
    ThinkingSaid,
)
from dragoman.journal.chat_events import MessagesAdded, RunEnded
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.permission_event import permission_requested
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.lm import ActivityPart, TextPart, ToolCallPart, ToolResultPart, assistant, user
from dragoman.permissions.action import PERMISSION_TOOLS, Action
from dragoman.store import Database

__all__ = ["AGENT", "CHAT", "EDITOR", "GRANT", "NONCE", "START", "store"]

CHAT = "chatchatchatchat"
AGENT = "agentagentagenta"
EDITOR = "editoreditoredit"
NONCE = "a-nonce-that-proves"
GRANT = "dragoman-grant-abc_DEF-123"
# 2026-01-02 03:04:05 UTC
START = 1767323045.0
_TOOL = PERMISSION_TOOLS["execute"]
_ACTION = Action(
    agent="claude",
    agent_name="Claude",
    risk="execute",
    kind="execute",
    title="make",
    command="make private",
    folder="/folder",
)
_ANSWER = NormalAnswer("Let me look.", (("dg_1", _TOOL, f'{{"nonce":"{NONCE}"}}'),))


def _permission_requested(id_: str) -> PermissionRequested:
    return permission_requested(id_, _ACTION)


def _agent(parent: str | None, connection: str) -> list[AnyEvent]:
    prompt = NormalPrompt("Hello\n\x1b[2Jworld")
    return [
        JournalStarted("agent", "claude", ("/folder",), connection, parent=parent, title="Hello\nworld"),
        RequestReceived(
            1,
            1,
            "fresh",
            "none",
            "nothing in it is known",
            "d1",
            keys=(item_key(prompt),),
            items=(prompt,),
        ),
        AgentLaunched("Claude", "1.0", 42, "session-1", is_new=True),
        SessionChanged("session-1"),
        ThinkingSaid(1, 3, "Hm."),
        TextSaid(1, 0, 12, "Let me look."),
        StepTaken(1, ActivityPart("s1", "make private", "execute", "pending")),
        _permission_requested("dg_1"),
        ReplyEnded(1, "complete", item_key(_ANSWER), _ANSWER.calls, ("dg_1",), 1),
        RequestReceived(
            2,
            1,
            "results",
            "call_id",
            "1 of 1 calls answered",
            "d2",
            keeps=2,
            keys=(),
            results=(ReceivedResult("dg_1", f"take {GRANT}"),),
        ),
        CallSettled("dg_1"),
        PermissionDecided("dg_1", is_allowed=True, by="person", where="terminal", seconds=2.5),
        TextSaid(2, 0, 5, "Done."),
        ReplyEnded(2, "complete", item_key(NormalAnswer("Done."))),
        AgentStopped(),
    ]


def _chat(workspace: str) -> list[AnyEvent]:
    call = ToolCallPart("dg_1", _TOOL, {"nonce": NONCE})
    answer = assistant("Let me look.", ActivityPart("s1", "make private", "execute", "pending"), call)
    result = ToolResultPart("dg_1", (TextPart(f"take {GRANT}"),), name=_TOOL, input=call.input, outcome="ok")
    own = Action(
        agent="claude",
        agent_name="claude",
        risk="read",
        kind="tool",
        title="Reading a private file",
        tool="read_file",
        input={"path": "private.txt"},
        folder="/folder",
    )
    return [
        JournalStarted("chat", "claude", (workspace,), CHAT, title="Hello\nworld"),
        MessagesAdded((user("Hello\n\x1b[2Jworld"),)),
        MessagesAdded((answer,)),
        PermissionRequested("c1", "claude", "read", "read_file", "0123abcd", action=own),
        PermissionDecided("c1", is_allowed=True, by="rule", where="terminal", seconds=0, why="read-only"),
        MessagesAdded((user(result), assistant("Done."))),
        RunEnded("completed"),
    ]


def store(state: Path, *, owner: str | None = None, workspace: str = "/folder", suffix: str = "") -> None:
    """A chat with an agent, an agent's conversation that belongs to it, and one of an editor.

    `suffix` replaces the last characters of their ids.
    """

    async def write(database: Database) -> None:
        journals = SqliteJournals(database, owner)
        for id_, events in (
            (EDITOR, _agent(None, "stdio:editor")),
            (AGENT, _agent(CHAT, CHAT)),
            (CHAT, _chat(workspace)),
        ):
            # Each event is a second after the one before.
            stamped: Sequence[tuple[float, AnyEvent]] = [(START + at, each) for at, each in enumerate(events)]
            await journals.append(id_[: len(id_) - len(suffix)] + suffix, 0, stamped, holds=owner is not None)

    with Database.open(state) as database:
        asyncio.run(write(database))
