"""What MCP is spoken for: lists the tools of an endpoint, holds its calls, announces its changes.

A call is held as long as a person needs. Meanwhile the agent is told every few seconds that it goes on, which keeps most
agents from giving up; the others have an absolute limit, and are given a ticket before it. Whatever goes wrong becomes a
result that says so: a JSON-RPC error would end the turn of some agents.

Any transport can carry it. It makes a `McpClient` for whom it talks to, hands it messages, and offers for each request a
`McpReply`: where its answer goes, and what belongs to it until then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from dragoman.backends.agent.toolserver import content
from dragoman.backends.agent.toolserver.calls import CallEnded, CallRefused, Hold
from dragoman.backends.agent.toolserver.endpoint import Endpoint
from dragoman.backends.agent.toolserver.naming import WAIT_TOOL
from dragoman.backends.agent.toolserver.offer import OfferedTool
from dragoman.backends.agent.toolserver.session import (
    SUBSCRIPTION,
    TOOLS_CHANGED,
    CallTool,
    CancelCall,
    Listen,
    ListTools,
    McpSession,
    Refuse,
    Respond,
    notification,
)
from dragoman.backends.agent.toolserver.wire import MAX_CONNECTIONS
from dragoman.jsonrpc.messages import INTERNAL_ERROR, INVALID_REQUEST, Notification, RequestId, RpcRequest
from dragoman.lm import JsonObject
from dragoman.lm.parts import ToolResult

__all__ = ["PROGRESS_SECONDS", "McpClient", "McpReply", "ToolService"]

_log = logging.getLogger(__name__)

# A quarter of the shortest limit that progress extends (opencode's, 60 seconds).
PROGRESS_SECONDS = 15.0

_WAIT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"ticket": {"type": "integer", "description": "The number of the ticket."}},
    "required": ["ticket"],
}
_WAIT: JsonObject = {
    "name": WAIT_TOOL,
    "description": (
        "Waits for the result of an earlier tool call that is still waiting for the user, and returns it. Call this "
        "only with a ticket that such a call has given you."
    ),
    "inputSchema": _WAIT_SCHEMA,
}

_ENDED: dict[CallEnded, str] = {
    "superseded": "Another call waits for this result now.",
    "withdrawn": "This call was withdrawn.",
    "closed": "The conversation that this tool belongs to has ended.",
}


class McpReply(Protocol):
    """The way back for one request. Nothing here blocks, and nothing fails: what cannot be sent any more is lost."""

    def notify(self, message: bytes) -> None:
        """Something that belongs to the request. It is lost on an agent that does not read."""

    def announce(self, message: bytes) -> None:
        """Something that is kept for an agent that does not read. Of two that are the same, one."""

    def answer(self, message: bytes, code: int | None = None) -> None:
        """The last word; `code` is that of the error, if it is one."""

    def drop(self, message: bytes) -> None:
        """There is no answer: the agent has cancelled. `message` says so, for transports that must end with a word."""


class ToolService:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        # Sessions that have listed the tools, and which version of them; the one that listed last at the end.
        self._listeners: OrderedDict[McpClient, int] = OrderedDict()
        self._subscriptions: dict[_Subscription, None] = {}
        endpoint.on_changed = self._announce

    def close(self) -> None:
        """Stop announcing. Calls are ended by the endpoint, connections by their transports."""
        self.endpoint.on_changed = None
        for subscription in list(self._subscriptions):
            subscription.end()

    def remind(self, client: McpClient) -> None:
        """A session can be told things again: announce what it has missed."""
        version = self._listeners.get(client)
        if version is not None and version != self.endpoint.version:
            client.announce(notification(TOOLS_CHANGED))

    def forget(self, client: McpClient) -> None:
        """A session has ended."""
        self._listeners.pop(client, None)

    def list_tools(self, client: McpClient) -> list[JsonObject]:
        if client.session.era == "handshake":
            self._listeners[client] = self.endpoint.version
            self._listeners.move_to_end(client)
            while len(self._listeners) > MAX_CONNECTIONS:
                self._listeners.popitem(last=False)
        tools = [_tool(offered) for offered in self.endpoint.list_tools()]
        if self.endpoint.patience_seconds is not None:
            tools.append(_WAIT)
        return tools

    def open(self, call: CallTool) -> Hold | JsonObject:
        """A hold on the call, or the result that says why there is none."""
        if call.name is None or call.arguments is None:
            return content.failure(
                call.problem
                or "This call cannot be read: it needs the name of a tool and arguments that are an object."
            )
        if call.name == WAIT_TOOL and self.endpoint.patience_seconds is not None:
            self.endpoint.on_waits()
            ticket = _ticket(call.arguments.get("ticket"))
            hold = None if ticket is None else self.endpoint.calls.take_up(ticket)
            return hold or content.failure(
                "There is no such ticket: it was never given, or its result was returned before."
            )
        offered = self.endpoint.offer.by_name.get(call.name)
        if offered is None:
            return content.failure(f"The tool {call.name} is no longer available.")
        try:
            return self.endpoint.calls.open(offered.definition.name, offered.arguments_for(call.arguments))
        except CallRefused as refused:
            return content.failure(str(refused))

    def subscribe(self, subscription: _Subscription) -> bool:
        """Whether there is room for one more."""
        if len(self._subscriptions) >= MAX_CONNECTIONS:
            return False
        self._subscriptions[subscription] = None
        return True

    def unsubscribe(self, subscription: _Subscription) -> None:
        self._subscriptions.pop(subscription, None)

    def _announce(self) -> None:
        # Clients of 2026-07-28 have subscribed; the others are told on their session.
        for subscription in list(self._subscriptions):
            subscription.announce()
        for client in list(self._listeners):
            client.announce(notification(TOOLS_CHANGED))


class McpClient:
    """One agent at the other end: a socket, a session over HTTP, or one request of an era without sessions."""

    __slots__ = ("_under_way", "announce", "service", "session")

    def __init__(self, service: ToolService, session: McpSession, announce: Callable[[bytes], None]) -> None:
        self.service = service
        self.session = session
        self.announce = announce
        self._under_way: dict[RequestId, _Held | _Subscription] = {}

    def request(self, request: RpcRequest, reply: McpReply) -> None:
        """Do what is asked. The reply gets its last word now or later, or is dropped."""
        action = self.session.request(request)
        if request.id in self._under_way:
            action = Refuse(INVALID_REQUEST, "a request with this id is under way")
        match action:
            case Respond(result=result):
                self._answer(request.id, reply, result)
            case ListTools():
                self._answer(request.id, reply, self.session.tools(self.service.list_tools(self)))
            case CallTool():
                self._call(request.id, action, reply)
            case Listen():
                self._listen(request.id, action, reply)
            case Refuse():
                self._refuse(request.id, reply, action)

    def notification(self, message: Notification) -> None:
        match self.session.notification(message):
            case CancelCall(request_id=request_id):
                work = self._under_way.pop(request_id, None)
                if work is not None:
                    work.withdraw()
                    work.reply.drop(self.session.cancelled(request_id))
            case None:
                pass

    def abandon(self, reply: McpReply) -> None:
        """Nobody is left to read this reply."""
        for request_id, work in list(self._under_way.items()):
            if work.reply is reply:
                del self._under_way[request_id]
                work.withdraw()

    def close(self) -> None:
        """The agent is gone, and with it whoever waited for an answer."""
        self.service.forget(self)
        while self._under_way:
            _, work = self._under_way.popitem()
            work.withdraw()

    def finished(self, request_id: RequestId, reply: McpReply, result: JsonObject) -> None:
        if self._under_way.pop(request_id, None) is not None:
            self._answer(request_id, reply, result)

    def _answer(self, request_id: RequestId, reply: McpReply, result: JsonObject) -> None:
        reply.answer(self.session.response(request_id, result))

    def _refuse(self, request_id: RequestId, reply: McpReply, refusal: Refuse) -> None:
        reply.answer(self.session.error(request_id, refusal), refusal.code)

    def _call(self, request_id: RequestId, call: CallTool, reply: McpReply) -> None:
        try:
            opened = self.service.open(call)
        except Exception as error:
            _log.exception("a tool call failed inside the tool server")
            opened = content.failure(
                f"The call failed inside the tool server: {type(error).__name__}: {error}"
            )
        if isinstance(opened, Hold):
            held = _Held(self, request_id, reply, opened, call.progress_token)
            self._under_way[request_id] = held
            held.begin()
        else:
            self._answer(request_id, reply, opened)

    def _listen(self, request_id: RequestId, wish: Listen, reply: McpReply) -> None:
        subscription = _Subscription(self, request_id, reply, tools=wish.tools)
        if not self.service.subscribe(subscription):
            self._refuse(request_id, reply, Refuse(INTERNAL_ERROR, "Subscription limit reached"))
            return
        self._under_way[request_id] = subscription
        subscription.acknowledge()


class _Held:
    """A call that waits, and the request that will carry its answer."""

    __slots__ = ("_client", "_hold", "_pace", "_progress_token", "_request_id", "reply")

    def __init__(
        self,
        client: McpClient,
        request_id: RequestId,
        reply: McpReply,
        hold: Hold,
        progress_token: int | str | None,
    ) -> None:
        self._client = client
        self._request_id = request_id
        self.reply = reply
        self._hold = hold
        self._progress_token = progress_token
        self._pace: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._hold.outcome.add_done_callback(self._settled)
        if not self._hold.outcome.done():
            self._pace = asyncio.create_task(self._wait())

    def withdraw(self) -> None:
        """The agent said so, closed the stream of this request, or is gone altogether."""
        self._rest()
        self._hold.outcome.remove_done_callback(self._settled)
        if not self._hold.outcome.done():
            self._client.service.endpoint.calls.withdraw(self._hold)

    def _rest(self) -> None:
        if self._pace is not None:
            self._pace.cancel()

    def _settled(self, outcome: asyncio.Future[ToolResult | CallEnded]) -> None:
        self._rest()
        self._finish(outcome.result())

    def _finish(self, outcome: ToolResult | CallEnded | int) -> None:
        try:
            result = _result(outcome)
        except Exception as error:
            _log.exception("the answer to a tool call cannot be written")
            result = content.failure(
                f"The call failed inside the tool server: {type(error).__name__}: {error}"
            )
        self._client.finished(self._request_id, self.reply, result)

    async def _wait(self) -> None:
        """Tell the agent that it goes on, until the answer comes or a ticket is due."""
        endpoint = self._client.service.endpoint
        clock, patience = endpoint.clock, endpoint.patience_seconds
        began = clock.now()
        while True:
            waited = clock.now() - began
            await clock.sleep(
                PROGRESS_SECONDS if patience is None else min(PROGRESS_SECONDS, patience - waited)
            )
            waited = clock.now() - began
            if patience is None or waited < patience:
                self._progress(waited)
                continue
            ticket = endpoint.calls.put_off(self._hold)
            # Without one, the answer is on its way.
            if ticket is not None:
                self._hold.outcome.remove_done_callback(self._settled)
                self._finish(ticket)
            return

    def _progress(self, waited: float) -> None:
        if self._progress_token is not None:
            params: JsonObject = {
                "progressToken": self._progress_token,
                "progress": waited,
                "message": "Waiting for the user.",
            }
            self.reply.notify(notification("notifications/progress", params))


class _Subscription:
    """A request whose answer is that nothing more will be announced, as late as possible."""

    __slots__ = ("_client", "_request_id", "_tools", "reply")

    def __init__(self, client: McpClient, request_id: RequestId, reply: McpReply, *, tools: bool) -> None:
        self._client = client
        self._request_id = request_id
        self.reply = reply
        self._tools = tools

    def acknowledge(self) -> None:
        honored: JsonObject = {"toolsListChanged": True} if self._tools else {}
        self.reply.announce(
            notification(
                "notifications/subscriptions/acknowledged", {"_meta": self._meta, "notifications": honored}
            )
        )

    def announce(self) -> None:
        if self._tools:
            self.reply.announce(notification(TOOLS_CHANGED, {"_meta": self._meta}))

    def withdraw(self) -> None:
        self._client.service.unsubscribe(self)

    def end(self) -> None:
        self.withdraw()
        self._client.finished(self._request_id, self.reply, {"_meta": self._meta})

    @property
    def _meta(self) -> JsonObject:
        return {SUBSCRIPTION: self._request_id}


def _result(outcome: ToolResult | CallEnded | int) -> JsonObject:
    """For the answer, the number of a ticket, or why there is neither."""
    match outcome:
        case ToolResult():
            return content.result(outcome)
        case int():
            return content.notice(
                f"Still waiting for the user. This call has not failed and must not be made again. "
                f"Call {WAIT_TOOL} with ticket {outcome} to go on waiting and to get its result."
            )
        case _:
            return content.failure(_ENDED[outcome])


def _tool(offered: OfferedTool) -> JsonObject:
    original = offered.definition.name
    tool: JsonObject = {
        "name": offered.name,
        "description": offered.description,
        "inputSchema": offered.input_schema,
    }
    return tool if offered.name == original else {**tool, "title": original}


def _ticket(value: object) -> int | None:
    match value:
        case int():
            return value
        # Models write numbers as text now and then.
        case str() if value.isascii() and value.isdigit() and len(value) < 10:  # noqa: PLR2004
            return int(value)
        case _:
            return None
