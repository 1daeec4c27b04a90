"""`dragoman vscode`: the front end of the extension, on standard input and output.

Requests are served concurrently. Each has its own state, and settles exactly once. The parts of a response are sent as
they come, before its result. The extension shows dialogs and sends requests; this server makes every decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman import __version__
from dragoman.edits.log import EditLog
from dragoman.frontends.rule_offers import CannotAddRule, RuleOffer, RuleOffers
from dragoman.frontends.side_requests import is_side_request
from dragoman.frontends.vscode.agent_handlers import AgentHandlers
from dragoman.frontends.vscode.conversation_handlers import ConversationHandlers
from dragoman.frontends.vscode.edit_methods import EditMethods, edits_news
from dragoman.frontends.vscode.editor_requests import EditorFiles
from dragoman.frontends.vscode.editor_terminals import EditorTerminals
from dragoman.frontends.vscode.log import set_level
from dragoman.frontends.vscode.protocol import (
    ACTIVITY_OPTION,
    EDITS,
    NOT_INITIALIZED,
    PROTOCOL_VERSION,
    REQUEST_FAILED,
    AddRule,
    AllowRecent,
    ChangeFolders,
    ChangeSettings,
    CountTokens,
    EditorFeatures,
    Initialize,
    ModelList,
    ShowQuestion,
    StopTerminal,
    ToolInput,
    decode_chat_request,
    decoded,
    error_data,
)
from dragoman.frontends.vscode.rendered import unrendered_messages
from dragoman.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    ConnectionClosed,
    Incoming,
    Notification,
    Peer,
)
from dragoman.lm import (
    CancellationError,
    Consumer,
    DataPart,
    Delivery,
    Features,
    LanguageModelError,
    ModelInfo,
    Part,
    Request,
    TextPart,
)
from dragoman.lm.client_services import ClientServices
from dragoman.lm.gfm import escape
from dragoman.lm.json import JsonObject, decode
from dragoman.lm.messages import messages_from
from dragoman.lm.parts import CONVERSATION
from dragoman.lm.request import SIDE_REQUEST_OPTION
from dragoman.models import AgentSource
from dragoman.permissions.action import PERMISSION_TOOLS
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.question import in_one_line, question_about
from dragoman.permissions.record import Recorded

__all__ = ["VsCodeServer"]

_log = logging.getLogger(__name__)

# The result of the permission tool if the request is no longer pending.
_NOT_OPEN = "This request is no longer open; nothing was allowed."
_NOT_CONFIRMED = "This sensitive action was not confirmed in a dialog of its own; nothing was allowed."
# The hint for errors that different protocol versions may cause.
_SAME_VERSION = (
    "The extension and Dragoman may be of different versions: update both, then run “Dragoman: Restart”."
)


class VsCodeServer:
    """Serves the requests of the editor. `ended` is set after a shutdown, or when the connection closes."""

    def __init__(
        self, models: AgentSource, configuration: Path | None = None, rules: RuleOffers | None = None
    ) -> None:
        """`configuration` is the file that configures the models. It need not exist; the editor can open it.

        Without `rules`, no rule can be made of a question.
        """
        self._rules = rules
        self._models = models
        self._configuration = configuration
        self._peer: Peer | None = None
        self._consumer: Consumer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False
        self._edits = EditLog()
        self._services = ClientServices(edits=self._edits)
        self._terminals: EditorTerminals | None = None
        self.ended = asyncio.Event()
        self._conversations = ConversationHandlers(
            models, lambda: self._consumer or Consumer(), self._conversations_changed
        )
        edit_methods = EditMethods(self._edits, lambda: self._permissions, lambda: self._services.files)
        self._handlers: dict[str, Callable[[Incoming], Awaitable[object]]] = {
            "lm/provideLanguageModelChatInformation": self._list_models,
            "lm/provideLanguageModelChatResponse": self._respond,
            "lm/provideTokenCount": self._count_tokens,
            "tools/prepareInvocation": self._prepare,
            "tools/invoke": self._invoke,
            "permissions/show": self._show,
            "permissions/recent": self._recent,
            "permissions/allow": self._allow,
            "permissions/addRule": self._add_rule,
            **AgentHandlers(models, self._first_folder).rows,
            **self._conversations.rows,
            "permissions/changes": edit_methods.changes,
            "edits/list": edit_methods.list,
            "edits/text": edit_methods.text,
            "edits/undo": edit_methods.undo,
            "shutdown": self._shutdown,
        }
        # The models as the editor last got them.
        self._listed: tuple[ModelInfo, ...] = ()

    # As a receiver.

    def connected(self, peer: Peer) -> None:
        self._peer = peer

    def notification(self, notification: Notification) -> None:
        if notification.method == "workspace/didChangeFolders" and self._consumer is not None:
            folders = decoded(notification.params, ChangeFolders).workspace_folders
            self._consumer = msgspec.structs.replace(self._consumer, workspace_folders=folders)
        elif notification.method == "settings/didChange" and self._consumer is not None:
            # Responses that are under way keep the features that they began with.
            changed = decoded(notification.params, ChangeSettings)
            if changed.features is not None:
                features = _features(changed.features)
                self._consumer = msgspec.structs.replace(self._consumer, features=features)
            if changed.log_level is not None:
                set_level(changed.log_level)
        elif notification.method == "terminal/kill" and self._terminals is not None:
            self._terminals.stop(decoded(notification.params, StopTerminal).id)
        else:
            _log.debug("the editor sent the notification %s", notification.method)

    def request(self, incoming: Incoming) -> None:
        handler = self._handlers.get(incoming.method)
        if incoming.method == "initialize":
            self._initialize(incoming)
        elif handler is None:
            unknown = f"This Dragoman has no method {incoming.method!r}."
            _fail(incoming, METHOD_NOT_FOUND, LanguageModelError("bad_request", unknown, hint=_SAME_VERSION))
        elif self._consumer is None:
            incoming.fail(NOT_INITIALIZED, "Send `initialize` first.")
        elif self._is_ending:
            _fail(incoming, INVALID_REQUEST, _ending())
        else:
            # A request after a shutdown would start agents again.
            self._is_ending = incoming.method == "shutdown"
            task = asyncio.create_task(self._serve(incoming, handler))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def closed(self, reason: str) -> None:
        _log.info("the editor is gone: %s", reason)
        if self._terminals is not None:
            self._terminals.close()
        self.ended.set()

    def models_changed(self) -> None:
        """Notify the editor that the list of models has changed."""
        if self._consumer is not None:
            self._connection.notify("lm/modelsChanged", {})

    def _offer_changed(self, model_id: str) -> None:
        if self._consumer is None or self._connection.closed is not None:
            return
        self._connection.notify("agent/offerChanged", {"modelId": model_id})
        if self._models.infos() != self._listed:
            self._connection.notify("lm/modelsChanged", {})

    def _conversations_changed(self) -> None:
        if self._connection.closed is None:
            self._connection.notify("conversations/changed", {})

    def _first_folder(self) -> str | None:
        return next(iter(self._consumer.workspace_folders), None) if self._consumer is not None else None

    async def close(self) -> None:
        """Cancel the open requests, and end every agent."""
        self._conversations.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._models.close()

    # Serving.

    def _initialize(self, incoming: Incoming) -> None:
        try:
            wanted = decoded(incoming.params, Initialize)
        except msgspec.MsgspecError as error:
            _fail(incoming, INVALID_PARAMS, _unreadable(incoming, error))
            return
        if wanted.protocol_version != PROTOCOL_VERSION:
            incoming.fail(
                INVALID_PARAMS,
                f"Protocol version {wanted.protocol_version} is not supported; this is {PROTOCOL_VERSION}. {_SAME_VERSION}",
                {"supported": [PROTOCOL_VERSION]},
            )
            return
        features = _features(wanted.features)
        # The name outlasts a restart of this process, so that the editor's conversations continue.
        self._consumer = Consumer("vscode", f"stdio:{wanted.client.name}", wanted.workspace_folders, features)
        files = EditorFiles(self._connection) if wanted.features.fs else None
        self._terminals = EditorTerminals(self._connection) if wanted.features.terminal else None
        self._services = ClientServices(files, self._terminals, self._edits)
        self._models.clients.register(self._consumer.connection, self._services)
        incoming.reply(
            {
                "protocolVersion": PROTOCOL_VERSION,
                "server": {"name": "dragoman", "version": __version__},
                "permissionTools": list(PERMISSION_TOOLS.values()),
                "configuration": None if self._configuration is None else str(self._configuration.absolute()),
            }
        )

    async def _serve(self, incoming: Incoming, handler: Callable[[Incoming], Awaitable[object]]) -> None:
        """Run a handler, and settle its request, also when the handler fails."""
        try:
            result = await handler(incoming)
        except LanguageModelError as error:
            _fail(incoming, REQUEST_FAILED, error)
        except msgspec.MsgspecError as error:
            _fail(incoming, INVALID_PARAMS, _unreadable(incoming, error))
        except asyncio.CancelledError:
            _fail(incoming, REQUEST_CANCELLED, _ending())
            raise
        except CancellationError:
            incoming.fail(REQUEST_CANCELLED, "Cancelled.")
        except Exception as error:
            _log.exception("%s failed", incoming.method)
            _fail(incoming, INTERNAL_ERROR, _fault(incoming, error))
        else:
            incoming.reply(result)

    async def _list_models(self, _incoming: Incoming) -> object:
        await self._models.learn()
        self._models.watch_offers(self._offer_changed)
        self._listed = self._models.infos()
        return ModelList(self._listed)

    async def _respond(self, incoming: Incoming) -> object:
        chat = decode_chat_request(incoming.params)
        model = self._models.get(chat.model_id)
        options = chat.options
        consumer = self._consumer or Consumer()
        if options.model_options.get(ACTIVITY_OPTION) is False:
            features = msgspec.structs.replace(consumer.features, activity=False)
            consumer = msgspec.structs.replace(consumer, features=features)
        if is_side_request(chat.messages, options.tools):
            marked = {**options.model_options, SIDE_REQUEST_OPTION: True}
            options = msgspec.structs.replace(options, model_options=marked)
        request = Request(unrendered_messages(chat.messages), options, consumer)
        sink = _PartSink(self._connection, incoming)
        # A turn that has ended may still be read: it is of an earlier answer.
        await self._edits.settled()
        ended_before = self._edits.ended_turns()
        try:
            await model.respond(request, sink, incoming.token)
            if consumer.features.activity and sink.conversation is not None:
                await self._edits.settled()
                if (turn := self._edits.ended_since(ended_before, sink.conversation)) is not None:
                    sink.report(DataPart.json(edits_news(turn), EDITS))
        finally:
            if isinstance(model, Delivery) and sink.conversation is not None:
                # A stopped response counts as delivered: the same request after it is a wish for another answer.
                model.delivered(sink.conversation, whole=self._connection.closed is None)
        return {}

    async def _count_tokens(self, incoming: Incoming) -> object:
        counted = decoded(incoming.params, CountTokens)
        model = self._models.get(counted.model_id)
        if counted.text is not None:
            return model.count_tokens(counted.text)
        if counted.message is None:
            raise LanguageModelError("bad_request", "Nothing to count.", hint="Send `text` or `message`.")
        return model.count_tokens(messages_from([counted.message])[0])

    async def _prepare(self, incoming: Incoming) -> object:
        """Write the dialog for a permission request. Its text comes from the pending action, never from the editable input."""
        invocation = decoded(incoming.params, ToolInput)
        pending = self._permissions.grants.pending(invocation.input.get("nonce"))
        if pending is None or pending.action.permission_tool != invocation.name:
            title = "No longer open"
            return {
                "invocationMessage": _NOT_OPEN,
                "confirmationMessages": {"title": title, "message": _NOT_OPEN},
                "modal": {"message": title, "detail": _NOT_OPEN},
                "isSensitive": False,
                "isCut": False,
                "hasChanges": False,
            }
        question = question_about(pending.action, pending.ask, spaced=True)
        return {
            "invocationMessage": escape(in_one_line(pending.action, "may")),
            "confirmationMessages": {"title": question.title, "message": question.message},
            "modal": {"message": question.title, "detail": question.plain},
            "isSensitive": pending.ask.needs_person,
            "isCut": question.is_cut,
            "hasChanges": bool(pending.action.diffs),
        }

    async def _invoke(self, incoming: Incoming) -> object:
        """Return the proof. A sensitive action, or one that a rule asks about, needs the extension's own dialog: VS Code has modes that skip the chat's."""
        invocation = decoded(incoming.params, ToolInput)
        grants, nonce = self._permissions.grants, invocation.input.get("nonce")
        pending = grants.pending(nonce)
        if pending is not None and pending.ask.needs_person and not invocation.confirmed:
            return {"content": [TextPart(_NOT_CONFIRMED)]}
        token = grants.issue(nonce, invocation.name)
        return {"content": [TextPart(token if token is not None else _NOT_OPEN)]}

    async def _show(self, incoming: Incoming) -> object:
        """Return the whole question, for a document."""
        pending = self._permissions.grants.pending(decoded(incoming.params, ShowQuestion).nonce)
        if pending is None:
            return {"title": "No longer open", "text": _NOT_OPEN}
        question = question_about(pending.action, pending.ask)
        return {"title": question.title, "text": f"# {escape(question.title)}\n\n{question.whole}\n"}

    async def _recent(self, _incoming: Incoming) -> object:
        return {"questions": [self._question(each) for each in self._permissions.record.newest_first()]}

    def _question(self, recorded: Recorded) -> JsonObject:
        decision = "waiting" if recorded.allowed is None else "allowed" if recorded.allowed else "refused"
        file = "" if self._rules is None else str(self._rules.file)
        return {
            "id": recorded.id,
            "title": in_one_line(recorded.action),
            "agent": recorded.action.agent_name,
            "detail": question_about(recorded.action).plain,
            "decision": decision,
            "by": recorded.by,
            "at": recorded.at,
            "covers": recorded.covers,
            "levels": recorded.levels,
            "rules": [
                {"words": offer.words, "toml": offer.toml, "file": file} for offer in self._offers(recorded)
            ],
        }

    def _offers(self, recorded: Recorded) -> tuple[RuleOffer, ...]:
        # What can be allowed only once, no rule of this kind allows.
        if self._rules is None or not recorded.levels:
            return ()
        places = self._permissions.places((recorded.workspace,))
        return self._rules.of(recorded.action, places)

    async def _allow(self, incoming: Incoming) -> object:
        """Store a lasting approval for exactly the action of a recent question."""
        wanted = decoded(incoming.params, AllowRecent)
        recorded = self._permissions.record.allow(wanted.id, wanted.level, self._permissions.approvals)
        if recorded is None:
            raise LanguageModelError(
                "bad_request",
                "That question cannot be allowed for longer.",
                hint="Choose another one from the list.",
            )
        return {"covers": recorded.covers}

    async def _add_rule(self, incoming: Incoming) -> object:
        """Write a rule that is offered for a recent question: the text that the user has seen, to the letter."""
        wanted = decoded(incoming.params, AddRule)
        recorded = [each for each in self._permissions.record.newest_first() if each.id == wanted.id]
        offers = [offer for each in recorded for offer in self._offers(each) if offer.toml == wanted.toml]
        if self._rules is None or not offers:
            raise LanguageModelError(
                "bad_request",
                "That rule is not offered any more.",
                hint="Choose another one from the list.",
            )
        try:
            rule = self._rules.add(offers[0])
        except CannotAddRule as problem:
            raise LanguageModelError("bad_request", f"The rule was not written. {problem}") from problem
        return {"file": str(self._rules.file), "line": rule.line}

    async def _shutdown(self, _incoming: Incoming) -> object:
        """End every agent and settle all other requests, then end the server."""
        self._conversations.close()
        await self._models.close()
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        asyncio.get_running_loop().call_soon(self.ended.set)
        return {}

    @property
    def _permissions(self) -> PermissionServices:
        return self._models.permissions

    @property
    def _connection(self) -> Peer:
        if self._peer is None:
            raise AssertionError("not connected")
        return self._peer


def _fail(incoming: Incoming, code: int, error: LanguageModelError) -> None:
    """Fail a request with a sentence that says what to do next. The extension shows it unchanged."""
    incoming.fail(code, error.sentence, error_data(error))


def _features(declared: EditorFeatures) -> Features:
    return Features(
        thinking=declared.thinking, data=declared.data, activity=declared.activity, confirms_delivery=True
    )


def _ending() -> LanguageModelError:
    hint = "It is started again with your next prompt."
    return LanguageModelError("unavailable", "Dragoman is shutting down.", hint=hint)


def _unreadable(incoming: Incoming, error: msgspec.MsgspecError) -> LanguageModelError:
    cause = f"The parameters of {incoming.method} cannot be read: {error}."
    return LanguageModelError("bad_request", cause, hint=_SAME_VERSION)


def _fault(incoming: Incoming, error: Exception) -> LanguageModelError:
    cause = f"Dragoman failed at {incoming.method}, by a fault of its own: {type(error).__name__}: {error}."
    hint = "Try again; if it fails again, “Dragoman: Show Log” has what to report."
    return LanguageModelError("internal", cause, hint=hint)


class _Placed(msgspec.Struct, frozen=True):
    conversation: str | None = None


class _Reported(msgspec.Struct, frozen=True, rename="camel"):
    request_id: int | str | None
    part: Part


class _PartSink:
    """Sends the parts of one response to the editor, all but the one that names its conversation."""

    def __init__(self, peer: Peer, incoming: Incoming) -> None:
        self._peer = peer
        self._id = incoming.id
        self.conversation: str | None = None

    def report(self, part: Part) -> None:
        if isinstance(part, DataPart) and part.mime_type == CONVERSATION:
            self.conversation = msgspec.convert(decode(part.data), _Placed).conversation
            return
        try:
            self._peer.notify("lm/responsePart", _Reported(self._id, part))
        except ConnectionClosed:
            # The connection notices that the editor is gone, and cancels the request.
            return

    async def drain(self) -> None:
        with suppress(ConnectionClosed):
            await self._peer.drain()
