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
from dragoman.demo.agent.store import SessionStore, StoredSession
from dragoman.demo.agent.tools import Toolbox
from dragoman.demo.agent.updates import AgentUpdate, CurrentMode, replay
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
    """What all sessions of a server share."""

    peer: Peer
    store: SessionStore
    script: Script
    prompts: PromptHandlers


class Session:
    def __init__(self, saved: StoredSession, toolbox: Toolbox, shared: Shared) -> None:
        self.saved = saved
        self.shared = shared
        self.toolbox = toolbox
        # The cancellation source of the turn that is under way.
        self.turn: CancellationSource | None = None
        self.toolbox.offer_own(offered=saved.mode == DEFAULT_MODE)

    @property
    def id(self) -> str:
        return self.saved.id

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.saved.messages

    @property
    def speed(self) -> float:
        return PACES[self.saved.pace].speed

    def created(self, *, named: bool = False) -> SessionCreated:
        """The response to a client that has made a session or taken one up."""
        modes: JsonObject = {"currentModeId": self.saved.mode, "availableModes": _MODES}
        return SessionCreated(self.id if named else "", modes, self.options)

    @property
    def options(self) -> tuple[JsonObject, ...]:
        choices = [{"value": value, "name": pace.name} for value, pace in PACES.items()]
        pace: JsonObject = {"type": "select", "id": "pace", "name": "Pace", "currentValue": self.saved.pace}
        return ({**pace, "description": "How fast the agent talks", "options": choices},)

    def set_mode(self, mode: str) -> None:
        if mode not in (known["id"] for known in _MODES):
            raise RequestRefused(INVALID_PARAMS, f"There is no mode {mode!r}.")
        self._change(mode=mode)
        self.toolbox.offer_own(offered=mode == DEFAULT_MODE)
        self.send(CurrentMode(mode))

    def set_option(self, option: str, value: object) -> None:
        if option != "pace" or not isinstance(value, str) or value not in PACES:
            raise RequestRefused(INVALID_PARAMS, f"There is no option {option!r} with a value {value!r}.")
        self._change(pace=value)

    def save(self, messages: tuple[Message, ...] | None = None) -> None:
        """Store the session, with these messages if any are given."""
        self._change(messages=self.messages if messages is None else messages)

    def send(self, update: AgentUpdate) -> None:
        # `AgentServer.closed` handles the end of the connection.
        with suppress(ConnectionClosed):
            self.shared.peer.notify("session/update", {"sessionId": self.id, "update": update})

    def send_history(self) -> None:
        """Send the whole history, as the updates that reported it at the time."""
        for update in replay(self.messages, lambda call: describe(call, self.toolbox).activity):
            self.send(update)

    def cancel(self) -> None:
        if self.turn is not None:
            self.turn.cancel()

    async def close(self) -> None:
        await self.toolbox.close()

    def _change(self, **changes: object) -> None:
        self.saved = msgspec.structs.replace(self.saved, **changes)
        self.shared.store.save(self.saved)
