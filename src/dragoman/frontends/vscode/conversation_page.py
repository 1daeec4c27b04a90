"""A stored conversation as a Markdown document, and as messages that continue it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt
from dragoman.journal.agent_events import (
    AgentStopped,
    ConversationImported,
    PermissionDecided,
    PermissionRequested,
    ReplyEnded,
    RequestReceived,
    StepTaken,
    TextSaid,
)
from dragoman.journal.chat_events import MessagesAdded
from dragoman.journal.decision_text import decision_in_words, permission_in_words
from dragoman.journal.event import ContentDeleted
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.proofs import without_proofs
from dragoman.journal.store import JournalInfo
from dragoman.lm import DataPart, Message, Part, TextPart
from dragoman.lm.gfm import escape

__all__ = ["NOT_STORED", "messages_of", "page_of"]

NOT_STORED = "What was said is not stored: `content` of `[journal]` is not `full`, or it was deleted. Only what happened is here."
_YOU, _AGENT, _STEP = "## You", "## Agent", "step"


def page_of(info: JournalInfo, agent: str, client: str, entries: Iterable[JournalEntry]) -> str:
    """The whole conversation for a person. The texts are as they were said."""
    began = datetime.fromtimestamp(info.started_at, UTC).astimezone()
    lines = [
        f"# {escape(info.title or info.id)}",
        f"{escape(agent)} · {escape(client)} · {began:%Y-%m-%d %H:%M}",
    ]
    last, has_words = "", False
    for heading, text in _spoken(without_proofs(entry.event) for entry in entries):
        has_words = has_words or (heading != _STEP and bool(text.strip()))
        if heading == _STEP:
            lines.append(text)
        elif heading == last:
            # A further piece of the same answer.
            lines[-1] += text
            continue
        else:
            lines += [heading, text]
        last = heading if heading == _AGENT else ""
    if not has_words:
        lines.insert(2, f"*{NOT_STORED}*")
    return "\n\n".join(line for line in lines if line.strip()) + "\n"


def _spoken(events: Iterable[AnyEvent]) -> Iterator[tuple[str, str]]:
    for event in events:
        match event:
            case RequestReceived(items=items) | ConversationImported(items=items):
                yield from _items(items)
            case TextSaid(text=text):
                yield _AGENT, text
            case StepTaken(part=part):
                mark = {"completed": "✓", "failed": "✗"}.get(part.status, "…")
                yield _STEP, f"{mark} {escape(part.title)}"
            case PermissionRequested():
                yield _STEP, f"? {escape(permission_in_words(event))}"
            case PermissionDecided():
                yield _STEP, f"→ {escape(decision_in_words(event))}"
            case ReplyEnded(sentence=str(sentence)):
                yield _STEP, f"**Error:** {escape(sentence)}"
            case AgentStopped(error=str(error)):
                yield _STEP, escape(error)
            case MessagesAdded(messages=messages):
                for message in messages:
                    if message.text.strip():
                        yield (_YOU if message.role == "user" else _AGENT), message.text
            case ContentDeleted():
                yield _STEP, "*What was said was deleted.*"


def _items(items: Iterable[NormalItem]) -> Iterator[tuple[str, str]]:
    for item in items:
        match item:
            case NormalPrompt(text=text):
                yield _YOU, text
            case NormalAnswer(text=text):
                # Of another model, or of a conversation that this one branches off from.
                yield _AGENT, text


def messages_of(entries: Iterable[JournalEntry], marker: DataPart | None) -> tuple[Message, ...]:
    """What was said, with the marker in the last answer: by that the next request is recognised.

    Steps, calls and results are left out: the agent's own session has them.
    """
    said: list[tuple[str, str]] = []
    for heading, text in _spoken(entry.event for entry in entries):
        if heading == _STEP or not text.strip():
            continue
        if said and said[-1][0] == heading:
            joined = text if heading == _AGENT else f"\n\n{text}"
            said[-1] = (heading, said[-1][1] + joined)
        else:
            said.append((heading, text))
    messages = [
        Message("user" if heading == _YOU else "assistant", (TextPart(text),)) for heading, text in said
    ]
    if marker is None:
        return tuple(messages)
    # The answer may have had no text, or none is stored.
    words: tuple[Part, ...] = messages.pop().content if messages and messages[-1].role == "assistant" else ()
    return (*messages, Message("assistant", (marker, *words)))
