"""Decisions of people at the console: what is checked before one, and what lasts after it.

A decision counts when the owner of the question has acknowledged it (`permissions.concluding`). A rule is written before,
as the terminal does it. Between the check that the question is open and the decision nothing else can happen, so no rule is
written for a question that is over.

A question of another node is decided there: what lasts is granted there, and no rule is made of it here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, TypeAlias

from dragoman.frontends.console.questions import outcome_json
from dragoman.frontends.console.sessions import ConsoleScope, ConsoleSession
from dragoman.frontends.console.wire import ConsoleError
from dragoman.frontends.rule_offers import CannotAddRule, RuleOffer, RuleOffers
from dragoman.lm import JsonObject
from dragoman.lm.surrogates import mended
from dragoman.permissions.approvals import ApprovalLevel
from dragoman.permissions.concluding import conclude, levels_for, promised_levels
from dragoman.permissions.inbox import (
    DecidedAlready,
    DecisionNotAcknowledged,
    InboxDecision,
    InboxQuestion,
    QuestionClosed,
)
from dragoman.permissions.pipeline import PermissionServices
from dragoman.policy.rule import LocatedRule
from dragoman.visible import visible

__all__ = ["Decider", "DecisionLevel", "DecisionWord"]

DecisionWord: TypeAlias = Literal["allow", "deny"]
# rule: once, and a rule is made of it.
DecisionLevel: TypeAlias = ApprovalLevel | Literal["rule"]

_LONGEST_REASON = 2_000
_OWN_LEVELS: tuple[ApprovalLevel, ...] = ("once", "session")


class Decider:
    """Finds questions for a session, and decides them."""

    def __init__(self, permissions: PermissionServices, offers: RuleOffers) -> None:
        self._permissions = permissions
        self._inbox = permissions.inbox
        self._offers = offers

    def question(self, question_id: str, session: ConsoleSession) -> InboxQuestion:
        """A question that the session may see. Raises `ConsoleError`."""
        connection = self._inbox.connection(question_id)
        if connection is None or not session.scope.sees(connection):
            raise ConsoleError(404, "not_found", "There is no such question, or it is long over.")
        question = self._inbox.find(question_id)
        if question is not None:
            return question
        with _mapped_errors():
            return self._inbox.check_open(question_id)

    def available_levels(self, question: InboxQuestion, scope: ConsoleScope) -> tuple[ApprovalLevel, ...]:
        """The levels that a session of this scope can give. What outlasts a session would hold for the clients of other keys."""
        promised = promised_levels(self._permissions, question)
        return promised if scope.sees_all else tuple(each for each in promised if each in _OWN_LEVELS)

    def offers(self, question: InboxQuestion, session: ConsoleSession) -> tuple[RuleOffer, ...]:
        """The rules that can be made of a yes. A request that can be allowed only once has none."""
        # Rules hold for the clients of all keys. Another node has rules of its own.
        if question.node or not (question.workspace and session.scope.sees_all):
            return ()
        if levels_for(question, self.available_levels(question, session.scope)) == ("once",):
            return ()
        return self._offers.of(question.action, self._permissions.places(question.workspace))

    @property
    def rules_file(self) -> str:
        return str(self._offers.file)

    async def decide(
        self,
        question_id: str,
        session: ConsoleSession,
        decision: DecisionWord,
        level: DecisionLevel = "once",
        *,
        toml: str | None = None,
        reason: str | None = None,
    ) -> JsonObject:
        """Decide a question. Returns its outcome when the owner has acknowledged it. Raises `ConsoleError`.

        With the level `rule`, `toml` is the text of an offered rule, as the person saw it.
        """
        question = self.question(question_id, session)
        why = _cleaned(reason)
        with _mapped_errors():
            self._inbox.check_open(question.id)
            if decision == "deny":
                if level != "once":
                    raise ConsoleError(400, "bad_level", "A refusal is for this one request.")
                return await self._conclude(question, _answer(session, why, is_allowed=False))
            if level == "rule":
                rule = self._write_rule(question, session, toml)
                return await self._with_rule(question, _answer(session, why), rule)
            if level not in levels_for(question, self.available_levels(question, session.scope)):
                raise ConsoleError(400, "bad_level", "A yes to this question cannot reach so far.")
            return await self._conclude(question, _answer(session, why, level=level))

    async def _conclude(self, question: InboxQuestion, decision: InboxDecision) -> JsonObject:
        return outcome_json(await conclude(self._permissions, question, decision))

    async def _with_rule(
        self, question: InboxQuestion, decision: InboxDecision, rule: LocatedRule
    ) -> JsonObject:
        rule_location = f"{rule.file}:{rule.line}"
        try:
            return outcome_json(
                await self._inbox.decide(question.id, replace(decision, new_rule=rule_location))
            )
        except QuestionClosed as closed:
            message = (
                f"The request ended before the agent got the answer. The rule at {rule_location} is in force."
            )
            raise _closed(closed, message) from closed

    def _write_rule(self, question: InboxQuestion, session: ConsoleSession, toml: str | None) -> LocatedRule:
        """Write exactly the rule that the person saw. Raises `ConsoleError`."""
        if toml is None:
            raise ConsoleError(400, "bad_offer", "Choose one of the offered rules.")
        chosen = next((each for each in self.offers(question, session) if each.toml == toml), None)
        if chosen is None:
            raise ConsoleError(
                409, "offer_changed", "The rules that can be made of this have changed. Look at them again."
            )
        try:
            return self._offers.add(chosen)
        except CannotAddRule as problem:
            raise ConsoleError(
                409, "rule_not_written", f"The rule was not written. {problem} The question is still open."
            ) from problem


def _answer(
    session: ConsoleSession, reason: str | None, *, is_allowed: bool = True, level: ApprovalLevel = "once"
) -> InboxDecision:
    return InboxDecision(is_allowed, session.name, reason, level)


def _cleaned(reason: str | None) -> str | None:
    """A person's reason as the agent gets it: nothing in it acts on a terminal."""
    if reason is None:
        return None
    if len(reason) > _LONGEST_REASON:
        raise ConsoleError(
            400,
            "reason_too_long",
            f"A reason has at most {_LONGEST_REASON:,} characters; this has {len(reason):,}.",
        )
    return visible(mended(reason)).strip() or None


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except DecidedAlready as first:
        raise _decided(first) from first
    except QuestionClosed as closed:
        raise _closed(closed) from closed
    except DecisionNotAcknowledged as lost:
        raise ConsoleError(
            504 if lost.may_count else 503, "unknown" if lost.may_count else "not_taken", str(lost)
        ) from lost


def _decided(first: DecidedAlready) -> ConsoleError:
    """Another person was first. There is no outcome while their decision is on its way: the request may still end before."""
    by = first.decision.by
    word = "allowed" if first.decision.is_allowed else "denied"
    outcome = None if first.outcome is None else outcome_json(first.outcome)
    message = f"{by} has {word} this already." if outcome else f"{by} has just {word} this."
    return ConsoleError(409, "decided", message, {"outcome": outcome})


def _closed(
    closed: QuestionClosed, message: str = "The request ended before the agent got the answer."
) -> ConsoleError:
    outcome = None if closed.outcome is None else outcome_json(closed.outcome)
    return ConsoleError(410, "closed", message, {"outcome": outcome})
