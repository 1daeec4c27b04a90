"""Stored chats: which there are, which one is meant, and claiming one in order to continue it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dragoman.journal.chat_agents import AgentsEntries
from dragoman.journal.chat_fold import ChatState, fold_chat
from dragoman.journal.events import JournalEntry, UnreadableJournal
from dragoman.journal.finding import NotFound, find_by_id
from dragoman.journal.store import HeldElsewhere, JournalInfo, JournalStore, JournalStoreError
from dragoman.journal.writer import Journals
from dragoman.visible import visible_line

__all__ = [
    "LAST_TIME",
    "MOST_OFFERED",
    "CannotResume",
    "NotKept",
    "StoredChat",
    "all_chats",
    "chats_in",
    "chosen_by_id",
    "claimed_chat",
    "in_words",
    "kept_chats",
    "last_chat",
    "release_chat",
    "stored_chat",
    "time_of",
]

_log = logging.getLogger(__name__)

_TITLE = 60
# Each has a digit in the list to choose from.
MOST_OFFERED = 9
_OFF = 'Chats are not kept: `content` in [journal] of the configuration is "off". To keep them, set it to "full".'
_FROM_NOW_ON = 'To keep what is said from now on, set `content` in [journal] of the configuration to "full".'
_NOT_KEPT = f"What was said in this chat was not kept, so it cannot be continued. {_FROM_NOW_ON}"
_NONE_KEPT = (
    f"What was said in the chats of this folder was not kept, so none can be continued. {_FROM_NOW_ON}"
)
# What a person should know who continues a chat while only metadata is kept.
LAST_TIME = (
    'What is said from now on is not kept, because `content` in [journal] of the configuration is "metadata". '
    "So this chat cannot be continued again."
)


class CannotResume(Exception):
    """A chat cannot be continued: a sentence that says why, and what to do."""


class NotKept(CannotResume):
    """The content of the chat was not kept."""


async def all_chats(journals: Journals) -> list[JournalInfo]:
    """All stored chats, the latest used first. Raises `CannotResume` if none can be continued at all."""
    try:
        return await _usable(journals).journals("chat")
    except JournalStoreError as error:
        raise CannotResume(str(error)) from error


def chats_in(workspace: tuple[Path, ...], chats: Sequence[JournalInfo]) -> list[JournalInfo]:
    """Those of this folder."""
    return [each for each in chats if each.workspace == _folder(workspace)]


def _folder(workspace: tuple[Path, ...]) -> str:
    return str(workspace[0]) if workspace else ""


def chosen_by_id(workspace: tuple[Path, ...], chats: Sequence[JournalInfo], wanted: str) -> JournalInfo:
    """The chat of this folder whose id begins so. Raises `CannotResume` if there is none, or several."""
    try:
        chat = find_by_id(chats, wanted, "chat")
    except NotFound as error:
        raise CannotResume(str(error)) from error
    if chat.workspace != _folder(workspace):
        # Its tools and its agent would act in another folder than the one that it is about.
        raise CannotResume(
            f"The chat {chat.id} is of the folder {visible_line(chat.workspace)}. Continue it there."
        )
    return chat


@dataclass(frozen=True, slots=True)
class StoredChat:
    entries: Sequence[JournalEntry]
    state: ChatState
    # The journals of its agents, as far as they can be read.
    agents: AgentsEntries


async def stored_chat(journals: Journals, id_: str) -> StoredChat:
    """A chat that can be continued. Raises `CannotResume` if it cannot."""
    store = _usable(journals)
    try:
        entries = await store.read(id_)
        agents = await agents_of(store, id_)
    except UnreadableJournal as error:
        raise CannotResume(f"The chat {id_} cannot be read: {error}") from error
    except JournalStoreError as error:
        raise CannotResume(str(error)) from error
    if not entries:
        raise CannotResume(f'There is no chat "{visible_line(id_)}". `dragoman conversations` lists them.')
    chat = fold_chat(entry.event for entry in entries)
    if not chat.is_whole:
        raise NotKept(_NOT_KEPT)
    return StoredChat(entries, chat, agents)


async def last_chat(journals: Journals, chats: Sequence[JournalInfo]) -> tuple[JournalInfo, StoredChat]:
    """The latest whose content was kept. Raises `CannotResume` if there is none, or it cannot be read."""
    for chat in chats:
        try:
            return chat, await stored_chat(journals, chat.id)
        except NotKept:
            continue
    raise NotKept(_NONE_KEPT)


async def kept_chats(journals: Journals, chats: Sequence[JournalInfo]) -> list[JournalInfo]:
    """Those to choose from: without the ones whose content was not kept. Raises `CannotResume` if there are none.

    Only the latest are read, as many as are shown. The title is content, too, so most others are known by that.
    """
    kept: list[JournalInfo] = []
    for chat in chats:
        if chat.title and (len(kept) >= MOST_OFFERED or await _is_whole(_usable(journals), chat.id)):
            kept.append(chat)
    if chats and not kept:
        raise NotKept(_NONE_KEPT)
    return kept


async def _is_whole(store: JournalStore, id_: str) -> bool:
    try:
        return fold_chat(entry.event for entry in await store.read(id_)).is_whole
    except UnreadableJournal:
        # The error comes when it is chosen.
        return True


async def agents_of(store: JournalStore, id_: str) -> dict[str, list[JournalEntry]]:
    """The journals of a chat's agents. One that cannot be read is left out: the chat has what was said."""
    found: dict[str, list[JournalEntry]] = {}
    for agent in await store.journals("agent"):
        if agent.parent == id_:
            try:
                found[agent.id] = await store.read(agent.id)
            except UnreadableJournal as error:
                _log.warning("the journal of the agent's conversation %s cannot be read: %s", agent.id, error)
    return found


async def claimed_chat(journals: Journals, id_: str) -> StoredChat:
    """The same, for a chat that this process owns from now on."""
    chat = await stored_chat(journals, id_)
    store = _usable(journals)
    try:
        claim = await store.claim(id_, chat.entries[-1].sequence)
        if claim == "ours":
            return chat
        info = await store.find(id_)
    except HeldElsewhere as held:
        raise CannotResume(
            f"The chat {id_} is open on {held.owner}. Continue it there, or leave it there first."
        ) from held
    except JournalStoreError as error:
        raise CannotResume(str(error)) from error
    if claim == "gone" or info is None:
        raise CannotResume(f"The chat {id_} has just been deleted.")
    where = f"in process {info.owner}" if info.owner else "in another process"
    raise CannotResume(f"The chat {id_} is open {where}. Continue it there, or leave it there first.")


async def release_chat(journals: Journals, id_: str) -> None:
    """Let other processes continue a chat that was claimed in vain."""
    try:
        await _usable(journals).release(id_)
    except JournalStoreError as error:
        _log.warning("the chat %s stays claimed until this process ends: %s", id_, error)


def _usable(journals: Journals) -> JournalStore:
    """The store, if chats can be continued from it. Raises `CannotResume`."""
    if journals.content == "off":
        raise CannotResume(_OFF)
    if journals.store is None:
        raise CannotResume("Chats are not kept, because the state folder cannot be used.")
    return journals.store


def time_of(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def in_words(chat: JournalInfo) -> str:
    """One line for a list: when it was used, with which model, how it begins."""
    title = visible_line(" ".join(chat.title.split()))
    short = title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…"
    is_open = f"  (open in process {chat.owner})" if chat.owner else ""
    return f"{time_of(chat.used_at)}  {visible_line(chat.model)}  {short}{is_open}"
