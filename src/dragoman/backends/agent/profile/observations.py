"""Observed behaviour of agents where the protocol leaves it open, stored by agent name and version.

It decides how long the bridge waits for an agent, and whether it restarts the agent. It never widens permissions.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from dragoman.acp.messages import AgentInfo

__all__ = ["AgentName", "HistoryTiming", "ObservationStore", "Observations", "Observed", "name_of"]

_log = logging.getLogger(__name__)

# When an agent sends the history of a session that it loads: before its answer, as ACP requires; also after it; not at
# all; or mixed with new output, so that the two cannot be separated.
HistoryTiming: TypeAlias = Literal["before", "late", "none", "unusable"]

_HASH_DIGITS = 8
# The longest name or version: both come from the agent.
_NAME_LETTERS = 100


class AgentName(NamedTuple):
    name: str
    version: str


class Observed(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The observed behaviour of one agent. None: not observed yet."""

    # Whether it listed the tools when a session began, and again when they had changed.
    lists: bool | None = None
    lists_again: bool | None = None
    # After how long it gave a tool call up, the last time.
    tool_limit_seconds: float | None = None
    history: HistoryTiming | None = None

    @property
    def sentences(self) -> Iterator[str]:
        """The observations as sentences for a person."""
        if self.lists is not None:
            yield (
                "It looks at the tools when a session begins."
                if self.lists
                else "It did not look at the tools that it was offered."
            )
        if self.lists_again is not None:
            yield (
                "It looks at changed tools while it runs."
                if self.lists_again
                else "It does not look at changed tools while it runs, so it is restarted for them."
            )
        if self.tool_limit_seconds is not None:
            yield f"It gave a tool call up after {self.tool_limit_seconds:.0f} seconds."
        match self.history:
            case "before":
                yield "It sends the history of a loaded session before it answers."
            case "late":
                yield "It continues sending the history of a loaded session after its answer, so Dragoman waits for its end."
            case "none":
                yield "It does not send the history of a session that it loads."
            case "unusable":
                yield "It mixes the history of a loaded session with new answers, so its sessions are not loaded."


class ObservationStore(Protocol):
    """Where observations are stored."""

    def read(self, name: str, version: str) -> bytes | None: ...

    def update(self, name: str, version: str, change: Callable[[bytes | None], bytes]) -> None:
        """Replace the stored value by what `change` makes of it, as one transaction."""


class Observations:
    """The observations of all agents. What cannot be stored is cached while this process runs."""

    def __init__(self, memory: ObservationStore | None = None) -> None:
        self._memory = memory
        # Observations that could not be stored, or have no store.
        self._known: dict[AgentName, Observed] = {}

    def of(self, agent: AgentName) -> Observed:
        stored: bytes | None = None
        if self._memory is not None and agent not in self._known:
            try:
                stored = self._memory.read(*agent)
            except Exception as error:
                _log.warning("observations of %s %s cannot be read: %s", *agent, error)
        return self._known.get(agent) or _decoded(stored)

    def note(self, agent: AgentName, **seen: object) -> None:
        """Store new observations. They replace earlier ones."""
        before = self.of(agent)
        after = msgspec.structs.replace(before, **seen)
        if after == before:
            return
        _log.info("learnt about %s %s: %s", *agent, seen)
        try:
            if self._memory is not None:
                # Another process may have stored other observations.
                self._memory.update(
                    *agent,
                    lambda stored: msgspec.json.encode(msgspec.structs.replace(_decoded(stored), **seen)),
                )
                return
        except Exception as error:
            _log.warning("observations of %s %s are not stored: %s", *agent, error)
        self._known[agent] = after


def _decoded(stored: bytes | None) -> Observed:
    try:
        return Observed() if stored is None else msgspec.json.decode(stored, type=Observed)
    except msgspec.DecodeError:
        # Perhaps from another version of Dragoman: the agent is observed again.
        return Observed()


def name_of(info: AgentInfo | None, command: Sequence[str]) -> AgentName:
    """The agent's own name with a hash of its command: two programs may use one name, and arguments may be secret."""
    digest = hashlib.sha256(shlex.join(command).encode("utf-8", "surrogatepass")).hexdigest()
    name = info.name if info is not None and info.name else PurePath(command[0]).name
    version = info.version if info is not None else ""
    return AgentName(f"{name[:_NAME_LETTERS]} #{digest[:_HASH_DIGITS]}", version[:_NAME_LETTERS])
