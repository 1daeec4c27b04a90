"""One event of every kind, with content in every place that may have some."""

from __future__ import annotations

from dragoman.conversations.history import NormalAnswer, NormalPrompt, item_key
from dragoman.conversations.records import ReplyRecord
from dragoman.journal.agent_events import (
    AgentLaunched,
    AgentStopped,
    CallSettled,
    ConversationImported,
    PermissionDecided,
    PlanMade,
    ReceivedResult,
    ReplyEnded,
    RequestReceived,
    SessionChanged,
    StepTaken,
    TextSaid,
    ThinkingSaid,
    UsageNoted,
)
from dragoman.journal.event import ContentDeleted, JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.permission_event import permission_requested
from dragoman.lm import ActivityPart, PlanPart, UsagePart
from dragoman.lm.parts import ActivityLocation, PlanEntry
from dragoman.permissions.action import Action, TextContent

__all__ = ["agent_events"]


def agent_events(word: str) -> list[AnyEvent]:
    """Every event of an agent's conversation, with this word wherever content may be."""
    prompt, answer = NormalPrompt(word), NormalAnswer(word, (("dg_1", "look", f'{{"q":"{word}"}}'),))
    action = Action(
        agent="claude",
        agent_name="Claude",
        risk="execute",
        kind="execute",
        title=word,
        command=f"echo {word}",
        environment={"WORD": word},
        content=(TextContent(word),),
        input={"command": word},
        folder="/folder",
    )
    step = ActivityPart(
        "s1",
        word,
        "execute",
        "failed",
        (ActivityLocation(f"/{word}"),),
        diff=word,
        output=word,
        exit_status=1,
    )
    return [
        JournalStarted("agent", "claude", ("/folder",), "editor", "chat-1", "parent", word),
        ConversationImported(
            (item_key(prompt),), (ReplyRecord(1, 1, 1, 1, "complete"),), items=(prompt,), session="s"
        ),
        RequestReceived(
            2,
            2,
            "results",
            "marker",
            "the history goes on",
            "0f",
            keeps=1,
            keys=(item_key(prompt),),
            items=(prompt, answer),
            results=(
                ReceivedResult("dg_0", word, ("image/png, 3 bytes, 00",), is_error=True, outcome="error"),
            ),
        ),
        TextSaid(2, 0, len(word), word),
        ThinkingSaid(2, len(word), word),
        StepTaken(2, step),
        PlanMade(2, PlanPart((PlanEntry(word, "high", "pending"),))),
        UsageNoted(2, UsagePart(input=7)),
        permission_requested("dg_2", action),
        PermissionDecided("dg_2", is_allowed=False, by="person", where="vscode", seconds=1.5, why=word),
        ReplyEnded(2, "failed", item_key(answer), answer.calls, ("dg_1",), 2, "agent_failed", word, word),
        CallSettled("dg_1"),
        AgentLaunched("Claude", "1.0", 17, "session-1", is_new=True),
        AgentStopped(word),
        SessionChanged("session-1"),
        ContentDeleted(),
    ]
