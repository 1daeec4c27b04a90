"""A dry run: recorded decisions, judged by rules that did not exist then or have changed since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from dragoman.journal.agent_events import PermissionDecided
from dragoman.journal.decisions import RecordedDecision
from dragoman.permissions.action import Action
from dragoman.policy.outcome import RuleOutcome

__all__ = ["DryRun", "JudgeInWorkspace", "JudgedDecision", "dry_run"]

# Judges an action in the workspace with this folder.
JudgeInWorkspace: TypeAlias = Callable[[Action, str], RuleOutcome]


@dataclass(frozen=True, slots=True)
class JudgedDecision:
    """A decision as it was made, and what the rules come to now."""

    recorded: RecordedDecision
    action: Action
    workspace: str
    now: RuleOutcome

    @property
    def then(self) -> str:
        """How it was decided, in a word or two: "person: yes", "read-only", "timeout"."""
        decided = self.recorded.decided
        if decided is None:
            return "undecided"
        by = _decided_by(decided)
        return f"person: {'yes' if decided.is_allowed else 'no'}" if by == "person" else by


@dataclass(frozen=True, slots=True)
class DryRun:
    judged: tuple[JudgedDecision, ...]
    # How many decisions could not be judged, because what was asked for is no longer recorded.
    without_content: int = 0

    @property
    def loosened(self) -> tuple[JudgedDecision, ...]:
        """A person said no, and the rules would allow it."""
        return self._changed("person: no", "allow")

    @property
    def tightened(self) -> tuple[JudgedDecision, ...]:
        """A person said yes, and the rules would deny it."""
        return self._changed("person: yes", "deny")

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """How many, by how it was decided then and what the rules come to."""
        return Counter((each.then, each.now.decision) for each in self.judged)

    @property
    def saved(self) -> int:
        """How many questions to a person the rules would have answered."""
        return sum(each.then.startswith("person") and each.now.decision != "ask" for each in self.judged)

    def _changed(self, then: str, now: str) -> tuple[JudgedDecision, ...]:
        return tuple(each for each in self.judged if (each.then, each.now.decision) == (then, now))


def dry_run(decisions: Iterable[RecordedDecision], judge: JudgeInWorkspace) -> DryRun:
    judged: list[JudgedDecision] = []
    without_content = 0
    for each in decisions:
        if each.asked is None or each.asked.action is None:
            without_content += 1
        else:
            action = each.asked.action
            # Of the workspace the journal has the first folder.
            workspace = (each.info.workspace if each.info is not None else "") or action.folder
            now = judge(action, workspace)
            if now.is_open and _stands(each.decided, now):
                now = replace(now, decision="allow", reason="as it was allowed then")
            judged.append(JudgedDecision(each, action, workspace, now))
    return DryRun(tuple(judged), without_content)


def _decided_by(decided: PermissionDecided) -> str:
    # Some journals name a tool of the terminal that only reads as one that a rule allowed.
    is_read_only = decided.by == "rule" and decided.why == "read-only"
    return "read-only" if is_read_only else decided.by


def _stands(decided: PermissionDecided | None, now: RuleOutcome) -> bool:
    """Whether what allowed an action then still allows it, as far as rules are concerned."""
    if decided is None or not decided.is_allowed:
        return False
    by = _decided_by(decided)
    return by in ("approval", "read-only") or (by in ("setting", "mode") and now.verdict.doubt is None)
