"""What happened in a conversation, line by line: `dragoman conversations show`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from dragoman.cli.journal_text import counted, event_in_words
from dragoman.cli.layout import filled
from dragoman.journal.agent_events import (
    AgentLaunched,
    ReplyEnded,
    SessionChanged,
    TextSaid,
    ThinkingSaid,
)
from dragoman.journal.chat_agents import lost_replies
from dragoman.journal.chat_fold import fold_chat
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.fold import ConversationFold
from dragoman.journal.response_events import ItemsAdded, PartsReported, ResponseClosed
from dragoman.journal.store import JournalInfo
from dragoman.logs import one_line

__all__ = ["ShownEntry", "lines", "moment", "summaries"]

# So much of an id stands before the number of an event.
_SHORT_ID = 4
# Where the words of an event begin: behind the time and the number.
_INDENT = " " * 20


class ShownEntry(msgspec.Struct, frozen=True):
    """An event of a conversation, or of the conversation of an agent in it."""

    journal: str
    entry: JournalEntry


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def lines(entries: Sequence[ShownEntry], info: JournalInfo, width: int) -> Iterator[str]:
    """The events, each with its time and number; a day before the first event of it."""
    day = ""
    has_agents = any(each.journal != info.id for each in entries)
    incomplete = _incomplete(entries, info)
    for each in _joined(entries):
        at = moment(each.entry.at).astimezone()
        if (today := at.strftime("%Y-%m-%d")) != day:
            day = today
            yield day
        is_own = each.journal == info.id
        number = str(each.entry.sequence) if is_own else f"{each.journal[:_SHORT_ID]}:{each.entry.sequence}"
        head = f"{at:%H:%M:%S} {number:>9}  "
        words = event_in_words(
            each.entry.event,
            in_chat=info.kind == "chat" and not is_own,
            has_agents=has_agents,
            is_incomplete=(each.journal, getattr(each.entry.event, "number", None)) in incomplete,
        )
        for text in words:
            # Continuation lines are indented, so that no line in them can pass for another event.
            first, *more = map(one_line, text.strip().split("\n"))
            yield from _fitted(head, first, width)
            for line in more:
                yield from _fitted(f"{_INDENT}  ", line, width)
            head = _INDENT


def _fitted(head: str, text: str, width: int) -> list[str]:
    if len(head) + len(text) <= width:
        return [(head + text).rstrip()]
    return filled(text, width, f"{_INDENT}  ", head)


def _incomplete(entries: Sequence[ShownEntry], info: JournalInfo) -> set[tuple[str, int]]:
    """The replies that have no end, or that the chat did not get: the journal of each, and its number."""
    journals = _by_journal(entries)
    if info.kind == "chat":
        own = journals.pop(info.id, [])
        lost = lost_replies(own, journals)
        return {(reply.journal, reply.number) for replies in lost.values() for reply in replies}
    said = {
        (each.journal, each.entry.event.number)
        for each in entries
        if isinstance(each.entry.event, TextSaid | ThinkingSaid)
    }
    return said - {
        (each.journal, each.entry.event.number)
        for each in entries
        if isinstance(each.entry.event, ReplyEnded)
    }


def _by_journal(entries: Iterable[ShownEntry]) -> dict[str, list[JournalEntry]]:
    found: dict[str, list[JournalEntry]] = {}
    for each in entries:
        found.setdefault(each.journal, []).append(each.entry)
    return found


def _joined(entries: Iterable[ShownEntry]) -> Iterator[ShownEntry]:
    """With text that was stored in pieces as one event, under the number of its first piece."""
    last: ShownEntry | None = None
    for each in entries:
        if last is None:
            last = each
            continue
        event = _together(last.entry.event, each.entry.event) if last.journal == each.journal else None
        if event is None:
            yield last
            last = each
        else:
            last = ShownEntry(last.journal, msgspec.structs.replace(last.entry, event=event))
    if last is not None:
        yield last


def _together(first: AnyEvent, second: AnyEvent) -> AnyEvent | None:
    match first, second:
        case TextSaid(), TextSaid() if first.number == second.number:
            return TextSaid(
                first.number, first.offset, first.length + second.length, first.text + second.text
            )
        case ThinkingSaid(), ThinkingSaid() if first.number == second.number:
            return ThinkingSaid(first.number, first.length + second.length, first.text + second.text)
        case PartsReported(), PartsReported():
            return PartsReported(first.parts + second.parts)
        case AgentLaunched(session=session), SessionChanged(session=now) if session == now:
            return first
        case _:
            return None


def summaries(entries: Sequence[ShownEntry]) -> Iterator[str]:
    """What the events of each journal come to."""
    for journal, own in _by_journal(entries).items():
        yield f"{journal}: {_summary(journal, [entry.event for entry in own])}"


def _summary(journal: str, events: Sequence[AnyEvent]) -> str:
    match events[0]:
        case JournalStarted(kind="chat"):
            chat = fold_chat(events)
            return f"{counted(len(chat.messages), 'message')}, model {one_line(chat.model)}"
        case JournalStarted(kind="response"):
            parts = sum(len(event.parts) for event in events if isinstance(event, PartsReported))
            ends = [event.end for event in events if isinstance(event, ResponseClosed)]
            return f"{counted(parts, 'part')}, {ends[-1] if ends else 'under way'}"
        case JournalStarted(kind="items"):
            return counted(sum(len(event.items) for event in events if isinstance(event, ItemsAdded)), "item")
        case _:
            return _agent_summary(journal, events)


def _agent_summary(journal: str, events: Sequence[AnyEvent]) -> str:
    fold = ConversationFold(journal).apply_all(events)
    record = fold.record
    statuses = [reply.status for reply in record.replies]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    replies = counted(len(statuses), "reply", "replies")
    return (
        f"{counted(len(record.keys), 'item')}, {replies}{f' ({counts})' if counts else ''}, "
        f"{counted(len(record.pending), 'open call')}, session {one_line(fold.session or 'none')}"
    )
