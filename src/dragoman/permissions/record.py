"""The latest decisions: each action with the decision and its origin, newest last.

In memory, for the editor's command that turns a recent question into a lasting approval. It keeps complete actions, so
that such an approval covers exactly what was shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from dragoman.lm.json import encode
from dragoman.permissions.action import Action
from dragoman.permissions.approvals import ApprovalLevel, Approvals
from dragoman.permissions.keys import approval_key, covered

__all__ = ["By", "DecisionRecord", "Recorded"]

# Who decided: a person, an approval that a person gave before, a rule of the policy, a setting, the mode that accepts edits, the
# client without asking, the time limit, the limit on open requests, or the end of the turn. `read-only`: a tool that only
# reads needs no decision. `unasked`: it needs a person, and none can be asked.
By: TypeAlias = Literal[
    "person",
    "approval",
    "rule",
    "read-only",
    "setting",
    "mode",
    "unasked",
    "client",
    "timeout",
    "limit",
    "end",
]

_MOST = 50
# Actions contain whole files; at most so many bytes of them are stored.
_MOST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Recorded:
    id: str
    action: Action
    # What a session approval is bound to, and a workspace approval.
    session: str
    workspace: str
    at: datetime
    # None while the question is open.
    allowed: bool | None = None
    by: By = "person"
    # Which approval, rule or setting, or the reason.
    why: str | None = None
    # Of the action, in bytes as JSON.
    size: int = 0
    # No lasting approval can be given to it.
    once: bool = False

    @property
    def levels(self) -> tuple[ApprovalLevel, ...]:
        """The lasting levels that can be given to it."""
        is_lasting = self.action.sensitive is None and self.action.has_substance and not self.once
        return ("session", "workspace", "always") if is_lasting else ()

    @property
    def covers(self) -> str:
        return covered(approval_key(self.action))


@dataclass(slots=True)
class DecisionRecord:
    """The decisions of one process. Bounded: the oldest go first."""

    _all: deque[Recorded] = field(default_factory=deque)
    _made: int = 0
    # Called with each decision.
    watcher: Callable[[Recorded], None] | None = None

    def add_request(self, action: Action, session: str, workspace: str, *, once: bool = False) -> str:
        """Add a request that is not decided yet. Returns the id that its decision is recorded under."""
        self._made += 1
        size = len(encode(action))
        recorded = Recorded(
            f"q{self._made}", action, session, workspace, datetime.now(UTC), size=size, once=once
        )
        self._all.append(recorded)
        while len(self._all) > _MOST or (len(self._all) > 1 and self._size() > _MOST_BYTES):
            self._all.popleft()
        return recorded.id

    def decided(self, id: str, *, allowed: bool, by: By, why: str | None = None) -> None:  # noqa: A002 - what it is
        for place, recorded in enumerate(self._all):
            # A yes may be taken back, where the agent offers no way to allow it once.
            if recorded.id == id and recorded.allowed is not False:
                self._all[place] = decided = replace(recorded, allowed=allowed, by=by, why=why)
                if self.watcher is not None:
                    self.watcher(decided)

    def newest_first(self) -> tuple[Recorded, ...]:
        return tuple(reversed(self._all))

    def allow(self, id: str, level: ApprovalLevel, approvals: Approvals) -> Recorded | None:  # noqa: A002
        """Approve exactly that action from now on. None: there is no such request, or no such level for it."""
        for recorded in self._all:
            if recorded.id == id and level in recorded.levels:
                action = recorded.action
                approvals.grant(
                    recorded.session,
                    action.permission_tool,
                    approval_key(action),
                    level,
                    workspace=recorded.workspace,
                )
                return recorded
        return None

    def _size(self) -> int:
        return sum(recorded.size for recorded in self._all)
