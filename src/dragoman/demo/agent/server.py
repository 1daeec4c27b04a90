"""The agent's side of ACP: a handler for each request. https://agentclientprotocol.com/protocol/overview

Each request is handled in its own task: a client may use one session while another answers. The messages of one request
stay in order, because its task writes the updates and then the response to the same stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeAlias

import msgspec

from dragoman import __version__
from dragoman.acp.messages import (
    PROTOCOL_VERSION,
    AgentCapabilities,
    AgentInfo,
    Initialized,
    PromptCapabilities,
    SessionCapabilities,
)
from dragoman.backends.scripted import Script
from dragoman.demo.agent.messages import (
    NO_SUCH_SESSION,
    InitializeParams,
    Prompted,
    RequestRefused,
    SessionNamed,
    SessionPlace,
    SetMode,
    SetOption,
    read,
)
from dragoman.demo.agent.model import PromptHandlers
from dragoman.demo.agent.prompt import read_prompt
from dragoman.demo.agent.session import DEFAULT_MODE, Session, Shared
from dragoman.demo.agent.store import SessionStore, StoredSession, new_id
from dragoman.demo.agent.tools import Toolbox
from dragoman.demo.agent.turn import take_turn
from dragoman.demo.pace import DEFAULT_PACE
from dragoman.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    Incoming,
    Notification,
    Peer,
)
from dragoman.lm import CancellationError, CancellationSource, until_cancelled

__all__ = ["AgentServer"]

_log = logging.getLogger(__name__)

_Handler: TypeAlias = Callable[[bytes], Coroutine[object, object, object]]

_INITIALIZED = Initialized(
    PROTOCOL_VERSION,
    AgentCapabilities(
        load_session=True,
        prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
        session_capabilities=SessionCapabilities(resume={}, fork={}, close={}, additional_directories={}),
    ),
    AgentInfo("dragoman-demo-agent", "Dragoman demo agent", __version__),
)
# How long turns may take to end when the client is gone. A command gets a second, and another after that.
_END_SECONDS = 5.0


class AgentServer:
    """One client, any number of sessions."""

    def __init__(
        self,
        script: Script,
        store: SessionStore,
        *,
        pace: str = DEFAULT_PACE,
        prompts: PromptHandlers = lambda _request: None,
    ) -> None:
        self._script = script
        self._prompts = prompts
        self._store = store
        self._pace = pace
        self._shared: Shared | None = None
        self._initialized = False
        self._sessions: dict[str, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Set when the client is gone.
        self.ended = asyncio.Event()
        self._methods: dict[str, _Handler] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/close": self._close,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }

    async def close(self) -> None:
        """End everything that was started for the client, and cancel running turns."""
        for session in self._sessions.values():
            session.cancel()
        if self._tasks:
            _, running = await asyncio.wait(self._tasks, timeout=_END_SECONDS)
            for task in running:
                task.cancel()
        await asyncio.gather(*(session.close() for session in self._sessions.values()))

    # As a receiver.

    def connected(self, peer: Peer) -> None:
        self._shared = Shared(peer, self._store, self._script, self._prompts)

    def notification(self, notification: Notification) -> None:
        if notification.method != "session/cancel":
            _log.debug("%s is not for us", notification.method)
            return
        try:
            session = self._sessions.get(read(notification.params, SessionNamed).session_id)
        except RequestRefused as refused:
            _log.warning("session/cancel: %s", refused.message)
            return
        if session is not None:
            session.cancel()

    def request(self, incoming: Incoming) -> None:
        handler = self._methods.get(incoming.method)
        if incoming.method == "session/prompt":
            self._prompt(incoming)
        elif handler is None:
            incoming.fail(METHOD_NOT_FOUND, f"There is no method {incoming.method}.")
        elif not self._initialized and incoming.method != "initialize":
            incoming.fail(INVALID_REQUEST, "Send `initialize` first.")
        else:
            self._answer(incoming, until_cancelled(handler(incoming.params), incoming.token))

    def closed(self, reason: str) -> None:
        _log.info("the client is gone: %s", reason)
        self.ended.set()

    # Answering.

    def _answer(self, incoming: Incoming, work: Coroutine[object, object, object]) -> None:
        """Reply with the result of `work`, in a task."""

        async def answered() -> None:
            try:
                incoming.reply(await work)
            except RequestRefused as refused:
                incoming.fail(refused.code, refused.message, refused.data)
            except CancellationError:
                incoming.fail(REQUEST_CANCELLED, f"{incoming.method} was cancelled.")
            except Exception as error:
                _log.exception("%s failed", incoming.method)
                incoming.fail(INTERNAL_ERROR, f"{incoming.method} failed: {type(error).__name__}: {error}")

        task = asyncio.create_task(answered())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _prompt(self, incoming: Incoming) -> None:
        """Begin a turn at once: a cancel that is next in the stream must find it."""
        try:
            request = read(incoming.params, Prompted)
            session = self._idle(request.session_id)
            prompt = read_prompt(request.prompt)
        except RequestRefused as refused:
            incoming.fail(refused.code, refused.message, refused.data)
            return
        source = session.turn = CancellationSource()
        # A client that withdraws the request cancels the turn, and gets its stop reason.
        incoming.token.on_cancel(source.cancel)

        async def turn() -> object:
            try:
                return await take_turn(session, prompt, source)
            finally:
                session.turn = None

        self._answer(incoming, turn())

    async def _initialize(self, params: bytes) -> object:
        # "If the Agent supports the requested version, it MUST respond with the same version. Otherwise, […] with the
        # latest version it supports": either way it is this one.
        read(params, InitializeParams)
        self._initialized = True
        return _INITIALIZED

    async def _new(self, params: bytes) -> object:
        place = read(params, SessionPlace)
        saved = StoredSession(id=new_id(), mode=DEFAULT_MODE, pace=self._pace)
        session = await self._open(saved, place)
        return session.created(named=True)

    async def _load(self, params: bytes) -> object:
        session = await self._take_up(read(params, SessionPlace))
        session.send_history()
        return session.created()

    async def _resume(self, params: bytes) -> object:
        session = await self._take_up(read(params, SessionPlace))
        return session.created()

    async def _fork(self, params: bytes) -> object:
        place = read(params, SessionPlace)
        saved = msgspec.structs.replace(self._saved(place.session_id), id=new_id())
        session = await self._open(saved, place)
        return session.created(named=True)

    async def _close(self, params: bytes) -> object:
        session = self._session(read(params, SessionNamed).session_id)
        del self._sessions[session.id]
        session.cancel()
        await session.close()
        return {}

    async def _set_mode(self, params: bytes) -> object:
        request = read(params, SetMode)
        self._session(request.session_id).set_mode(request.mode_id)
        return {}

    async def _set_option(self, params: bytes) -> object:
        request = read(params, SetOption)
        session = self._session(request.session_id)
        session.set_option(request.config_id, request.value)
        return {"configOptions": session.options}

    # Sessions.

    def _session(self, name: str) -> Session:
        session = self._sessions.get(name)
        if session is None:
            raise RequestRefused(
                NO_SUCH_SESSION, f"There is no session {name!r}; load or resume it, or make a new one."
            )
        return session

    def _idle(self, name: str) -> Session:
        session = self._session(name)
        if session.turn is not None:
            raise RequestRefused(
                INVALID_REQUEST, "A turn of this session is under way; wait for it, or cancel it."
            )
        return session

    def _saved(self, name: str) -> StoredSession:
        saved = self._sessions[name].saved if name in self._sessions else self._store.load(name)
        if saved is None:
            raise RequestRefused(NO_SUCH_SESSION, f"There is no session {name!r}.")
        return saved

    async def _take_up(self, place: SessionPlace) -> Session:
        """Open a stored session, with the tools that are offered now."""
        saved = self._saved(place.session_id)
        if saved.id in self._sessions:
            await self._sessions.pop(self._idle(saved.id).id).close()
        return await self._open(saved, place)

    async def _open(self, saved: StoredSession, place: SessionPlace) -> Session:
        folders = tuple(map(Path, (place.cwd, *place.additional_directories)))
        toolbox = Toolbox(saved.id, folders)
        if self._shared is None:
            raise AssertionError("not connected")
        try:
            await toolbox.connect(place.servers)
        except BaseException:
            await toolbox.close()
            raise
        session = self._sessions[saved.id] = Session(saved, toolbox, self._shared)
        session.save()
        return session
