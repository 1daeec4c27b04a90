"""What agents were seen to do that the protocol leaves open, remembered by their names and versions.

It decides how long the bridge waits for an agent, and whether it is started anew. It never widens what an agent may do.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from dragoman.backends.agent.acp.messages import AgentInfo

__all__ = ["AgentName", "Experience", "History", "Learnt", "Memory", "name_of"]

_log = logging.getLogger(__name__)

# When an agent tells the history of a session that it loads: before its answer, as ACP asks for; also after it; not at
# all; or so that old words cannot be told from new ones.
History: TypeAlias = Literal["before", "late", "none", "unusable"]

_HASH_DIGITS = 8
# Names and versions are what an agent says of itself.
_NAME_LETTERS = 100


class AgentName(NamedTuple):
    name: str
    version: str


class Learnt(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What was seen. None: nothing yet."""

    # Whether it listed the tools when a session began, and again when they had changed.
    lists: bool | None = None
    lists_again: bool | None = None
    # The shortest time after which it gave a tool call up.
    tool_limit_seconds: float | None = None
    history: History | None = None

    @property
    def sentences(self) -> Iterator[str]:
        """For a person."""
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
                else "It does not look at changed tools while it runs, so it is started anew for them."
            )
        if self.tool_limit_seconds is not None:
            yield f"It gave a tool call up after {self.tool_limit_seconds:.0f} seconds."
        match self.history:
            case "before":
                yield "It tells the history of a loaded session before it answers."
            case "late":
                yield "It goes on telling the history of a loaded session after its answer, and is waited for."
            case "none":
                yield "It does not tell the history of a session that it loads."
            case "unusable":
                yield "It mixes the history of a loaded session with new answers, so its sessions are not loaded."


class Memory(Protocol):
    """Where it is kept."""

    def read(self, name: str, version: str) -> bytes | None: ...
    def write(self, name: str, version: str, facts: bytes) -> None: ...


class Experience:
    """Of all agents. What cannot be kept is known as long as this process lives."""

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory
        self._known: dict[AgentName, Learnt] = {}

    def of(self, agent: AgentName) -> Learnt:
        if agent not in self._known:
            self._known[agent] = self._read(agent)
        return self._known[agent]

    def note(self, agent: AgentName, **seen: object) -> None:
        """What has been seen just now: it stands in the place of what was seen before."""
        before = self.of(agent)
        after = msgspec.structs.replace(before, **seen)
        if after == before:
            return
        _log.info("learnt about %s %s: %s", *agent, seen)
        self._known[agent] = after
        if self._memory is not None:
            try:
                self._memory.write(*agent, msgspec.json.encode(after))
            except Exception as error:
                _log.warning("what was learnt about %s %s is not kept: %s", *agent, error)

    def _read(self, agent: AgentName) -> Learnt:
        try:
            kept = self._memory.read(*agent) if self._memory is not None else None
            return Learnt() if kept is None else msgspec.json.decode(kept, type=Learnt)
        except Exception as error:
            _log.warning("what was learnt about %s %s cannot be read: %s", *agent, error)
            return Learnt()


def name_of(info: AgentInfo | None, command: Sequence[str]) -> AgentName:
    """What an agent calls itself. One without a name is known by its command, of which arguments may be secret."""
    if info is not None and info.name:
        return AgentName(info.name[:_NAME_LETTERS], (info.version or "")[:_NAME_LETTERS])
    digest = hashlib.sha256(shlex.join(command).encode("utf-8", "surrogatepass")).hexdigest()
    return AgentName(f"{PurePath(command[0]).name[:_NAME_LETTERS]} #{digest[:_HASH_DIGITS]}", "")
