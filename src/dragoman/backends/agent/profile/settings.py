"""What a conversation with an agent needs to know, all resolved: no configuration file is read after this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.backends.agent.profile.memory_limit import MemoryLimit
from dragoman.backends.agent.profile.traits import Traits
from dragoman.lm import Style
from dragoman.permissions.decide import PermissionSetting
from dragoman.process import Ledger

__all__ = ["AgentSettings", "Timing"]


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds."""

    # An agent is parked after so much idleness.
    idle: float = 30 * 60.0
    # The same over HTTP while its conversation has had one turn only.
    one_turn: float = 60.0
    # How long a person may take to decide.
    human: float = 240 * 60.0
    # How long a cancelled turn may take to stop.
    grace: float = 10.0
    # How long siblings of a call are waited for: after the last arrival, and in all.
    gather: float = 0.15
    gather_limit: float = 1.0
    # How long after its end a reply is given again to the same request.
    retry: float = 10.0
    # How long an agent may take to start. Some take most of a minute now and then.
    start: float = 120.0
    # How long a login may take that the agent does itself, with a person at a browser.
    login: float = 10 * 60.0
    # How long it may take to list the tools when a session begins: one that does, one that was never seen to, and one
    # that was seen not to, which may have changed its mind.
    list_tools: float = 20.0
    list_tools_unsure: float = 5.0
    list_tools_unlikely: float = 1.0
    # How long a prompt is held until changed tools have been listed: by an agent that does so, and by one that may.
    list_again: float = 5.0
    list_again_unsure: float = 1.0
    # How long an agent outside the catalogue gets after it has listed the tools.
    list_settle: float = 0.25
    # When the history of a loaded session counts as complete: so long after its last message, where that is known;
    # after any other update of it; and the longest time it may take.
    history_end: float = 1.0
    history_pause: float = 5.0
    history: float = 60.0


@dataclass(slots=True)
class ChosenLogin:
    method: str | None = None


@dataclass(frozen=True, slots=True)
class AgentSettings:
    model_id: str
    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    traits: Traits = field(default_factory=Traits)
    timing: Timing = field(default_factory=Timing)
    mode: str | None = None
    options: Mapping[str, str | bool | int | float] = field(default_factory=dict)
    permission: PermissionSetting = "deny"
    style: Style = field(default_factory=Style)
    replay_tokens: int = 100_000
    # Offer the agent file access through us. None: where the client offers its files.
    fs: bool | None = None
    # After so many seconds it gives a tool call up, whatever else is known about it.
    tool_limit_seconds: float | None = None
    # The agent's login method, where it requires a login: by the configuration, and as a person has chosen meanwhile.
    auth: str | None = None
    chosen_login: ChosenLogin = field(default_factory=ChosenLogin)
    # The part of `env` that is not inherited from this process.
    own_env: Mapping[str, str] = field(default_factory=dict)
    # Where agents that run are written down.
    ledger: Ledger | None = None
    # With more than so many running, idle ones are parked before their time.
    max_agents: int = 32
    # The same by the memory they take, with the agents of other models.
    memory: MemoryLimit | None = None
    # Where all of this is set, for messages.
    config_file: Path | None = None

    @property
    def login_method(self) -> str | None:
        return self.chosen_login.method or self.auth
