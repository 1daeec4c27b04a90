"""An ACP agent as a language model.

Every request is identified, and goes to its conversation; a new one is begun where it has none. Side requests (a title,
a commit message) get a short conversation of their own that is not remembered.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import secrets
from contextlib import suppress

from dragoman.backends.agent.conversation import Conversation, Surroundings
from dragoman.backends.agent.grants import Grants
from dragoman.backends.agent.identify import Identified, Knowledge, identify
from dragoman.backends.agent.records import Record, Records, Scope
from dragoman.backends.agent.settings import AgentSettings
from dragoman.backends.agent.tokens import KEY_BYTES, Tokens
from dragoman.backends.agent.toolserver import ToolServer
from dragoman.clock import Clock, SystemClock
from dragoman.lm import (
    CancellationToken,
    Message,
    ModelInfo,
    Request,
    Sink,
    estimate_tokens,
)
from dragoman.lm.json import encode

__all__ = ["AgentModel"]

_log = logging.getLogger(__name__)


class AgentModel:
    def __init__(
        self,
        info: ModelInfo,
        settings: AgentSettings,
        *,
        key: bytes | None = None,
        grants: Grants | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._info = info
        self._settings = settings
        self._clock = clock or SystemClock()
        self._server = ToolServer(self._clock)
        self._starting: asyncio.Task[None] | None = None
        self._tokens = Tokens(key or secrets.token_bytes(KEY_BYTES))
        self.grants = grants if grants is not None else Grants()
        self._records = Records()
        self._conversations: dict[str, Conversation] = {}

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
            await self._aside(request, found, digest, scope, sink, token)
            return
        conversation = self._conversation(found, known)
        await conversation.respond(request, found, digest, sink, token)

    def _scope(self, request: Request) -> Scope:
        folders = request.consumer.workspace_folders or (str(self._settings.cwd),)
        return Scope(self._info.id, folders, request.consumer.connection)

    def _conversation(self, found: Identified, known: Knowledge) -> Conversation:
        if found.kind not in ("fresh", "fork") and found.conversation in self._conversations:
            return self._conversations[found.conversation]
        record = Record(_new_id(), known.scope, consumer_id=known.consumer_id)
        conversation = Conversation(record, known.scope.workspace, self._around(self._records))
        self._conversations[record.id] = conversation
        return conversation

    async def _aside(
        self,
        request: Request,
        found: Identified,
        digest: bytes,
        scope: Scope,
        sink: Sink,
        token: CancellationToken,
    ) -> None:
        conversation = Conversation(Record(_new_id(), scope), scope.workspace, self._around(Records()))
        try:
            await conversation.respond(request, found, digest, sink, token)
        finally:
            await conversation.close()

    def _around(self, records: Records) -> Surroundings:
        return Surroundings(self._settings, self._server, self._tokens, self.grants, records, self._clock)

    async def _start_server(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._server.start())
        await asyncio.shield(self._starting)

    async def close(self) -> None:
        """End every agent. Nothing that was started here is left."""
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
