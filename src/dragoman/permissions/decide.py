"""The order of decision: what happens to an action before a person is asked. The first that applies:

    1. a *deny* rule                             refused
    2. `eligible = false` for the tool           asked, and allowed once at most
    3. a sensitive action                        asked, and allowed once at most;
                                                 not if an *allow* rule covers sensitive actions
    4. an *ask* rule                             asked, and allowed once at most
       only a title is known                     asked, and allowed once at most
    5. an *allow* rule                           allowed
    6. a standing approval with this key         allowed
       a read-only tool of the terminal          allowed, unless there is a doubt
    7. a doubt: a rule that may apply            asked
       `auto_approve`, `urls`                    allowed
       an edit, and the chat accepts edits       allowed
    8. otherwise                                 asked

It holds for agents' actions and for the terminal's own tools, in every front end. Where the client cannot be asked,
`unasked` decides by the model's `permission` setting: allowed, refused, or a question at the console. What 2, 3, an *ask*
rule or a doubt would ask about is never allowed by a setting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dragoman.permissions.approvals import Approval
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.layout import in_short
from dragoman.permissions.verdict import MatchedRule, Verdict

__all__ = [
    "EDITS_ACCEPTED",
    "Allowed",
    "AllowedBy",
    "Ask",
    "PermissionSetting",
    "RefusedByRule",
    "StepDecision",
    "decide",
    "unasked",
    "without_folders",
]

# The model's `permission` setting: what happens to an agent's request when its client cannot be asked. ask: the console is.
PermissionSetting: TypeAlias = Literal["deny", "allow-reads", "allow", "ask"]

# What allows an action without a question: a rule, an approval that a person gave before, a setting, the mode that
# accepts edits, or that a tool only reads.
AllowedBy: TypeAlias = Literal["rule", "read-only", "approval", "setting", "mode"]

_REACH = {
    "session": "approved for this session",
    "workspace": "approved for this workspace",
    "always": "always approved",
}
# Why the mode that accepts edits allows an action.
EDITS_ACCEPTED = "edits are accepted in this chat"
_NO_RULES = Verdict()
_MOST_NAMED = 3
# A found file has its rules from anybody: so many characters of what it says, on one line.
_LONGEST_REASON = 400
_LONGEST_PLACE = 200


@dataclass(frozen=True, slots=True)
class Allowed:
    """No question is needed. `why` says so in a few words."""

    why: str
    by: AllowedBy
    # Which approval, by its id.
    approval: str | None = None
    # What the rule gives as its reason.
    rule_reason: str | None = None
    rules: tuple[MatchedRule, ...] = field(default=(), compare=False)

    @property
    def reason(self) -> str:
        """`why`, with the id of the approval or the reason of the rule, for the record of decisions."""
        if self.rule_reason is not None:
            return f"{self.why}: {self.rule_reason}"
        return self.why if self.approval is None else f"{self.why} (approval {self.approval})"


@dataclass(frozen=True, slots=True)
class RefusedByRule:
    """A rule refuses the action, and no person is asked. `why` names the rule, with its reason."""

    why: str
    rules: tuple[MatchedRule, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides."""

    # The rule that asks, with its reason, or the doubt that a rule raises: in a sentence.
    because: str | None = None
    # No setting stands for the person. Where none can be asked, the action is refused.
    needs_person: bool = False
    # The answer is for this one action, and no lasting approval is offered.
    once: bool = False
    # The rules that match, the strictest first.
    rules: tuple[MatchedRule, ...] = field(default=(), compare=False)


StepDecision: TypeAlias = Allowed | RefusedByRule | Ask


def decide(
    tool: str,
    settings: AutoApproval,
    approval: Callable[[], Approval | None],
    verdict: Verdict = _NO_RULES,
    *,
    sensitive: bool = False,
    always_ask: bool = False,
    read_only: bool = False,
    urls: tuple[str, ...] = (),
    accepts_edit: bool = False,
) -> StepDecision:
    """`always_ask`: a request whose substance is not known, or one that no earlier decision can have been meant for.

    `accepts_edit`: the mode that accepts edits covers it (`edit_mode`).
    """
    if verdict.decision == "deny":
        return RefusedByRule(f"{_named(verdict, 'denies', 'deny')} it{_because(verdict)}", verdict.rules)
    asks = verdict.decision == "ask" or verdict.doubt is not None
    is_allowed = verdict.decision == "allow" and not asks
    because = _why_asked(verdict)
    is_uncovered = sensitive and not (is_allowed and verdict.covers_sensitive)
    if settings.must_ask(tool) or is_uncovered or verdict.decision == "ask":
        return Ask(because, needs_person=True, once=True, rules=verdict.rules)
    if always_ask:
        return Ask(because, needs_person=asks, once=True, rules=verdict.rules)
    if is_allowed:
        return Allowed(_allowed_by(verdict), "rule", rule_reason=_reason(verdict), rules=verdict.rules)
    if read_only and not asks:
        return Allowed("read-only", "read-only")
    if (standing := approval()) is not None:
        return Allowed(_REACH[standing.level], "approval", standing.id)
    if asks:
        return Ask(because, needs_person=True, rules=verdict.rules)
    if (by_setting := settings.covers(tool, urls)) is not None:
        return Allowed(by_setting, "setting")
    if accepts_edit:
        return Allowed(EDITS_ACCEPTED, "mode")
    return Ask(because, rules=verdict.rules)


def unasked(
    setting: PermissionSetting, *, needs_person: bool, read: bool
) -> Literal["allowed", "refused", "console"]:
    """What the model's setting makes of an action that the client cannot be asked about.

    What needs a person goes to the console, unless the setting refuses everything.
    """
    if setting == "deny":
        return "refused"
    if setting == "ask" or needs_person:
        return "console"
    return "allowed" if setting == "allow" or read else "refused"


# Wording.


def without_folders(text: str, rules: tuple[MatchedRule, ...]) -> str:
    """A text that names rules, with the names of their files only."""
    for rule in rules:
        text = text.replace(in_short(rule.where, _LONGEST_PLACE), rule.name)
    return text


def _deciding(verdict: Verdict) -> tuple[MatchedRule, ...]:
    return tuple(rule for rule in verdict.rules if rule.decision == verdict.decision)


def _places(verdict: Verdict) -> str:
    places = list(dict.fromkeys(in_short(rule.where, _LONGEST_PLACE) for rule in _deciding(verdict)))
    more = [f"{len(places) - _MOST_NAMED} more"] if len(places) > _MOST_NAMED else []
    return ", ".join([*places[:_MOST_NAMED], *more])


def _named(verdict: Verdict, one: str, several: str) -> str:
    is_one = len(_deciding(verdict)) == 1
    return f"The rule{'' if is_one else 's'} at {_places(verdict)} {one if is_one else several}"


def _allowed_by(verdict: Verdict) -> str:
    return f"allowed by the rule{'' if len(_deciding(verdict)) == 1 else 's'} at {_places(verdict)}"


def _reason(verdict: Verdict) -> str | None:
    """The reasons that the deciding rules give, each once."""
    reasons = dict.fromkeys(rule.reason for rule in _deciding(verdict) if rule.reason)
    return in_short(" ".join(reasons), _LONGEST_REASON) or None


def _because(verdict: Verdict) -> str:
    reason = _reason(verdict)
    return f": {reason}" if reason else "."


def _why_asked(verdict: Verdict) -> str | None:
    if verdict.decision == "ask":
        return f"{_named(verdict, 'asks', 'ask')} about this every time{_because(verdict)}"
    if verdict.doubt is None:
        return None
    doubt = in_short(verdict.doubt, _LONGEST_REASON)
    return f"{doubt[:1].upper()}{doubt[1:].removesuffix('.')}."
