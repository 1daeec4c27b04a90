"""The endpoint of one conversation on the tool server: its tools, its calls, and whether the agent has listed them.

The bridge has this object; the agent has an address and a secret. It is independent of MCP: `service` implements that,
and uses the endpoint to look up tools and to open calls.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.backends.agent.toolserver.calls import Calls, PendingCall
from dragoman.backends.agent.toolserver.naming import WAIT_TOOL, is_server_name
from dragoman.backends.agent.toolserver.offer import OfferedTool, ToolOffer, offer
from dragoman.backends.agent.toolserver.relay import TOKEN_VARIABLE
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.lm import ToolDefinition
from dragoman.lm.parts import ToolResult

__all__ = ["Addresses", "Endpoint"]

_RELAY = Path(__file__).with_name("relay.py")
# Sixteen random bytes in the path separate conversations; the thirty-two of the token cannot be guessed.
_PATH_BYTES = 16
_TOKEN_BYTES = 32
# A safety margin: an answer takes time to arrive, and the agent's timer started before ours. At most a quarter of the limit.
_MARGIN_SECONDS = 20.0
_MARGIN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the tool server listens, for all conversations."""

    url: str
    socket: Path


@dataclass(eq=False)
class Endpoint:
    """The bridge's interface to one conversation's tools.

    `on_call` is called once for each call, in the order they arrive; `on_withdrawn` when the agent no longer waits for the
    answer; `on_waits` when it sends a ticket. None of them may block. After `close` none is called.
    """

    name: str
    limit_seconds: float | None
    on_call: Callable[[PendingCall], object]
    on_withdrawn: Callable[[str], object]
    on_waits: Callable[[], object]
    clock: Clock
    addresses: Addresses
    # Ends what serves this endpoint.
    end: Callable[[Endpoint], Awaitable[None]]
    # fast-agent appends `/mcp` to every address that does not end so.
    path: str = field(
        init=False, repr=False, default_factory=lambda: f"/{secrets.token_urlsafe(_PATH_BYTES)}/mcp"
    )
    token: str = field(init=False, repr=False, default_factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES))
    calls: Calls = field(init=False, repr=False)
    offer: ToolOffer = field(init=False, repr=False, default_factory=ToolOffer)
    # Counts the changes of what is offered.
    version: int = field(init=False, default=0)
    # Called after each change, and when the agent has listed the tools.
    on_changed: Callable[[], object] | None = field(init=False, repr=False, default=None)
    on_listed: Callable[[], object] | None = field(init=False, repr=False, default=None)
    _has_listed: asyncio.Event = field(init=False, repr=False, default_factory=asyncio.Event)
    # How often the agent has listed the tools, and the last list.
    listings: int = field(init=False, default=0)
    _seen: Mapping[str, ToolDefinition] = field(init=False, repr=False, default_factory=dict)
    # What the session's first listing had. None: there was none.
    _seen_first: Mapping[str, ToolDefinition] | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if not is_server_name(self.name):
            raise ValueError(
                f"{self.name!r} is no name for a tool server: it is too long or has odd characters"
            )
        if self.limit_seconds is not None and self.limit_seconds <= 0:
            raise ValueError(f"the limit of a tool call must be positive, not {self.limit_seconds:g} seconds")
        self.calls = Calls(on_call=self.on_call, on_withdrawn=self.on_withdrawn)

    # For the bridge.

    def http(self) -> tuple[str, dict[str, str]]:
        """URL and headers for an agent that speaks MCP over HTTP."""
        return f"{self.addresses.url}{self.path}", {"Authorization": f"Bearer {self.token}"}

    def stdio(self) -> tuple[str, tuple[str, ...], dict[str, str]]:
        """Command, arguments and environment for an agent that starts its tool servers."""
        # Isolated and without site packages, it starts in a third of the time, and PYTHONPATH has no effect on it.
        arguments = ("-I", "-S", str(_RELAY), str(self.addresses.socket))
        return sys.executable, arguments, {TOKEN_VARIABLE: self.token}

    def set_tools(self, definitions: tuple[ToolDefinition, ...]) -> bool:
        """Offer exactly these. True, and announced to the agent, if a name, a description or a schema is another."""
        before, self.offer = self.offer, offer(definitions)
        if self.offer.definitions == before.definitions:
            return False
        self.version += 1
        self._has_listed.clear()
        if self.on_changed is not None:
            self.on_changed()
        return True

    @property
    def offered_names(self) -> Mapping[str, str]:
        """What the agent calls each tool → what the consumer calls it."""
        return {name: tool.definition.name for name, tool in self.offer.by_name.items()}

    @property
    def own_names(self) -> tuple[str, ...]:
        """All that the agent is offered here, by the names it has for it: the tools, and the one to wait with."""
        return (*self.offer.by_name, *((WAIT_TOOL,) if self.patience_seconds is not None else ()))

    @property
    def has_news(self) -> bool:
        """Whether a tool is there that the agent has not listed. One that is gone is none."""
        return self._has_more_than(self._seen)

    @property
    def has_news_since_start(self) -> bool:
        """Whether a tool is there that the session's first listing did not have."""
        return self._has_more_than(self._seen_first or {})

    def _has_more_than(self, seen: Mapping[str, ToolDefinition]) -> bool:
        return any(seen.get(name) != tool for name, tool in self.offer.definitions.items())

    async def wait_listed(self, seconds: float) -> bool:
        """Whether the agent has listed the tools as they are now, waiting so long for it."""
        try:
            await within(self._has_listed.wait(), seconds, self.clock)
        except DeadlinePassed:
            return False
        return True

    def forget_listing(self) -> None:
        """Reset the listing state for a new session."""
        self._has_listed.clear()
        self._seen, self._seen_first = {}, None

    def answer(self, key: str, answer: ToolResult) -> bool:
        """Answer a call. Only the first answer counts. False if it is discarded: the agent no longer waits."""
        return self.calls.answer(key, answer)

    def is_uncollected(self, key: str) -> bool:
        """Whether a call has its answer, but the agent has not sent its ticket."""
        return self.calls.is_uncollected(key)

    async def close(self) -> None:
        """End every call and connection. The endpoint's addresses are invalid from now on."""
        self.calls.close()
        await self.end(self)

    # For the service.

    @property
    def patience_seconds(self) -> float | None:
        """How long a request of the agent may be held before it gets a ticket. None: without limit."""
        if self.limit_seconds is None:
            return None
        return self.limit_seconds - min(_MARGIN_SECONDS, self.limit_seconds * _MARGIN_SHARE)

    def list_tools(self) -> tuple[OfferedTool, ...]:
        """The tools for the agent. Marks them as listed."""
        self._has_listed.set()
        self._seen = self.offer.definitions
        if self._seen_first is None:
            self._seen_first = self._seen
        self.listings += 1
        if self.on_listed is not None:
            self.on_listed()
        return self.offer.tools
