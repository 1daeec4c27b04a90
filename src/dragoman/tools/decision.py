"""Approval questions, and the user's decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from dragoman.lm import CancellationToken, JsonObject
from dragoman.permissions.action import Action
from dragoman.permissions.approvals import LEVELS, ApprovalLevel
from dragoman.tools.tool import Confirmation

__all__ = [
    "LEVELS",
    "ApprovalLevel",
    "Approve",
    "CannotAsk",
    "Confirmer",
    "Decision",
    "Deny",
    "ToolQuestion",
]


@dataclass(frozen=True, slots=True)
class Approve:
    level: ApprovalLevel = "once"
    # File and line of the rule that the person made of this answer.
    new_rule: str | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """A denial. With a reason, the model gets it and may react; without one, the run ends."""

    reason: str | None = None
    # Whether it is a person's. If not, it concerns only this call, and the reason is not a person's words.
    by_user: bool = True


Decision: TypeAlias = Approve | Deny


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """Everything the user needs in order to decide."""

    call_id: str
    tool: str
    display_name: str
    input: JsonObject
    confirmation: Confirmation
    # The levels that may be chosen here: no workspace level without a workspace.
    levels: tuple[ApprovalLevel, ...] = LEVELS
    # What an approval that lasts would be for, in a few plain words.
    covers: str = "exactly this input"
    # What rules are applied to.
    action: Action | None = None
    # The rule that asks, with its reason, or the doubt that a rule raises.
    because: str | None = None
    # Whether the mode that accepts edits would cover it.
    is_plain_edit: bool = False


class CannotAsk(Exception):
    """No person can be asked, for example after the end of input. Not a denial, and not reported as one."""


class Confirmer(Protocol):
    """Asks the user, without a time limit. Raises `CancellationError` when the token is cancelled.

    Raises `CannotAsk`, with the reason in a sentence.
    """

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision: ...
