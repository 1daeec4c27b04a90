"""Questions and outcomes as the console's API has them. Pure.

Everything that an agent or a client wrote is made visible here: the page shows these texts as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.frontends.rule_offers import RuleOffer
from dragoman.lm import JsonObject
from dragoman.permissions.approvals import ApprovalLevel
from dragoman.permissions.inbox import InboxOutcome, InboxQuestion
from dragoman.permissions.layout import in_short, on_one_line
from dragoman.permissions.question import ActionQuestion, question_about
from dragoman.permissions.verdict import MatchedRule

__all__ = ["offer_json", "outcome_json", "question_json"]

# Of names and paths, which are short unless someone means mischief.
_LONGEST_NAME = 200
_LONGEST_PATH = 1_000


def question_json(
    question: InboxQuestion,
    *,
    key: str | None,
    available_levels: Sequence[ApprovalLevel],
    may_make_rules: bool,
    is_whole: bool = False,
) -> JsonObject:
    """A question. `key` is the name of its client's API key, `is_whole`: nothing of its text is left out."""
    action, ask = question.action, question.ask
    asked = question_about(action, ask)
    levels = _levels(asked, available_levels)
    return {
        "id": question.id,
        "title": asked.title,
        "agent": action.agent,
        "agent_name": in_short(action.agent_name, _LONGEST_NAME),
        "client": in_short(question.client, _LONGEST_NAME) or None,
        "key": key,
        "conversation": question.conversation,
        # The machine of a fleet on which the agent runs.
        "node": question.node or None,
        "folder": on_one_line(action.folder),
        "class": action.risk,
        "sensitive": None if action.sensitive is None else in_short(action.sensitive, _LONGEST_PATH),
        "asked_at": question.asked_at,
        "expires_at": question.expires_at,
        "is_cut": asked.is_cut and not is_whole,
        "sections": [
            {
                "label": section.label,
                "text": section.text,
                "language": section.language,
                "note": section.note,
                "inline": section.is_inline,
            }
            for section in asked.sections(cut=not is_whole)
        ],
        "covers": asked.covers,
        "levels": [*levels, *(["rule"] if may_make_rules and not question.node and len(levels) > 1 else [])],
        "rules": [_rule_json(rule) for rule in ask.rules],
        "why": ask.because,
        "state": "waiting",
    }


def outcome_json(outcome: InboxOutcome) -> JsonObject:
    """How a question ended."""
    decision = outcome.decision
    level = None if decision is None else "rule" if decision.new_rule else decision.level
    return {
        "state": outcome.state,
        "by": None if decision is None else decision.by,
        "at": outcome.at,
        "level": level,
        "reason": None if decision is None else decision.reason,
        "rule": None if decision is None else decision.new_rule,
    }


def offer_json(offer: RuleOffer) -> JsonObject:
    """A rule that can be made of the answer. `toml` is the text that is written, to the letter."""
    return {"words": offer.words, "toml": offer.toml}


def _levels(asked: ActionQuestion, available_levels: Sequence[ApprovalLevel]) -> tuple[ApprovalLevel, ...]:
    return ("once",) if asked.covers is None else tuple(available_levels)


def _rule_json(rule: MatchedRule) -> JsonObject:
    file, _, line = rule.where.rpartition(":")
    return {
        "decision": rule.decision,
        "file": in_short(file, _LONGEST_PATH),
        "line": int(line),
        "reason": None if rule.reason is None else in_short(rule.reason, _LONGEST_PATH),
    }
