"""Decisions of people at the console: what is checked before one, and what lasts after it.

A decision counts when the owner of the question has acknowledged it. A lasting approval is granted before, so that the
decision says how far the yes really reaches, and revoked if the owner does not take the decision. A rule is written before,
too, as the terminal does it. Between the check that the question is open and the decision nothing else can happen, so no rule
is written for a question that is over.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Literal, TypeAlias

from dragoman.frontends.console.errors import ConsoleError
from dragoman.frontends.console.questions import levels_of, outcome_json
from dragoman.frontends.console.sessions import ConsoleScope, ConsoleSession
from dragoman.frontends.rule_offers import CannotAddRule, RuleOffer, RuleOffers
from dragoman.lm import JsonObject
from dragoman.lm.surrogates import mended
from dragoman.permissions.approvals import ApprovalLevel
from dragoman.permissions.inbox import DecidedAlready, InboxDecision, InboxQuestion, QuestionClosed
from dragoman.permissions.keys import approval_key
from dragoman.permissions.layout import in_short
from dragoman.permissions.pipeline import PermissionServices
from dragoman.policy.rule import LocatedRule
from dragoman.visible import visible

__all__ = ["Decider", "DecisionLevel", "DecisionWord"]

DecisionWord: TypeAlias = Literal["allow", "deny"]
# rule: once, and a rule is made of it.
DecisionLevel: TypeAlias = ApprovalLevel | Literal["rule"]

_LONGEST_REASON = 2_000
_LONGEST_NAME = 200
_OWN_LEVELS: tuple[ApprovalLevel, ...] = ("once", "session")
# Questions whose offers were shown to a session. More than a person looks at in an hour.
_MOST_SHOWN = 500


class Decider:
    """Finds questions for a session, and decides them."""

    def __init__(self, permissions: PermissionServices, offers: RuleOffers) -> None:
        self._permissions = permissions
        self._inbox = permissions.inbox
        self._offers = offers
        # The texts of the rules that were shown, by session and question: each list that it has seen.
        self._shown: OrderedDict[tuple[str, str], set[tuple[str, ...]]] = OrderedDict()

    def question(self, question_id: str, session: ConsoleSession) -> InboxQuestion:
        """A question that the session may see. Raises `ConsoleError`."""
        connection = self._inbox.connection(question_id)
        if connection is None or not session.scope.sees(connection):
            raise ConsoleError(404, "not_found", "There is no such question, or it is long over.")
        question = self._inbox.find(question_id)
        if question is not None:
            return question
        try:
            return self._inbox.check_open(question_id)
        except DecidedAlready as first:
            raise _decided(first) from first
        except QuestionClosed as closed:
            raise _closed(closed) from closed

    def promised(self, question: InboxQuestion, scope: ConsoleScope) -> tuple[ApprovalLevel, ...]:
        """The levels that a session of this scope can give. What outlasts a session would hold for the clients of other keys."""
        if scope.key is not None:
            return _OWN_LEVELS
        return self._permissions.approvals.levels_in(_folder(question))

    def show_offers(self, question: InboxQuestion, session: ConsoleSession) -> tuple[RuleOffer, ...]:
        """The rules that can be made of a yes. The session has seen them from now on, and can choose one."""
        offers = self._offered(question, session)
        shown = self._shown.setdefault((session.id, question.id), set())
        shown.add(tuple(offer.toml for offer in offers))
        self._shown.move_to_end((session.id, question.id))
        while len(self._shown) > _MOST_SHOWN:
            self._shown.popitem(last=False)
        return offers

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
        offer: int | None = None,
        toml: str | None = None,
        reason: str | None = None,
    ) -> JsonObject:
        """Decide a question. Returns its outcome when the owner has acknowledged it. Raises `ConsoleError`.

        With the level `rule`, `offer` is the number of an offered rule, from 0, and `toml` its text as the person saw it.
        """
        if not session.may_decide:
            raise ConsoleError(403, "watch_only", "This device may only watch.")
        question = self.question(question_id, session)
        why = _cleaned(reason)
        try:
            self._inbox.check_open(question.id)
            if decision == "deny":
                if level != "once":
                    raise ConsoleError(400, "bad_level", "A refusal is for this one request.")
                return await self._conclude(question, _answer(session, why, is_allowed=False))
            if level == "rule":
                rule = self._write_rule(question, session, offer, toml)
                return await self._with_rule(question, _answer(session, why), rule)
            if level not in levels_of(question, self.promised(question, session.scope)):
                raise ConsoleError(400, "bad_level", "A yes to this question cannot reach so far.")
            return await self._conclude(question, _answer(session, why, level=level))
        except DecidedAlready as first:
            raise _decided(first) from first
        except QuestionClosed as closed:
            raise _closed(closed) from closed

    def forget(self, question: InboxQuestion) -> None:
        """The question is over: what was offered for it is of no use any more."""
        for key in [key for key in self._shown if key[1] == question.id]:
            del self._shown[key]

    async def _conclude(self, question: InboxQuestion, decision: InboxDecision) -> JsonObject:
        granted = None
        if decision.level != "once":
            action = question.action
            granted = self._permissions.approvals.grant(
                question.session,
                action.permission_tool,
                approval_key(action),
                decision.level,
                workspace=_folder(question),
            )
        if granted is not None:
            # If the store fails, it lasts for the session only, and the person sees that.
            decision = replace(decision, level=granted.level)
        is_taken = False
        try:
            outcome = await self._inbox.decide(question.id, decision)
            is_taken = True
        finally:
            if granted is not None and not is_taken:
                self._permissions.approvals.revoke(granted.id)
        return outcome_json(outcome)

    async def _with_rule(
        self, question: InboxQuestion, decision: InboxDecision, rule: LocatedRule
    ) -> JsonObject:
        place = f"{rule.file}:{rule.line}"
        try:
            outcome = await self._inbox.decide(question.id, replace(decision, new_rule=place))
        except QuestionClosed as closed:
            message = f"The request ended before the agent got the answer. The rule at {place} is in force."
            raise _closed(closed, message) from closed
        return outcome_json(outcome)

    def _write_rule(
        self, question: InboxQuestion, session: ConsoleSession, offer: int | None, toml: str | None
    ) -> LocatedRule:
        """Write exactly the rule that the person saw. Raises `ConsoleError`."""
        if offer is None or offer < 0:
            raise ConsoleError(400, "bad_offer", "Choose one of the offered rules.")
        offers = self._offered(question, session)
        chosen = offers[offer] if offer < len(offers) else None
        lists = self._shown.get((session.id, question.id), set())
        shown = {toml} if toml is not None else {each[offer] for each in lists if offer < len(each)}
        if chosen is None or shown != {chosen.toml}:
            raise ConsoleError(
                409, "offer_changed", "The rules that can be made of this have changed. Look at them again."
            )
        try:
            return self._offers.add(chosen)
        except CannotAddRule as problem:
            raise ConsoleError(
                409, "rule_not_written", f"The rule was not written. {problem} The question is still open."
            ) from problem

    def _offered(self, question: InboxQuestion, session: ConsoleSession) -> tuple[RuleOffer, ...]:
        # What can be allowed only once, no rule of this kind allows. Rules hold for the clients of all keys.
        is_lasting = levels_of(question, self.promised(question, session.scope)) != ("once",)
        if not (question.workspace and is_lasting and session.scope.key is None):
            return ()
        return self._offers.of(question.action, self._permissions.places(question.workspace))


def _answer(
    session: ConsoleSession, reason: str | None, *, is_allowed: bool = True, level: ApprovalLevel = "once"
) -> InboxDecision:
    return InboxDecision(is_allowed, session.name, reason, level)


def _folder(question: InboxQuestion) -> str | None:
    return question.workspace[0] if question.workspace else None


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


def _decided(first: DecidedAlready) -> ConsoleError:
    """Another person was first. There is no outcome while their decision is on its way: the request may still end before."""
    by = in_short(first.decision.by, _LONGEST_NAME)
    word = "allowed" if first.decision.is_allowed else "denied"
    outcome = None if first.outcome is None else outcome_json(first.outcome)
    message = f"{by} has {word} this already." if outcome else f"{by} has just {word} this."
    return ConsoleError(409, "decided", message, {"outcome": outcome})


def _closed(
    closed: QuestionClosed, message: str = "The request ended before the agent got the answer."
) -> ConsoleError:
    outcome = None if closed.outcome is None else outcome_json(closed.outcome)
    return ConsoleError(410, "closed", message, {"outcome": outcome})
