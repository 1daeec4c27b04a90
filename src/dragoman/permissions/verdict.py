"""What the user's rules say about an action: the result of `policy`, and the interface that `permissions` uses.

The package `policy` makes verdicts. It is imported only if there are rules, so the types stand here.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places

__all__ = ["Judge", "MatchedRule", "RuleDecision", "Verdict"]

RuleDecision: TypeAlias = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """A rule that matches an action, and where it stands."""

    decision: RuleDecision
    file: str
    line: int
    reason: str | None = None

    @property
    def name(self) -> str:
        """File and line, for those who must not learn where the file is."""
        return f"{os.path.basename(self.file)}:{self.line}"  # noqa: PTH119 - a name, whatever is in it

    @property
    def where(self) -> str:
        """File and line for a person, with `~` for their home."""
        home = f"{os.path.expanduser('~')}/"  # noqa: PTH111 - Path's own fails without a home
        short = f"~/{self.file[len(home) :]}" if self.file.startswith(home) else self.file
        return f"{short}:{self.line}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say. `decision` is None if no rule decides."""

    decision: RuleDecision | None = None
    # The rules that match, the strictest first.
    rules: tuple[MatchedRule, ...] = ()
    # Why, in a sentence.
    reason: str = ""
    # Why an *ask* or *deny* rule may apply although it cannot be seen for certain; then no setting allows the action.
    doubt: str | None = None
    # For `allow`: whether the rules cover the action although it is sensitive.
    covers_sensitive: bool = False


class Judge(Protocol):
    """Applies rules to actions."""

    def judge(self, action: Action, places: Places) -> Verdict: ...
