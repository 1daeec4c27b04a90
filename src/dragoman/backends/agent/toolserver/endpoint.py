"""One conversation's place on the tool server: what is offered there, what was called, who has looked.

The bridge has this object; the agent has an address and a secret. Nothing here knows MCP: `service` speaks it, and comes
here to look up tools and to open calls.
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
# Sixteen bytes in the address keep one conversation from finding another's; thirty-two keep anybody from guessing.
_PATH_BYTES = 16
_TOKEN_BYTES = 32
# An answer takes time to arrive, and an agent's watch started before ours. Of a short limit a quarter is kept.
_MARGIN_SECONDS = 20.0
_MARGIN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the tool server listens, for all conversations."""

    url: str
    socket: Path


@dataclass(eq=False)
class Endpoint:
    """What the bridge sees of one conversation's tools.

    `on_call` is called once for each call, in the order they arrive; `on_withdrawn` when the agent no longer wants the
    answer; `on_waits` when it comes back with a ticket. None of them may block. After `close` none is called.
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
    # What the agent has seen, and how often it has looked.
    listings: int = field(init=False, default=0)
    _seen: Mapping[str, ToolDefinition] = field(init=False, repr=False, default_factory=dict)

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
        # Isolated and without site packages, it starts in a third of the time, and nobody's PYTHONPATH reaches it.
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
        return any(self._seen.get(name) != tool for name, tool in self.offer.definitions.items())

    async def wait_listed(self, seconds: float) -> bool:
        """Whether the agent has listed the tools as they are now, waiting so long for it."""
        try:
            await within(self._has_listed.wait(), seconds, self.clock)
        except DeadlinePassed:
            return False
        return True

    def forget_listing(self) -> None:
        """The next session has not seen anything yet."""
        self._has_listed.clear()
        self._seen = {}

    def answer(self, key: str, answer: ToolResult) -> bool:
        """The answer to a call. The first counts. False: the agent no longer waits for it, and it goes nowhere."""
        return self.calls.answer(key, answer)

    def is_uncollected(self, key: str) -> bool:
        """Whether a call has its answer, and the agent has not come back with its ticket."""
        return self.calls.is_uncollected(key)

    async def close(self) -> None:
        """End every call and connection. The addresses given out lead nowhere from now on."""
        self.calls.close()
        await self.end(self)

    # For the service.

    @property
    def patience_seconds(self) -> float | None:
        """How long a request of the agent's may be held before it is given a ticket. None: as long as it takes."""
        if self.limit_seconds is None:
            return None
        return self.limit_seconds - min(_MARGIN_SECONDS, self.limit_seconds * _MARGIN_SHARE)

    def list_tools(self) -> tuple[OfferedTool, ...]:
        """What the agent gets to see, and the fact that it has looked."""
        self._has_listed.set()
        self._seen = self.offer.definitions
        self.listings += 1
        if self.on_listed is not None:
            self.on_listed()
        return self.offer.tools
