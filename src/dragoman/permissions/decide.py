"""The order of decision: what happens to an action before a person is asked. The first that applies:

    1. `eligible = false` for the tool           asked, and allowed once at most
    2. a sensitive action, or only a title       asked, and allowed once at most
    3. a read-only tool of the terminal          allowed
    4. a standing approval with this key         allowed
    5. `auto_approve`, `urls`                    allowed
    6. otherwise                                 asked

It holds for agents' actions and for the terminal's own tools, in every front end. Where no person can be asked,
`unasked` decides: what 1 or a sensitive action would ask about is refused, anything else is left to the model's
`permission` setting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dragoman.permissions.approvals import Approval
from dragoman.permissions.autoapproval import AutoApproval

__all__ = ["Allowed", "AllowedBy", "Ask", "PermissionSetting", "decide", "unasked"]

# The model's `permission` setting: what happens to an agent's request when no person can be asked.
PermissionSetting: TypeAlias = Literal["deny", "allow-reads", "allow"]

# What allows an action without a question: a rule of ours, an approval that a person gave before, or a setting.
AllowedBy: TypeAlias = Literal["rule", "approval", "setting"]

_REACH = {
    "session": "approved for this session",
    "workspace": "approved for this workspace",
    "always": "always approved",
}


@dataclass(frozen=True, slots=True)
class Allowed:
    """No question is needed. `why` says so in a few words."""

    why: str
    by: AllowedBy
    # Which approval, by its id.
    approval: str | None = None

    @property
    def reason(self) -> str:
        """`why`, with the id of the approval, for the record of decisions."""
        return self.why if self.approval is None else f"{self.why} (approval {self.approval})"


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides."""


def decide(
    tool: str,
    settings: AutoApproval,
    approval: Callable[[], Approval | None],
    *,
    sensitive: bool = False,
    always_ask: bool = False,
    read_only: bool = False,
    urls: tuple[str, ...] = (),
) -> Allowed | Ask:
    """`always_ask`: a request whose substance is not known, or one that no earlier decision can have been meant for."""
    if settings.must_ask(tool) or sensitive or always_ask:
        return Ask()
    if read_only:
        return Allowed("read-only", "rule")
    if (standing := approval()) is not None:
        return Allowed(_REACH[standing.level], "approval", standing.id)
    by_setting = settings.covers(tool, urls)
    return Ask() if by_setting is None else Allowed(by_setting, "setting")


def unasked(setting: PermissionSetting, *, sensitive: bool, read: bool) -> bool:
    """Whether an action that no person can be asked about is allowed by the model's setting."""
    return not sensitive and (setting == "allow" or (setting == "allow-reads" and read))
