"""`dragoman conversations`: list, show, export and delete what is stored."""

from __future__ import annotations

import asyncio
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

import msgspec

from dragoman.cli.actions import check_action
from dragoman.cli.conversation_text import ShownEntry, lines, moment, summaries
from dragoman.cli.errors import DONE, FAILED, CommandError, UsageError, complain
from dragoman.cli.layout import say, width_of
from dragoman.cli.run import CommandContext
from dragoman.cli.table import cell, table
from dragoman.journal.clients import client_of
from dragoman.journal.event import JournalKind
from dragoman.journal.events import UnreadableJournal
from dragoman.journal.finding import NotFound, find_by_id
from dragoman.journal.proofs import without_proofs
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JournalInfo, JournalStore, JournalStoreError
from dragoman.lm.json import JsonObject, encode_text
from dragoman.logs import one_line
from dragoman.store import Database, ResponseStore, SqliteResponses, StoreError

__all__ = ["listed", "run"]

_HEADINGS = ("ID", "WHAT", "MODEL", "LAST USED", "FOLDER", "BEGINS")
_KINDS: tuple[JournalKind, ...] = ("chat", "agent", "response", "items")
_WHAT: dict[JournalKind, str] = {"chat": "chat", "response": "background response", "items": "items"}
# What is no action may be an id, or the beginning of one.
_ID = re.compile(r"[a-z2-7]{4,16}|(?:resp|conv)_\w*")
# The number of an event, behind the beginning of its journal's id if that is another one.
_EVENT = re.compile(r"(?:\w+:)?[1-9][0-9]{0,8}")


def run(arguments: Namespace, context: CommandContext) -> int:
    action: str = arguments.action
    ids: list[str] = arguments.ids
    check_action(
        "conversations", action, ids, alone=("list",), with_ids=("show", "export", "delete"), ids_are=_ID
    )
    if arguments.at is not None and (action != "show" or len(ids) != 1):
        raise UsageError("--at is for one conversation: dragoman conversations show ID --at N")
    if arguments.at is not None and not _EVENT.fullmatch(arguments.at):
        raise UsageError(
            f'--at: "{one_line(arguments.at)}" is no number of an event. Write it as show does: 12, or y6jk:3.'
        )
    if arguments.all and action != "list":
        raise UsageError("--all is for the list: dragoman conversations list --all")
    if action == "export" and len(ids) != 1:
        raise UsageError("conversations export: one at a time, as each is a JSON document.")
    if (fleet := context.fleet()) is not None:
        say(
            f"dragoman: the conversations of the fleet at {', '.join(fleet.urls)} are stored there: see them at the console "
            "of a gateway. This is what this machine has stored itself.",
            sys.stderr,
        )
    try:
        with Database.open(context.state_dir) as database:
            return asyncio.run(_run(SqliteJournals(database), SqliteResponses(database), arguments))
    except (JournalStoreError, StoreError) as error:
        raise CommandError(str(error)) from error


async def _run(store: JournalStore, responses: ResponseStore, arguments: Namespace) -> int:
    if arguments.action == "list":
        return await _list(store, all_kinds=arguments.all, as_json=arguments.json)
    known = await store.journals(*_KINDS)
    status = DONE
    for wanted in arguments.ids:
        try:
            info = find_by_id(known, wanted)
            match arguments.action:
                case "show":
                    await _show(store, info, known, at=arguments.at, as_json=arguments.json)
                case "export":
                    print(encode_text(await _exported(store, info, known)))
                case _:
                    await _delete(store, responses, info)
                    known = await store.journals(*_KINDS)
        except NotFound as error:
            complain(str(error))
            status = FAILED
        except UnreadableJournal as error:
            complain(f"Conversation {one_line(wanted)} cannot be read: {one_line(str(error))}")
            status = FAILED
    return status


# --- list ------------------------------------------------------------------------------------------------------------


async def listed(store: JournalStore) -> list[JournalInfo]:
    """Chats, and the conversations with agents that are not part of a chat, the latest first."""
    return [each for each in await store.journals("chat", "agent") if each.parent is None]


async def _list(store: JournalStore, *, all_kinds: bool, as_json: bool) -> int:
    stored = await (store.journals(*_KINDS) if all_kinds else listed(store))
    if as_json:
        for info in stored:
            print(encode_text(_as_json(info)))
    elif stored:
        print(table(_HEADINGS, map(_row, stored)))
    else:
        say("No conversation is stored.")
    return DONE


def _as_json(info: JournalInfo) -> JsonObject:
    return {
        "id": info.id,
        "kind": info.kind,
        "client": client_of(info),
        "chat": info.parent,
        "model": info.model,
        "title": info.title,
        "workspace": info.workspace,
        "startedAt": moment(info.started_at),
        "usedAt": moment(info.used_at),
        "events": info.sequence,
        "openIn": info.owner or None,
    }


def _row(info: JournalInfo) -> tuple[str, ...]:
    return (
        info.id,
        _what(info),
        info.model,
        moment(info.used_at).astimezone().strftime("%Y-%m-%d %H:%M"),
        info.workspace,
        info.title,
    )


def _what(info: JournalInfo) -> str:
    if info.parent is not None:
        return f"agent in the chat {info.parent}"
    return _WHAT.get(info.kind) or client_of(info)


def _head(info: JournalInfo) -> str:
    """What stands above the events: the row of the list without how it begins, and the client."""
    cells = [*map(cell, _row(info)[:-1])]
    if info.parent is None and info.kind != "chat":
        cells[1] = cell(f"{_WHAT.get(info.kind, 'conversation')} of {client_of(info)}")
    return "  ".join(filter(None, cells))


# --- show and export -------------------------------------------------------------------------------------------------


async def _entries(store: JournalStore, info: JournalInfo, known: Iterable[JournalInfo]) -> list[ShownEntry]:
    """The events of a conversation and of the agents' conversations in it, in the order of time."""
    found: list[ShownEntry] = []
    for each in (info, *(child for child in known if child.parent == info.id)):
        for entry in await store.read(each.id):
            clean = msgspec.structs.replace(entry, event=without_proofs(entry.event))
            found.append(ShownEntry(each.id, clean))
    # Stable: events of one moment stay in the order of their journal.
    return sorted(found, key=lambda each: each.entry.at)


async def _show(
    store: JournalStore, info: JournalInfo, known: Sequence[JournalInfo], *, at: str | None, as_json: bool
) -> None:
    entries = await _entries(store, info, known)
    if at is not None:
        entries = _up_to(entries, info, at)
    if as_json:
        for each in entries:
            print(encode_text(_event_as_json(each)))
        return
    print(_head(info))
    for line in lines(entries, info, width_of(sys.stdout)):
        print(line)
    if at is not None:
        for line in summaries(entries):
            print(line)


def _up_to(entries: Sequence[ShownEntry], info: JournalInfo, at: str) -> list[ShownEntry]:
    """The events up to one, which is given by its number as it is shown: `12`, or `y6jk:3` in an agent's journal."""
    begin, _, number = at.rpartition(":")
    places = [
        place
        for place, each in enumerate(entries)
        if each.journal.startswith(begin or info.id) and each.entry.sequence == int(number)
    ]
    if not places:
        raise NotFound(
            f"Conversation {info.id} has no event {at}: its own are numbered from 1 to {info.sequence}."
        )
    return list(entries[: places[0] + 1])


def _event_as_json(each: ShownEntry) -> JsonObject:
    return {
        "journal": each.journal,
        "sequence": each.entry.sequence,
        "at": moment(each.entry.at),
        "event": each.entry.event,
    }


async def _exported(store: JournalStore, info: JournalInfo, known: Sequence[JournalInfo]) -> JsonObject:
    """Everything that is stored of a conversation, as one document."""
    entries = await _entries(store, info, known)
    return {**_as_json(info), "journal": [_event_as_json(each) for each in entries]}


# --- delete ----------------------------------------------------------------------------------------------------------


async def _delete(store: JournalStore, responses: ResponseStore, info: JournalInfo) -> None:
    if await store.delete(info.id):
        conversation = await responses.delete(info.id, info.connection) if info.kind == "response" else None
        # As DELETE /v1/responses/{id} does: no other response belongs to that conversation.
        if conversation is not None and not await store.delete(conversation):
            complain(f"Its conversation with the agent, {conversation}, is under way, and is not deleted.")
        say(
            f"Conversation {info.id} is deleted. Decisions stay in `dragoman approvals history`, without content."
        )
        return
    now = await store.find(info.id)
    where = f"in process {now.owner}" if now is not None and now.owner else "in another process"
    raise NotFound(f"Conversation {info.id} is under way {where}. Try again when it has ended.")
