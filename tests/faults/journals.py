"""J1 after a run: the journals that the bridges left, against what the consumers kept account of.

Every journal has its events in order and without gaps, is folded without an error, and is free. What was acknowledged is there
once: every word of a reply that had its end for the consumer. After a kill, a chat whose consumer sends markers is the
same conversation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.journal.agent_events import TextSaid
from dragoman.journal.events import JournalEntry
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JournalStore
from dragoman.store import Database
from faults.chat import WORD, Chat, name_of, turn_of

if TYPE_CHECKING:
    from faults.run import Run

__all__ = ["Journalled", "journalled", "journalled_in", "journals_broken_by", "lost_words"]

# While they last, events wait in memory: what is killed then has not acknowledged them, or said that it could not store them.
_OF_THE_STORE = ("disk full", "database locked", "no files")


@dataclass
class Journalled:
    broken: list[str] = field(default_factory=list)
    # How often each word is in the replies of all journals.
    words: Counter[str] = field(default_factory=Counter)
    # The journal that has each word, and the number of its event there.
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    # The journals that have words of a chat, by its name.
    journals: dict[str, set[str]] = field(default_factory=dict)


async def journals_broken_by(run: Run) -> list[str]:
    """Once no process uses the state folder any more."""
    found = await journalled(run.world.state)
    # Over HTTP the editor asks for nothing to be stored, so there are digests and no words.
    if run.plan.front == "serve" or run.plan.has(*_OF_THE_STORE):
        return found.broken
    for chat in (run.chat, run.other):
        lost = lost_words(found, chat)
        if lost:
            found.broken.append(f"J1: acknowledged and not journalled ({len(lost)} words): {lost[:5]}")
        journals = found.journals.get(chat.name, set())
        if run.plan.faults == ("bridge killed",) and len(journals) > 1:
            found.broken.append(f"J1: after a kill, chat {chat.name} was not recognised: {sorted(journals)}")
    return found.broken


async def journalled(state: Path) -> Journalled:
    with Database.open(state) as database:
        return await journalled_in(SqliteJournals(database))


async def journalled_in(store: JournalStore) -> Journalled:
    found = Journalled()
    for info in await store.journals("agent"):
        entries = await store.read(info.id)
        if [entry.sequence for entry in entries] != list(range(1, info.sequence + 1)):
            found.broken.append(f"J1: the journal {info.id} has gaps")
        if await store.state(info.id) is None or await store.claim(info.id, info.sequence) != "ours":
            found.broken.append(f"J1: the journal {info.id} cannot be taken up")
        for entry in entries:
            if isinstance(entry.event, TextSaid):
                for word in WORD.findall(entry.event.text):
                    found.places[word] = info.id, entry.sequence
        for text in _replies(entries):
            for word in WORD.findall(text):
                found.words[word] += 1
                found.journals.setdefault(name_of(word)[:1], set()).add(info.id)
    found.broken += [
        f"J1: {word} is journalled {times} times" for word, times in found.words.items() if times > 1
    ]
    return found


def _replies(entries: list[JournalEntry]) -> list[str]:
    texts: dict[int, str] = {}
    for entry in entries:
        if isinstance(event := entry.event, TextSaid):
            texts[event.number] = texts.get(event.number, "") + event.text
    return list(texts.values())


def lost_words(found: Journalled, chat: Chat) -> list[str]:
    """Words that the chat has of turns that no bridge died in, and no journal has."""
    # What an agent says outside any turn of ours may belong to one that a bridge died in.
    cut = chat.lost | {-1} if chat.lost else chat.lost
    return [word for word in chat.heard if word not in found.words and turn_of(word) not in cut]
