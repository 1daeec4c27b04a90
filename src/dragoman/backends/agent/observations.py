"""What agents were seen to do that the protocol leaves open, remembered by their names and versions.

It decides how long the bridge waits for an agent, and whether it is started anew. It never widens what an agent may do.
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

# When an agent tells the history of a session that it loads: before its answer, as ACP asks for; also after it; not at
# all; or so that old words cannot be told from new ones.
HistoryTiming: TypeAlias = Literal["before", "late", "none", "unusable"]

_HASH_DIGITS = 8
# Names and versions are what an agent says of itself.
_NAME_LETTERS = 100


class AgentName(NamedTuple):
    name: str
    version: str


class Observed(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What was seen. None: nothing yet."""

    # Whether it listed the tools when a session began, and again when they had changed.
    lists: bool | None = None
    lists_again: bool | None = None
    # After how long it gave a tool call up, the last time.
    tool_limit_seconds: float | None = None
    history: HistoryTiming | None = None

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
                yield "It goes on sending the history of a loaded session after its answer, and is waited for."
            case "none":
                yield "It does not tell the history of a session that it loads."
            case "unusable":
                yield "It mixes the history of a loaded session with new answers, so its sessions are not loaded."


class ObservationStore(Protocol):
    """Where it is kept."""

    def read(self, name: str, version: str) -> bytes | None: ...

    def update(self, name: str, version: str, change: Callable[[bytes | None], bytes]) -> None:
        """Write what `change` makes of what is kept, with no other process in between."""


class Observations:
    """Of all agents. What cannot be kept is known as long as this process lives."""

    def __init__(self, memory: ObservationStore | None = None) -> None:
        self._memory = memory
        # What could not be kept, or has nowhere to be kept.
        self._known: dict[AgentName, Observed] = {}

    def of(self, agent: AgentName) -> Observed:
        kept: bytes | None = None
        if self._memory is not None and agent not in self._known:
            try:
                kept = self._memory.read(*agent)
            except Exception as error:
                _log.warning("what was learnt about %s %s cannot be read: %s", *agent, error)
        return self._known.get(agent) or _decoded(kept)

    def note(self, agent: AgentName, **seen: object) -> None:
        """What has been seen just now: it stands in the place of what was seen before."""
        before = self.of(agent)
        after = msgspec.structs.replace(before, **seen)
        if after == before:
            return
        _log.info("learnt about %s %s: %s", *agent, seen)
        try:
            if self._memory is not None:
                # Another process may have learnt something else.
                self._memory.update(
                    *agent, lambda kept: msgspec.json.encode(msgspec.structs.replace(_decoded(kept), **seen))
                )
                return
        except Exception as error:
            _log.warning("what was learnt about %s %s is not kept: %s", *agent, error)
        self._known[agent] = after


def _decoded(kept: bytes | None) -> Observed:
    try:
        return Observed() if kept is None else msgspec.json.decode(kept, type=Observed)
    except msgspec.DecodeError:
        # Of another version of Dragoman, perhaps: it is learnt anew.
        return Observed()


def name_of(info: AgentInfo | None, command: Sequence[str]) -> AgentName:
    """What an agent calls itself, with its command: another program may give itself the same name. Arguments may be secret."""
    digest = hashlib.sha256(shlex.join(command).encode("utf-8", "surrogatepass")).hexdigest()
    name = info.name if info is not None and info.name else PurePath(command[0]).name
    version = info.version if info is not None else ""
    return AgentName(f"{name[:_NAME_LETTERS]} #{digest[:_HASH_DIGITS]}", version[:_NAME_LETTERS])
