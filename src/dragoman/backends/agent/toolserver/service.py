"""MCP for one endpoint: lists its tools, holds its calls, announces its changes. Any transport can carry it.

A call is held as long as a person needs. Meanwhile the agent is told every few seconds that it goes on, which keeps most
agents from giving up; the others have an absolute limit, and are given a ticket before it. Whatever goes wrong becomes a
result that says so: a JSON-RPC error would end the turn of some agents.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp_types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from pydantic import ValidationError

from dragoman import __version__
from dragoman.backends.agent.toolserver import content
from dragoman.backends.agent.toolserver.calls import CallRefused, Ended, Hold, ToolAnswer
from dragoman.backends.agent.toolserver.endpoint import Endpoint
from dragoman.backends.agent.toolserver.naming import WAIT_TOOL
from dragoman.backends.agent.toolserver.offer import OfferedTool
from dragoman.backends.agent.toolserver.wire import MAX_CONNECTIONS, Arrival
from dragoman.clock import DeadlinePassed, within
from dragoman.lm import JsonObject

__all__ = ["PROGRESS_SECONDS", "SCOPE_KEY", "Service"]

_log = logging.getLogger(__name__)

# A quarter of the shortest limit that progress extends (opencode's, 60 seconds).
PROGRESS_SECONDS = 15.0
# An announcement that a session does not take in this time is lost; the agent lists again when it connects again.
_ANNOUNCE_SECONDS = 5.0
# Announcements that a client has not read. They all say the same.
_MAX_UNREAD_ANNOUNCEMENTS = 16
# Under which an HTTP request carries its `Arrival`.
SCOPE_KEY = "dragoman.arrival"

_Context = ServerRequestContext[dict[str, Any], Any]

_WAIT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"ticket": {"type": "integer", "description": "The number of the ticket."}},
    "required": ["ticket"],
}
_WAIT = mcp_types.Tool(
    name=WAIT_TOOL,
    description=(
        "Waits for the result of an earlier tool call that is still waiting for the user, and returns it. Call this "
        "only with a ticket that such a call has given you."
    ),
    input_schema=_WAIT_SCHEMA,
)

_ENDED: dict[Ended, str] = {
    "superseded": "Another call waits for this result now.",
    "withdrawn": "This call was withdrawn.",
    "closed": "The conversation that this tool belongs to has ended.",
}


class _Server(Server[dict[str, Any]]):
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        # The HTTP session manager passes no options, and would promise no announcements.
        return super().create_initialization_options(
            notification_options or NotificationOptions(tools_changed=True),
            experimental_capabilities,
            extensions,
        )


@dataclass(slots=True)
class _Listener:
    """A session of the handshake era that has listed the tools, and which version of them."""

    session: ServerSession
    version: int


class Service:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._bus = InMemorySubscriptionBus()
        self._subscriptions = ListenHandler(
            self._bus, max_subscriptions=MAX_CONNECTIONS, max_buffered_events=_MAX_UNREAD_ANNOUNCEMENTS
        )
        # By session, the one that listed last at the end. Messages to a session that is gone are dropped by the library.
        self._listeners: OrderedDict[object, _Listener] = OrderedDict()
        self._announcements: set[asyncio.Task[None]] = set()
        self.server = _Server(
            endpoint.name,
            version=__version__,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=self._subscriptions,
            get_tool_input_schema=self._input_schema,
        )
        self.server.middleware = [_contain]
        endpoint.on_changed = self._announce

    async def close(self) -> None:
        """Stop announcing. Calls are ended by the endpoint, connections by their transports."""
        self.endpoint.on_changed = None
        self._subscriptions.close()
        for task in self._announcements:
            task.cancel()
        await asyncio.gather(*self._announcements, return_exceptions=True)

    def remind(self, session: object) -> None:
        """A session can be told things again: announce what it has missed."""
        listener = self._listeners.get(session)
        if listener is not None and listener.version != self.endpoint.version:
            self._spawn(listener.session.send_tool_list_changed)

    def forget(self, session: object) -> None:
        """A session has ended."""
        self._listeners.pop(session, None)

    async def _list(
        self, context: _Context, _params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        session = _arrival(context).session
        if session is not None:
            self._listeners[session] = _Listener(context.session, self.endpoint.version)
            self._listeners.move_to_end(session)
            while len(self._listeners) > MAX_CONNECTIONS:
                self._listeners.popitem(last=False)
        tools = [_tool(offered) for offered in self.endpoint.list_tools()]
        if self.endpoint.patience_seconds is not None:
            tools.append(_WAIT)
        return mcp_types.ListToolsResult(tools=tools)

    def _input_schema(self, name: str) -> JsonObject | None:
        """Asked by the library before a call; otherwise it would list the tools itself, as if the agent had."""
        offered = self.endpoint.offer.by_name.get(name)
        return offered.input_schema if offered else None

    async def _call(
        self, context: _Context, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        arguments: JsonObject = params.arguments or {}
        if params.name == WAIT_TOOL and self.endpoint.patience_seconds is not None:
            if self.endpoint.on_waits is not None:
                self.endpoint.on_waits()
            ticket = _ticket(arguments.get("ticket"))
            hold = None if ticket is None else self.endpoint.calls.take_up(ticket)
            if hold is None:
                return content.failure(
                    "There is no such ticket: it was never given, or its result was returned before."
                )
        else:
            offered = self.endpoint.offer.by_name.get(params.name)
            if offered is None:
                return content.failure(f"The tool {params.name} is no longer available.")
            try:
                hold = self.endpoint.calls.open(offered.definition.name, offered.arguments_for(arguments))
            except CallRefused as error:
                return content.failure(str(error))
        return await self._held(hold, context)

    async def _held(self, hold: Hold, context: _Context) -> mcp_types.CallToolResult:
        gone = _arrival(context).gone

        def withdraw(_: object) -> None:
            self.endpoint.calls.withdraw(hold)

        gone.add_done_callback(withdraw)
        try:
            outcome = await self._outcome(hold, context.session)
        finally:
            gone.remove_done_callback(withdraw)
            # Cancelled: the agent said so, closed the stream of this request, or is gone altogether.
            if not hold.outcome.done():
                self.endpoint.calls.withdraw(hold)
        match outcome:
            case ToolAnswer():
                return content.result(outcome)
            case int():
                return content.notice(
                    f"Still waiting for the user. This call has not failed and must not be made again. "
                    f"Call {WAIT_TOOL} with ticket {outcome} to go on waiting and to get its result."
                )
            case _:
                return content.failure(_ENDED[outcome])

    async def _outcome(self, hold: Hold, session: ServerSession) -> ToolAnswer | Ended | int:
        """The answer, why there is none, or the number of a ticket."""
        clock, patience = self.endpoint.clock, self.endpoint.patience_seconds
        began = clock.now()
        while True:
            waited = clock.now() - began
            left = PROGRESS_SECONDS if patience is None else min(PROGRESS_SECONDS, patience - waited)
            try:
                return await within(asyncio.shield(hold.outcome), left, clock)
            except DeadlinePassed:
                waited = clock.now() - began
            if patience is not None and waited >= patience:
                ticket = self.endpoint.calls.put_off(hold)
                return hold.outcome.result() if ticket is None else ticket
            await session.report_progress(waited, message="Waiting for the user.")

    def _announce(self) -> None:
        # Clients of 2026-07-28 have subscribed; the others are told on their session.
        self._spawn(partial(self._bus.publish, ToolsListChanged()))
        for listener in self._listeners.values():
            self._spawn(listener.session.send_tool_list_changed)

    def _spawn(self, announcement: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._in_time(announcement))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    async def _in_time(self, announcement: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(_ANNOUNCE_SECONDS):
                await announcement()
        except TimeoutError:
            _log.warning(
                "an agent does not take the news that the tools of %s have changed", self.endpoint.name
            )
        except Exception:
            _log.exception("it cannot be announced that the tools of %s have changed", self.endpoint.name)


async def _contain(ctx: _Context, call_next: CallNext) -> HandlerResult:
    """Whatever goes wrong with a call is told in a result."""
    if ctx.method != "tools/call":
        return await call_next(ctx)
    try:
        return await call_next(ctx)
    except ValidationError:
        return content.failure(
            "This call cannot be read: it needs the name of a tool and arguments that are an object."
        )
    except Exception as error:
        _log.exception("a tool call failed inside the tool server")
        return content.failure(f"The call failed inside the tool server: {type(error).__name__}: {error}")


def _arrival(context: _Context) -> Arrival:
    request: object = context.request
    if isinstance(request, Arrival):
        return request
    scope: object = getattr(request, "scope", None)
    found: object = scope.get(SCOPE_KEY) if isinstance(scope, dict) else None
    return found if isinstance(found, Arrival) else Arrival()


def _tool(offered: OfferedTool) -> mcp_types.Tool:
    original = offered.definition.name
    return mcp_types.Tool(
        name=offered.name,
        title=None if offered.name == original else original,
        description=offered.description,
        input_schema=offered.input_schema,
    )


def _ticket(value: object) -> int | None:
    match value:
        case int():
            return value
        # Models write numbers as text now and then.
        case str() if value.isascii() and value.isdigit() and len(value) < 10:  # noqa: PLR2004
            return int(value)
        case _:
            return None
