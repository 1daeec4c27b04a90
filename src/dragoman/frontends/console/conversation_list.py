"""The conversations that a session of the console sees: those that are stored, and those that are under way.

A conversation that is under way in another process can be changed only there, unless that is another node of the same fleet:
then this process asks that node to do it. A node also keeps the agent of an idle conversation, whose journal nobody holds.
So the node that held the journal last is asked, too.
"""

from __future__ import annotations

import os
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from dragoman.frontends.console.conversation_chat import ChatEntry, ChatFold
from dragoman.frontends.console.sessions import ConsoleScope, ConsoleSession
from dragoman.frontends.console.wire import ConsoleError
from dragoman.journal.clients import front_end_of
from dragoman.journal.events import UnreadableJournal
from dragoman.journal.permission_event import permission_requested
from dragoman.journal.store import JournalInfo, JournalStore
from dragoman.lm import JsonObject
from dragoman.models import LiveConversation
from dragoman.other_nodes import NodeConversation, NodeSilent, Operation, OtherNodes
from dragoman.permissions.inbox import Inbox
from dragoman.permissions.layout import in_short
from dragoman.visible import visible_line

__all__ = ["PAGE_SIZE", "ConversationFilter", "Conversations"]

PAGE_SIZE = 50
# Entries in one answer.
_MOST_ENTRIES = 500
# Conversations whose entries stay in memory: those that people look at now.
_MOST_FOLDED = 8
_LONGEST_TITLE = 200
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class ConversationFilter:
    """What a list is limited to. `before`: only what was not used since then."""

    model: str | None = None
    client: str | None = None
    state: str | None = None
    before: float | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """A conversation that is stored, or under way here, or both."""

    id: str
    connection: str
    info: JournalInfo | None
    live: LiveConversation | None
    # The other node that has it now or had it last, and what that node says of it.
    node: str | None = None
    there: NodeConversation | None = None


class Conversations:
    """Lists conversations, shows one, and stops, parks and deletes them."""

    def __init__(
        self,
        store: JournalStore | None,
        live: Callable[[], Iterable[LiveConversation]],
        inbox: Inbox,
        key_names: Mapping[str, str],
        *,
        now: Callable[[], float] = time.time,
        other_nodes: OtherNodes | None = None,
    ) -> None:
        """`live` gives the conversations of this process, `key_names` the name of the key of a connection."""
        self._others = other_nodes
        self._store = store
        self._live = live
        self._inbox = inbox
        self._key_names = key_names
        self._now = now
        self._folded: OrderedDict[str, ChatFold] = OrderedDict()

    async def page(self, session: ConsoleSession, wanted: ConversationFilter) -> JsonObject:
        """A page of the list, the latest used first, and the value of `before` for the next page."""
        questions = Counter(question.conversation for question in self._inbox)
        found = [
            shown
            for known in await self._with_nodes(await self._all(session.scope))
            if _fits(shown := self._json(known, questions[known.id]), known, wanted)
        ]
        page = found[:PAGE_SIZE]
        # Those of one moment are on one page: the next begins before it.
        page += [each for each in found[PAGE_SIZE:] if each["used_at"] == page[-1]["used_at"]]
        return {"conversations": page, "next": page[-1]["used_at"] if len(page) < len(found) else None}

    async def entries(self, session: ConsoleSession, id_: str, after: int) -> JsonObject:
        """The entries of a conversation that were added or changed after an event.

        `sequence` is the number to give with the next call. A chat of the terminal is always given as a whole.
        """
        [known] = await self._with_nodes([await self._find(session, id_)])
        questions = [question for question in self._inbox if question.conversation == id_]
        info = known.info
        about = self._json(known, len(questions))
        if self._store is None or info is None:
            return {"conversation": about, "entries": [], "sequence": 0, "more": False}
        try:
            if info.kind == "chat":
                entries, sequence = await self._chat(self._store, info), info.sequence
            else:
                fold = await self._fold(self._store, info)
                entries, sequence = fold.changed(after), fold.sequence
        except UnreadableJournal as error:
            raise ConsoleError(500, "unreadable", f"The conversation cannot be read: {error}") from error
        more = info.kind != "chat" and len(entries) > _MOST_ENTRIES
        if more:
            # What was changed first comes first. Entries of one event stay together.
            sequence = sorted(entry.sequence for entry in entries)[_MOST_ENTRIES - 1]
            entries = [entry for entry in entries if entry.sequence <= sequence]
        shown = [entry.as_json() for entry in entries]
        # The page leads from a permission that waits to its question.
        waiting = {permission_requested("", each.action).digest: each.id for each in questions}
        for entry, json in zip(entries, shown, strict=True):
            if entry.role == "permission":
                is_open = entry.more["outcome"] is None
                json["question"] = waiting.get(entry.digest or "") if is_open else None
        return {"conversation": about, "entries": shown, "sequence": sequence, "more": more}

    async def stop(self, session: ConsoleSession, id_: str) -> None:
        """Cancel the turn under way. Does nothing if there is none."""
        known = await self._find_to_change(session, id_)
        if known.node is not None:
            await self._operate(known, known.node, "stop")
        elif known.live is not None:
            known.live.stop_turn()

    async def park(self, session: ConsoleSession, id_: str) -> None:
        """Stop an idle agent."""
        known = await self._find_to_change(session, id_)
        if known.node is not None:
            await self._operate(known, known.node, "park")
        elif known.live is not None:
            if known.live.is_busy:
                raise _busy()
            known.live.park()

    async def delete(self, session: ConsoleSession, id_: str) -> None:
        """Delete what is stored of a conversation, with its stored responses. Decisions stay, without content."""
        known = await self._find_to_change(session, id_)
        if known.node is not None:
            await self._operate(known, known.node, "forget")
        elif known.live is not None:
            if known.live.is_busy:
                raise _busy()
            known.live.forget()
            if self._store is not None:
                # It is this process's while output waits for its client.
                await self._store.release(id_)
        if self._store is not None and known.info is not None and not await self._store.delete(id_):
            now = await self._store.find(id_)
            if now is not None:
                raise _elsewhere(now.owner) if self._is_foreign(now) else _busy()
        self._folded.pop(id_, None)

    # Inside.

    async def _all(self, scope: ConsoleScope) -> list[_Known]:
        live = {each.id: each for each in self._live()}
        stored = [] if self._store is None else await self._store.journals("agent", "chat")
        ids = {info.id for info in stored}
        known = [
            # Those that are under way here and not stored are listed as used now: their times are not known.
            *(_Known(each.id, each.connection, None, each) for each in live.values() if each.id not in ids),
            *(
                _Known(info.id, info.connection, info, live.get(info.id))
                for info in stored
                # The agent's conversation in a chat is shown with the chat.
                if info.parent is None
            ),
        ]
        return [each for each in known if scope.sees(each.connection)]

    async def _find(self, session: ConsoleSession, id_: str) -> _Known:
        info = None if self._store is None else await self._store.find(id_)
        live = next((each for each in self._live() if each.id == id_), None)
        if info is not None and info.kind not in ("agent", "chat"):
            info = None
        connection = info.connection if info is not None else live.connection if live is not None else None
        if connection is None or not session.scope.sees(connection):
            self._folded.pop(id_, None)
            raise ConsoleError(404, "not_found", "There is no such conversation, or it was deleted.")
        return _Known(id_, connection, info, live)

    async def _find_to_change(self, session: ConsoleSession, id_: str) -> _Known:
        """A conversation that this process may change, or that the node which has it does."""
        known = await self._find(session, id_)
        if self._others is None and known.info is not None and self._is_foreign(known.info):
            raise _elsewhere(known.info.owner)
        return replace(known, node=self._node_of(known))

    async def _operate(self, known: _Known, node: str, operation: Operation) -> None:
        """Let the node that has a conversation do something with it."""
        if self._others is None:
            raise AssertionError("without other nodes there is none that has it")
        try:
            state = await self._others.operate(node, known.id, operation)
        except NodeSilent as error:
            if error.is_gone and known.info is not None and not self._is_foreign(known.info):
                # Nobody holds the journal, and the agent has ended with its node.
                return
            raise ConsoleError(
                504, "node_silent", f"{node}, which has the conversation, does not answer. Try again."
            ) from error
        if state == "busy":
            raise _busy()

    async def _with_nodes(self, found: list[_Known]) -> list[_Known]:
        """With what other nodes of the fleet say of those that they have."""
        nodes = {each.id: node for each in found if (node := self._node_of(each)) is not None}
        if self._others is None or not nodes:
            return found
        there = await self._others.conversations(sorted(set(nodes.values())))
        return [
            self._told(each, node, there.get((node, each.id))) if (node := nodes.get(each.id)) else each
            for each in found
        ]

    def _told(self, known: _Known, node: str, there: NodeConversation | None) -> _Known:
        """With what its node says. One whose journal nobody holds is with a node only while its agent runs there."""
        is_there = there is not None and there.stage != "stored"
        is_held = known.info is not None and self._is_foreign(known.info)
        return replace(known, node=node, there=there) if is_there or is_held else known

    def _node_of(self, known: _Known) -> str | None:
        """The other node that has it, or that may have its agent."""
        if self._others is None or known.info is None or known.live is not None:
            return None
        node = known.info.owner or known.info.last_node
        return node if self._is_other(node) else None

    def _is_foreign(self, info: JournalInfo) -> bool:
        """Whether another process has it now."""
        return self._is_other(info.owner)

    def _is_other(self, owner: str) -> bool:
        own = ("", str(os.getpid()), *(() if self._others is None else (self._others.own_name,)))
        return owner not in own

    def _json(self, known: _Known, questions: int) -> JsonObject:
        info, live = known.info, known.live
        front_end = front_end_of(info) if info is not None else known.connection.partition(":")[0]
        # The program that began it, so that the name stays when the agent is parked.
        under_way = live or known.there
        program = (info.program if info is not None else "") or (under_way.program if under_way else "")
        now = self._now()
        return {
            "id": known.id,
            "model": info.model if info is not None else live.model if live else "",
            "title": "" if info is None else visible_line(info.title)[:_LONGEST_TITLE],
            "client": in_short(program, _LONGEST_NAME) or visible_line(front_end) or None,
            "key": self._key_names.get(known.connection),
            "folder": visible_line(info.workspace if info is not None else live.folder if live else "")
            or None,
            "started_at": now if info is None else info.started_at,
            "used_at": now if info is None else info.used_at,
            "sequence": 0 if info is None else info.sequence,
            "state": self._state(known),
            # The other machine of the fleet that has it.
            "node": None if known.node is None else visible_line(known.node)[:_LONGEST_NAME],
            "owner": (info.owner or None) if info is not None else str(os.getpid()),
            "questions": questions,
        }

    def _state(self, known: _Known) -> str:
        if known.there is not None:
            return known.there.stage
        if known.info is not None and self._is_foreign(known.info):
            return "elsewhere"
        return "stored" if known.live is None else known.live.stage

    async def _fold(self, store: JournalStore, info: JournalInfo) -> ChatFold:
        """The fold of a journal. It goes on from what is in memory."""
        fold = self._folded.pop(info.id, None)
        if fold is None or fold.sequence > info.sequence:
            fold = ChatFold()
        for entry in await store.read(info.id, fold.sequence):
            fold.apply(entry)
        self._folded[info.id] = fold
        while len(self._folded) > _MOST_FOLDED:
            self._folded.popitem(last=False)
        return fold

    async def _chat(self, store: JournalStore, info: JournalInfo) -> list[ChatEntry]:
        """A chat, with the permissions that its agents requested, in the order of time."""
        fold = ChatFold()
        for entry in await store.read(info.id):
            fold.apply(entry)
        entries = [*fold.entries.values()]
        for agent in await store.journals("agent"):
            if agent.parent == info.id:
                own = ChatFold(f"{agent.id} ")
                for entry in await store.read(agent.id):
                    own.apply(entry)
                entries += [each for each in own.entries.values() if each.role == "permission"]
        # Stable: entries of one moment stay in the order of their journal.
        return sorted(entries, key=lambda each: each.at)


def _fits(shown: JsonObject, known: _Known, wanted: ConversationFilter) -> bool:
    front_end = front_end_of(known.info) if known.info is not None else None
    used_at = shown["used_at"]
    return (
        wanted.model in (None, shown["model"])
        and wanted.client in (None, shown["client"], front_end)
        and wanted.state in (None, shown["state"])
        and (wanted.before is None or (isinstance(used_at, float) and used_at < wanted.before))
    )


def _busy() -> ConsoleError:
    return ConsoleError(409, "busy", "The conversation is under way. Stop it first.")


def _elsewhere(owner: str) -> ConsoleError:
    return ConsoleError(
        409, "elsewhere", f"Process {owner} has the conversation. Do it there, or when that has ended."
    )
