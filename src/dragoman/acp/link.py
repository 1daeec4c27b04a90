"""A connection to a running agent: requests out, updates in, errors with messages that say what to do.

It knows ACP's methods and nothing of conversations. Updates and permission requests go to the listener of their
session, in the order of the wire, together with the ends of turns: a turn's end never overtakes its updates.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from dragoman import __version__
from dragoman.acp.content import ContentBlock
from dragoman.acp.messages import (
    PROTOCOL_VERSION,
    AuthMethod,
    FileRequest,
    HttpServer,
    Initialized,
    PermissionRequest,
    PromptResponse,
    SessionCreated,
    SessionUpdate,
    StdioServer,
    decode_file_request,
    decode_permission,
    decode_update,
    decode_words,
)
from dragoman.acp.words import as_sentence, is_rate_limit, words_of
from dragoman.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ConnectionClosed,
    Decoder,
    ErrorResponse,
    Incoming,
    Notification,
    Peer,
    RemoteError,
    RpcReply,
    RpcResponse,
)
from dragoman.lm import ErrorKind, JsonObject, LanguageModelError
from dragoman.lm.errors import ASK_OPERATOR

__all__ = ["AgentLink", "SessionListener", "ToolServerAddress", "TurnEnd"]

_log = logging.getLogger(__name__)

ToolServerAddress: TypeAlias = HttpServer | StdioServer
TurnEnd: TypeAlias = PromptResponse | LanguageModelError

_Answer = TypeVar("_Answer")

# What failed, by the method that the agent answered with an error.
_FAILED = {
    "initialize": "could not start",
    "session/new": "could not begin a conversation",
    "session/resume": "could not take the conversation up again",
    "session/load": "could not take the conversation up again",
    "session/prompt": "could not answer",
}
_FAILED_OTHERWISE = "could not do what it was asked to"
# How much output of a command that does not speak ACP is stored: enough to recognise it.
_PRINTED_BYTES = 600
# ACP's own code for a login that is needed. JSON-RPC leaves it to servers, and agents use it for other errors as well.
_AUTH_REQUIRED = -32000
_LATER = "Wait until the limit of the account ends, or use another model."
# The buffer for updates of a session whose `session/new` has not been answered yet: agents send a few. More is a bug.
_EARLY_BYTES = 1024 * 1024


class SessionListener(Protocol):
    """Receives the updates and requests of a session. No method may block."""

    def on_update(self, update: SessionUpdate) -> None: ...

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None: ...

    def on_file(self, request: FileRequest, incoming: Incoming) -> None: ...


class AgentLink:
    """The ACP client of one agent, as a receiver of its connection. `on_closed` is called once, when that has ended.

    `command` is the command it was started with: error messages show it, so that the user can run it.
    """

    def __init__(self, name: str, command: Sequence[str], on_closed: Callable[[str], None]) -> None:
        self._name = name
        self._words = tuple(command)
        self.command = shlex.join(command)
        self._on_closed = on_closed
        self._peer: Peer | None = None
        self._listeners: dict[str, SessionListener] = {}
        # How many sessions are being created, and the updates of unknown sessions that arrived meanwhile.
        self._nameless = 0
        self._early: list[SessionUpdate] = []
        self._early_bytes = 0
        # Whether the agent is offered file access.
        self.offers_files = False
        self.info = Initialized(PROTOCOL_VERSION)
        self.is_introduced = False
        # A prompt was sent to it, or a session was resumed: what it prints may contain the user's messages.
        self.knows_words = False
        # What it printed before `initialize` was answered, and is no message.
        self.printed = b""

    # As a receiver.

    def connected(self, peer: Peer) -> None:
        self._peer = peer

    def take_line(self, line: bytes) -> bool:
        """Pass a chunk to the listener of its session, without the general decoder: most lines are chunks."""
        update = decode_words(line)
        listener = self._listeners.get(update.session_id) if update is not None else None
        if update is None or listener is None:
            if not (self.is_introduced or line.startswith(b"{")):
                self.printed = (self.printed + line + b"\n")[:_PRINTED_BYTES]
            return False
        listener.on_update(update)
        return True

    def notification(self, notification: Notification) -> None:
        if notification.method != "session/update":
            _log.debug("%s: %s is not for us", self._name, notification.method)
            return
        try:
            update = decode_update(notification.params)
        except msgspec.MsgspecError as error:
            _log.warning("%s: an update could not be read: %s", self._name, error)
            return
        listener = self._listeners.get(update.session_id)
        if listener is not None:
            listener.on_update(update)
        elif self._nameless and self._early_bytes + len(notification.params) <= _EARLY_BYTES:
            self._early_bytes += len(notification.params)
            self._early.append(update)

    def request(self, incoming: Incoming) -> None:
        if incoming.method != "session/request_permission":
            self._file_request(incoming)
            return
        try:
            request = decode_permission(incoming.params)
        except msgspec.MsgspecError as error:
            incoming.fail(INVALID_PARAMS, f"This permission request cannot be read: {error}")
            return
        listener = self._listeners.get(request.session_id)
        if listener is None:
            # Of a session that has been closed: no person can be asked any more.
            incoming.reply({"outcome": {"outcome": "cancelled"}})
        else:
            listener.on_permission(request, incoming)

    def _file_request(self, incoming: Incoming) -> None:
        try:
            request = decode_file_request(incoming.method, incoming.params) if self.offers_files else None
        except msgspec.MsgspecError as error:
            incoming.fail(INVALID_PARAMS, f"This request cannot be read: {error}")
            return
        if request is None:
            incoming.fail(METHOD_NOT_FOUND, f"{incoming.method} is not offered")
            return
        listener = self._listeners.get(request.session_id)
        if listener is None:
            incoming.fail(INVALID_PARAMS, "There is no such session")
        else:
            listener.on_file(request, incoming)

    def closed(self, reason: str) -> None:
        self._on_closed(reason)

    # Sessions.

    async def initialize(self, *, files: bool = False) -> Initialized:
        """Send `initialize`. `files`: whether the agent may read and write text files through us."""
        self.offers_files = files
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": files, "writeTextFile": files},
                "terminal": False,
                # A person can log in in a terminal: the second is the older form, which most agents read.
                "auth": {"terminal": True},
                "_meta": {"terminal-auth": True},
            },
            "clientInfo": {"name": "dragoman", "title": "Dragoman", "version": __version__},
        }
        try:
            self.info = await self._ask("initialize", params, Initialized)
        except LanguageModelError as error:
            if isinstance(error.__cause__, ConnectionClosed):
                # It may have stopped reading before its output has arrived.
                await self._connection.wait_closed()
            raise
        self.is_introduced = True
        if self.info.protocol_version != PROTOCOL_VERSION:
            raise LanguageModelError(
                "agent_failed",
                f"{self._name} speaks version {self.info.protocol_version} of ACP; this program speaks {PROTOCOL_VERSION}.",
                hint="Install a version of the agent that speaks it.",
            )
        return self.info

    async def authenticate(self, method: str) -> None:
        """Log in by one of the agent's own methods. It may take as long as the agent takes for it."""
        known = {each.id: each for each in self.info.auth_methods}
        if method not in known:
            named = " ".join(", ".join(f'"{each}"' for each in known).split())
            raise self._error(
                "bad_request",
                f'has no way to log in that is called "{method}"',
                f"Set `auth` of this model to one of {named}."
                if named
                else f"It names none: log in with the agent's own program, and leave `auth` out. {self._started_as}",
            )
        if known[method].needs_terminal:
            raise self._error(
                "auth_required",
                f'needs a terminal to log in with "{method}"',
                f"Log in there with the agent's own program, then try again. {self._started_as}",
            )
        try:
            await self._ask("authenticate", {"methodId": method}, dict)
        except LanguageModelError as error:
            cause = error.__cause__
            said = words_of(cause) if isinstance(cause, RemoteError) else error.message
            raise self._error(
                "auth_required", f'could not log in with "{method}": {said}', self._how_to_log_in()
            ) from error

    async def new_session(
        self, workspace: tuple[str, ...], servers: Iterable[ToolServerAddress], listener: SessionListener
    ) -> SessionCreated:
        self._nameless += 1
        try:
            created = await self._ask("session/new", self._place(workspace, servers), SessionCreated)
            self.attach(created.session_id, listener)
        finally:
            self._nameless -= 1
            if not self._nameless:
                self._early.clear()
                self._early_bytes = 0
        return created

    async def resume_session(
        self,
        session: str,
        workspace: tuple[str, ...],
        servers: Iterable[ToolServerAddress],
        on_answer: Callable[[], object] | None = None,
    ) -> SessionCreated:
        """Resume a session. The agent does not send its history."""
        self.knows_words = True
        params = {"sessionId": session, **self._place(workspace, servers)}
        return await self._ask("session/resume", params, SessionCreated, on_answer)

    async def load_session(
        self,
        session: str,
        workspace: tuple[str, ...],
        servers: Iterable[ToolServerAddress],
        on_answer: Callable[[], object] | None = None,
    ) -> SessionCreated:
        """Load a session. The agent sends its history as updates, and should finish before it answers."""
        self.knows_words = True
        params = {"sessionId": session, **self._place(workspace, servers)}
        return await self._ask("session/load", params, SessionCreated, on_answer)

    def attach(self, session: str, listener: SessionListener) -> None:
        """Set the listener of a session. It first gets the updates that arrived before the session's id was known."""
        self._listeners[session] = listener
        early, self._early = self._early, []
        for update in early:
            if update.session_id == session:
                listener.on_update(update)
            else:
                self._early.append(update)

    def detach(self, session: str) -> None:
        self._listeners.pop(session, None)

    async def set_mode(self, session: str, mode: str) -> None:
        await self._ask("session/set_mode", {"sessionId": session, "modeId": mode}, dict)

    async def set_option(self, session: str, option: str, value: object) -> JsonObject:
        """Set an option. The answer has all options of the session with their values, as the agent reports them."""
        params: JsonObject = {"sessionId": session, "configId": option, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"
        answer: JsonObject = await self._ask("session/set_config_option", params, dict)
        return answer

    def prompt(
        self, session: str, blocks: tuple[ContentBlock, ...], on_end: Callable[[TurnEnd], None]
    ) -> None:
        """Begin a turn. `on_end` is called in the order of the wire, after all updates of the turn.

        It is not called for a turn that the end of the connection cuts off: then `on_closed` is.
        """

        def on_reply(reply: RpcReply) -> None:
            if not isinstance(reply, ConnectionClosed):
                on_end(self._turn_end(reply))

        self.knows_words = True
        try:
            self._connection.call("session/prompt", {"sessionId": session, "prompt": blocks}, on_reply)
        except ConnectionClosed as closed:
            _log.debug("%s: gone before it could be prompted: %s", self._name, closed.reason)

    def steer(
        self, session: str, blocks: tuple[ContentBlock, ...], on_outcome: Callable[[bool], None]
    ) -> None:
        """Send a message into the turn that runs. `on_outcome` gets whether the agent took it, in the order of the wire.

        ACP has no method for it yet; this one is an extension, declared as `_meta.steering`. An agent whose turn has just
        ended is asked not to begin another one: we would not receive its end.
        """
        params: JsonObject = {
            "sessionId": session,
            "prompt": blocks,
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }

        def on_reply(reply: RpcReply) -> None:
            if not isinstance(reply, ConnectionClosed):
                on_outcome(isinstance(reply, RpcResponse) and _was_taken(reply.result))

        try:
            self._connection.call("_session/steering", params, on_reply)
        except ConnectionClosed as closed:
            _log.debug("%s: gone before it could be steered: %s", self._name, closed.reason)

    def cancel(self, session: str) -> None:
        try:
            self._connection.notify("session/cancel", {"sessionId": session})
        except ConnectionClosed as closed:
            _log.debug("%s: gone before it could be cancelled: %s", self._name, closed.reason)

    async def close_session(self, session: str) -> None:
        self.detach(session)
        if self.info.agent_capabilities.session_capabilities.close is not None:
            await self._ask("session/close", {"sessionId": session}, dict)

    @property
    def _connection(self) -> Peer:
        if self._peer is None:
            raise AssertionError("not connected")
        return self._peer

    def _place(self, workspace: tuple[str, ...], servers: Iterable[ToolServerAddress]) -> JsonObject:
        """The folders and tool servers of a session. Additional folders only for an agent that supports them."""
        first, *others = workspace
        place: JsonObject = {"cwd": first, "mcpServers": tuple(servers)}
        if others and self.info.agent_capabilities.session_capabilities.additional_directories is not None:
            place["additionalDirectories"] = others
        return place

    async def _ask(
        self,
        method: str,
        params: Mapping[str, object],
        kind: type[_Answer],
        on_answer: Callable[[], object] | None = None,
    ) -> _Answer:
        """Send a request. `on_answer` is called in the order of the wire, before any message after the answer."""
        try:
            result = await self._connection.request(method, params, on_answer)
            # Some agents send null for an empty result.
            return Decoder(kind).decode(b"{}" if result in (b"", b"null") else result)
        except (RemoteError, ConnectionClosed) as error:
            raise self._failure(error, method) from error
        except msgspec.DecodeError as error:
            raise self._error(
                "agent_failed", f"{_failed(method)}: its answer cannot be read: {error}", self.next_step
            ) from error

    def _turn_end(self, reply: RpcResponse | ErrorResponse) -> TurnEnd:
        match reply:
            case RpcResponse(result=result):
                try:
                    return _prompt_response.decode(result)
                except msgspec.DecodeError:
                    # The turn is over anyway.
                    return PromptResponse("end_turn")
            case ErrorResponse(error=error):
                return self._failure(RemoteError(error), "session/prompt")

    def _failure(self, error: RemoteError | ConnectionClosed, method: str) -> LanguageModelError:
        if isinstance(error, ConnectionClosed):
            return self._error("agent_failed", f"ended: {error.reason}", self.next_step)
        said = words_of(error)
        if is_rate_limit(error):
            return self._error("rate_limited", f"{_failed(method)}: {said}", _LATER)
        if error.code == _AUTH_REQUIRED and self.info.auth_methods:
            return self._error("auth_required", f"requires a login: {said}", self._how_to_log_in())
        return self._error("agent_failed", f"{_failed(method)}: {said}", self.next_step)

    def _error(self, kind: ErrorKind, what: str, hint: str) -> LanguageModelError:
        """Return an error whose hint has the command. That may contain secrets, so not every consumer gets it."""
        message = as_sentence(f"{self._name} {what}")
        return LanguageModelError(kind, message, hint=hint, public=f"{message} {ASK_OPERATOR}")

    @property
    def next_step(self) -> str:
        return f"Try again; if it stays so, start it by hand and see what it says: {self.command}"

    @property
    def _started_as(self) -> str:
        return f"It is started as: {self.command}"

    def _how_to_log_in(self) -> str:
        """One way on each line."""
        methods = self.info.auth_methods
        logins = [login for each in methods if (login := each.terminal_login(self._words)) is not None]
        own = (
            f"Log in in a terminal, then try again: {shlex.join(logins[0][0])}"
            if logins
            else f"Log in with the agent's own program, then try again. {self._started_as}"
        )
        return "\n".join((own, *(_way(each) for each in methods if not each.needs_terminal)))


class _Outcome(msgspec.Struct, frozen=True):
    outcome: str = ""


_prompt_response = Decoder(PromptResponse)
_outcome = Decoder(_Outcome)


def _was_taken(result: bytes) -> bool:
    try:
        # The second: the agent began a new turn with the message.
        return _outcome.decode(result).outcome in ("injected", "startedNewTurn")
    except msgspec.DecodeError:
        return False


def _way(method: AuthMethod) -> str:
    about = f" ({method.description.rstrip('.')})" if method.description else ""
    way = f'Or set `auth = "{method.id}"` of this model, and the agent is asked to do it: {method.name or method.id}{about}.'
    # On one line, whatever the agent writes into its names: each line of a hint is one step.
    return " ".join(way.split())


def _failed(method: str) -> str:
    return _FAILED.get(method, _FAILED_OTHERWISE)
