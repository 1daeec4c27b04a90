"""The stored conversations, for the editor: list, show, continue and delete.

The editor sees the conversations of its folders, and no other. To continue one, the editor gets its messages with
our marker, and sends them as the history of its next request: the marker says which conversation it is. An agent keeps its
memory if the conversation was this editor's; any other goes on in a new conversation, with what was said as a transcript.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dragoman.frontends.vscode.conversation_changes import ConversationChanges
from dragoman.frontends.vscode.conversation_page import NOT_STORED, messages_of, page_of
from dragoman.frontends.vscode.protocol import AskConversation, decoded
from dragoman.journal.chat_fold import fold_chat
from dragoman.journal.clients import client_of
from dragoman.journal.events import JournalEntry, UnreadableJournal
from dragoman.journal.finding import NotFound, find_by_id
from dragoman.journal.fold import ConversationFold
from dragoman.journal.store import JournalInfo, JournalStore, JournalStoreError
from dragoman.jsonrpc import Incoming
from dragoman.lm import Consumer, JsonObject, LanguageModelError
from dragoman.models import AgentSource, LiveConversation

__all__ = ["ConversationHandlers"]

# In one list. More is not looked through by hand; `dragoman conversations` has them all.
_MOST_LISTED = 500


class ConversationHandlers:
    def __init__(
        self, models: AgentSource, consumer: Callable[[], Consumer], on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called when the list has changed since the editor read it."""
        self._models = models
        self._consumer = consumer
        self._changes = ConversationChanges(models, on_change)

    def close(self) -> None:
        self._changes.close()

    @property
    def rows(self) -> dict[str, Callable[[Incoming], Awaitable[object]]]:
        return {
            "conversations/list": self._list,
            "conversations/show": self._show,
            "conversations/messages": self._messages,
            "conversations/delete": self._delete,
        }

    async def _list(self, _incoming: Incoming) -> object:
        store = self._models.journals.store
        if store is None:
            return {"conversations": [], "notice": "Conversations are not stored (`[journal]`)."}
        try:
            await self._changes.watch(store)
            stored = await self._of_the_folders(store)
        except JournalStoreError as error:
            raise _unusable(error) from error
        names = {info.id: info.name for info in self._models.infos()}
        live = {each.id: each for each in self._models.conversations()}
        found = [
            self._row(info, names.get(info.model, info.model), live.get(info.id))
            for info in stored
            if info.parent is None
        ]
        return {"conversations": found[:_MOST_LISTED]}

    def _row(self, info: JournalInfo, agent: str, live: LiveConversation | None) -> JsonObject:
        return {
            "id": info.id,
            "title": info.title,
            "modelId": info.model,
            "agent": agent,
            "client": client_of(info),
            "folder": info.workspace,
            "startedAt": info.started_at,
            "usedAt": info.used_at,
            "state": live.stage if live is not None else "elsewhere" if info.owner else "stored",
            "keepsMemory": self._keeps_memory(info),
        }

    def _keeps_memory(self, info: JournalInfo) -> bool:
        """Whether a request of this editor is recognised as its next one."""
        consumer = self._consumer()
        # `folders` may have changed: a conversation is of all of them.
        return info.connection == consumer.connection and info.workspace in consumer.workspace_folders[:1]

    async def _show(self, incoming: Incoming) -> object:
        store, info = await self._found(decoded(incoming.params, AskConversation).id)
        names = {each.id: each.name for each in self._models.infos()}
        text = page_of(
            info, names.get(info.model, info.model), client_of(info), await self._entries(store, info)
        )
        return {"title": info.title or info.id, "text": text}

    async def _messages(self, incoming: Incoming) -> object:
        store, info = await self._found(decoded(incoming.params, AskConversation).id)
        entries = await self._entries(store, info)
        model_id = info.model if info.kind == "agent" else fold_chat(each.event for each in entries).model
        model = self._models.conversing(model_id)
        marker = None
        if info.kind == "agent" and model is not None and self._keeps_memory(info):
            fold = ConversationFold(info.id).apply_all(entry.event for entry in entries)
            if (last := fold.record.last) is not None:
                marker = model.marker(info.id, last.turn, last.number)
        messages = messages_of(entries, marker)
        if not any(message.text for message in messages) and marker is None:
            raise LanguageModelError(
                "bad_request",
                f"Conversation {info.id} cannot be continued. {NOT_STORED}",
                hint="Begin another one.",
            )
        return {
            "modelId": model_id,
            "title": info.title or info.id,
            "messages": messages,
            "keepsMemory": marker is not None,
        }

    async def _delete(self, incoming: Incoming) -> object:
        """Delete what is stored, as the console does. Decisions stay, without content."""
        store, info = await self._found(decoded(incoming.params, AskConversation).id)
        live = next((each for each in self._models.conversations() if each.id == info.id), None)
        if live is not None:
            if live.is_busy:
                raise _under_way(info)
            live.forget()
            # It is this process's while output waits for its client.
            await store.release(info.id)
        if not await store.delete(info.id) and await store.find(info.id) is not None:
            raise _under_way(info)
        self._changes.note()
        return {}

    async def _of_the_folders(self, store: JournalStore) -> list[JournalInfo]:
        folders = self._consumer().workspace_folders
        return [info for info in await store.journals("agent", "chat") if info.workspace in folders]

    async def _found(self, id_: str) -> tuple[JournalStore, JournalInfo]:
        store = self._models.journals.store
        try:
            known = [] if store is None else await self._of_the_folders(store)
            info = find_by_id(known, id_)
        except NotFound as error:
            raise LanguageModelError("not_found", str(error)) from error
        except JournalStoreError as error:
            raise _unusable(error) from error
        if store is None:
            raise AssertionError("found in no store")
        return store, info

    async def _entries(self, store: JournalStore, info: JournalInfo) -> list[JournalEntry]:
        try:
            return await store.read(info.id)
        except (UnreadableJournal, JournalStoreError) as error:
            raise _unusable(error) from error


def _under_way(info: JournalInfo) -> LanguageModelError:
    return LanguageModelError(
        "bad_request", f"Conversation {info.id} is under way.", hint="Try again when it has ended."
    )


def _unusable(error: Exception) -> LanguageModelError:
    return LanguageModelError("unavailable", f"The stored conversations cannot be read: {error}")
