"""A session: a history, a folder, tools, a mode and a pace. It has one turn at a time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import msgspec

from dragoman.acp.messages import SessionCreated
from dragoman.backends.scripted import Script
from dragoman.demo.agent.actions import describe
from dragoman.demo.agent.messages import RequestRefused
from dragoman.demo.agent.model import PromptHandlers
from dragoman.demo.agent.store import Kept, SessionStore
from dragoman.demo.agent.tools import Toolbox
from dragoman.demo.agent.updates import AgentUpdate, CurrentMode, told_again
from dragoman.demo.pace import PACES
from dragoman.jsonrpc import INVALID_PARAMS, ConnectionClosed, Peer
from dragoman.lm import CancellationSource, JsonObject, Message

__all__ = ["DEFAULT_MODE", "Session", "Shared"]

DEFAULT_MODE = "default"
_MODES: tuple[JsonObject, ...] = (
    {"id": DEFAULT_MODE, "name": "Default", "description": "Acts, and asks before it does."},
    {"id": "plan", "name": "Plan", "description": "Says what it would do, and does nothing by itself."},
)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all sessions share."""

    peer: Peer
    store: SessionStore
    script: Script
    prompts: PromptHandlers


class Session:
    def __init__(self, kept: Kept, toolbox: Toolbox, shared: Shared) -> None:
        self.kept = kept
        self.shared = shared
        self.toolbox = toolbox
        # The turn that is under way, by what would cancel it.
        self.turn: CancellationSource | None = None
        self.toolbox.offer_own(offered=kept.mode == DEFAULT_MODE)

    @property
    def id(self) -> str:
        return self.kept.id

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.kept.messages

    @property
    def speed(self) -> float:
        return PACES[self.kept.pace].speed

    def created(self, *, named: bool = False) -> SessionCreated:
        """What a client is told of a session that it has made or taken up."""
        modes: JsonObject = {"currentModeId": self.kept.mode, "availableModes": _MODES}
        return SessionCreated(self.id if named else "", modes, self.options)

    @property
    def options(self) -> tuple[JsonObject, ...]:
        choices = [{"value": value, "name": pace.name} for value, pace in PACES.items()]
        pace: JsonObject = {"type": "select", "id": "pace", "name": "Pace", "currentValue": self.kept.pace}
        return ({**pace, "description": "How fast the agent talks", "options": choices},)

    def set_mode(self, mode: str) -> None:
        if mode not in (known["id"] for known in _MODES):
            raise RequestRefused(INVALID_PARAMS, f"There is no mode {mode!r}.")
        self._change(mode=mode)
        self.toolbox.offer_own(offered=mode == DEFAULT_MODE)
        self.tell(CurrentMode(mode))

    def set_option(self, option: str, value: object) -> None:
        if option != "pace" or not isinstance(value, str) or value not in PACES:
            raise RequestRefused(INVALID_PARAMS, f"There is no option {option!r} with a value {value!r}.")
        self._change(pace=value)

    def keep(self, messages: tuple[Message, ...] | None = None) -> None:
        """Write the session down, with these messages if any are given."""
        self._change(messages=self.messages if messages is None else messages)

    def tell(self, update: AgentUpdate) -> None:
        # Whoever is gone is told nothing; that the connection has ended is seen elsewhere.
        with suppress(ConnectionClosed):
            self.shared.peer.notify("session/update", {"sessionId": self.id, "update": update})

    def tell_history(self) -> None:
        """Everything that was said so far, as it was told then."""
        for update in told_again(self.messages, lambda call: describe(call, self.toolbox).activity):
            self.tell(update)

    def cancel(self) -> None:
        if self.turn is not None:
            self.turn.cancel()

    async def close(self) -> None:
        await self.toolbox.close()

    def _change(self, **changes: object) -> None:
        self.kept = msgspec.structs.replace(self.kept, **changes)
        self.shared.store.save(self.kept)
