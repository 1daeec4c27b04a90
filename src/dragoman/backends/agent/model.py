"""An ACP agent as a language model.

Every request is identified, and goes to its conversation; a new one is begun where it has none. Side requests (a title,
a commit message) are answered apart, and not remembered.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import secrets
from contextlib import suppress
from datetime import UTC, datetime

from dragoman.backends.agent.aside import Aside
from dragoman.backends.agent.conversation import Conversation, Surroundings
from dragoman.backends.agent.grants import Grants
from dragoman.backends.agent.history import Said
from dragoman.backends.agent.identify import Identified, Knowledge, identify
from dragoman.backends.agent.records import Record, Records, Scope
from dragoman.backends.agent.saving import SavedConversation, SavedError, load_conversation, save_conversation
from dragoman.backends.agent.settings import AgentSettings
from dragoman.backends.agent.tokens import KEY_BYTES, Tokens
from dragoman.backends.agent.toolserver import ToolServer
from dragoman.clock import Clock, SystemClock
from dragoman.lm import (
    CancellationError,
    CancellationToken,
    LanguageModelError,
    Message,
    ModelInfo,
    Request,
    Sink,
    estimate_tokens,
    until_cancelled,
)
from dragoman.lm.json import encode
from dragoman.store import ConversationStore, StoredConversation, StoreError

__all__ = ["AgentModel"]

_log = logging.getLogger(__name__)

# Of a conversation's first words, for a list.
_TITLE_CHARACTERS = 120


class AgentModel:
    def __init__(
        self,
        info: ModelInfo,
        settings: AgentSettings,
        *,
        store: ConversationStore | None = None,
        grants: Grants | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._info = info
        self._settings = settings
        self._clock = clock or SystemClock()
        self._server = ToolServer(self._clock)
        self._starting: asyncio.Task[None] | None = None
        self._store = store
        self._tokens = Tokens(store.key() if store is not None else secrets.token_bytes(KEY_BYTES))
        self.grants = grants if grants is not None else Grants()
        self._records = Records()
        self._conversations: dict[str, Conversation] = {}
        # Those that another process began, until they are asked for.
        self._saved = self._recall()
        # Side requests under way.
        self._asides: set[asyncio.Task[None]] = set()

    @property
    def info(self) -> ModelInfo:
        return self._info

    def count_tokens(self, text: str | Message) -> int:
        return estimate_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        await self._start_server()
        digest = _digest(request)
        scope = self._scope(request)
        consumer_id = request.options.model_options.get("_conversationId")
        known = Knowledge(
            self._records,
            self._tokens,
            scope,
            digest,
            self._clock.now(),
            self._settings.timing.retry,
            consumer_id if isinstance(consumer_id, str) else None,
        )
        found = identify(request, known)
        _log.debug("%s by %s: %s", found.kind, found.evidence, found.reason)
        if found.foreign:
            _log.warning("ignored, because they are not ours: %s", ", ".join(found.foreign))
        if found.kind == "aside":
            await self._aside(request, scope, sink, token)
            return
        conversation = self._conversation(found, known)
        await conversation.respond(request, found, digest, sink, token)

    def _scope(self, request: Request) -> Scope:
        folders = request.consumer.workspace_folders or (str(self._settings.cwd),)
        return Scope(self._info.id, folders, request.consumer.connection)

    def _conversation(self, found: Identified, known: Knowledge) -> Conversation:
        if found.kind not in ("fresh", "fork") and found.conversation in self._conversations:
            return self._conversations[found.conversation]
        saved = (
            self._saved.pop(found.conversation or "", None) if found.kind not in ("fresh", "fork") else None
        )
        if saved is not None:
            record, session, calls = saved.record, saved.session, saved.calls
        else:
            record, session, calls = Record(_new_id(), known.scope, consumer_id=known.consumer_id), None, 0
        conversation = Conversation(
            record, known.scope.workspace, self._around(self._records), session=session, calls=calls
        )
        self._conversations[record.id] = conversation
        return conversation

    def _recall(self) -> dict[str, SavedConversation]:
        """What earlier processes kept of this model's conversations: from here on they are recognised again."""
        found: dict[str, SavedConversation] = {}
        for kept in self._store.of_model(self._info.id) if self._store is not None else ():
            try:
                found[kept.id] = load_conversation(kept.content)
            except SavedError as error:
                _log.warning("conversation %s cannot be taken up again: %s", kept.id, error)
            else:
                self._records.put(found[kept.id].record)
        return found

    def _save(self, record: Record, session: str | None, calls: int) -> None:
        if self._store is None:
            return
        title = next((item.text for item in record.items if isinstance(item, Said)), "")
        try:
            self._store.save(
                StoredConversation(
                    record.id,
                    record.scope.model,
                    title[:_TITLE_CHARACTERS],
                    record.scope.workspace[0],
                    "",
                    datetime.now(UTC),
                    save_conversation(record, session, calls),
                )
            )
        except StoreError as error:
            # It goes on all the same, as long as we do.
            _log.warning("this conversation will not survive a restart: %s", error)

    async def _aside(self, request: Request, scope: Scope, sink: Sink, token: CancellationToken) -> None:
        """Whoever cancels does not wait until the agent has stopped; `close` does."""
        task = asyncio.create_task(self._answer_aside(request, scope.workspace, sink))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
        try:
            await until_cancelled(asyncio.shield(task), token)
        except CancellationError:
            # What was said stays said; nothing more is.
            return
        finally:
            task.cancel()

    async def _answer_aside(self, request: Request, workspace: tuple[str, ...], sink: Sink) -> None:
        aside = Aside(self._settings, self._clock, request, sink)
        lent = (each.lendable for each in self._conversations.values() if each.workspace == workspace)
        agent = next((agent for agent in lent if agent is not None), None)
        if agent is not None:
            try:
                await aside.borrow(agent, workspace)
            except LanguageModelError as error:
                if aside.has_spoken:
                    raise
                _log.info("a side request had no luck with a borrowed agent: %s", error.sentence)
            else:
                return
        await aside.start(workspace)

    def _around(self, records: Records) -> Surroundings:
        return Surroundings(
            self._settings, self._server, self._tokens, self.grants, records, self._clock, self._save
        )

    async def _start_server(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._server.start())
        await asyncio.shield(self._starting)

    async def close(self) -> None:
        """End every agent. Nothing that was started here is left."""
        for task in self._asides:
            task.cancel()
        if self._asides:
            await asyncio.wait(self._asides)
        await asyncio.gather(*(conversation.close() for conversation in self._conversations.values()))
        self._conversations.clear()
        if self._starting is not None:
            with suppress(Exception):
                await self._starting
                await self._server.close()


def _new_id() -> str:
    return base64.b32encode(secrets.token_bytes(10)).decode().lower()


def _digest(request: Request) -> bytes:
    """Of all that makes two requests the same: what is said and what may be called."""
    return hashlib.blake2b(encode((request.messages, request.options)), digest_size=16).digest()
