"""A person's decision about a question of this process, with what lasts of it.

A lasting approval is granted before the conversation gets the decision, so that the decision says how far the yes really
reaches. It is revoked if the conversation does not take the decision.
"""

from __future__ import annotations

from dataclasses import replace

from dragoman.permissions.approvals import ApprovalLevel
from dragoman.permissions.inbox import InboxDecision, InboxOutcome, InboxQuestion
from dragoman.permissions.keys import approval_key
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.question import question_about

__all__ = ["conclude", "levels_for", "promised_levels"]


def promised_levels(services: PermissionServices, question: InboxQuestion) -> tuple[ApprovalLevel, ...]:
    """The levels that the node which has the question can promise."""
    return question.node_levels if question.node else services.approvals.levels_in(_folder(question))


def levels_for(question: InboxQuestion, available: tuple[ApprovalLevel, ...]) -> tuple[ApprovalLevel, ...]:
    """How far a yes to this question may reach, of the levels that can be given."""
    return ("once",) if question_about(question.action, question.ask).covers is None else available


async def conclude(
    services: PermissionServices, question: InboxQuestion, decision: InboxDecision
) -> InboxOutcome:
    """Decide a question, and grant what lasts. Raises what `Inbox.decide` raises; then nothing lasts.

    A question of another node is decided there, and what lasts is granted there.
    """
    if question.node:
        return await services.inbox.decide(question.id, decision)
    action = question.action
    # None: it is for once.
    granted = services.approvals.grant(
        question.approval_session,
        action.permission_tool,
        approval_key(action),
        decision.level,
        workspace=_folder(question),
    )
    if granted is not None:
        # If the store fails, it lasts for the session only, and the person sees that.
        decision = replace(decision, level=granted.level)
    try:
        return await services.inbox.decide(question.id, decision)
    except BaseException:
        if granted is not None:
            services.approvals.revoke(granted.id)
        raise


def _folder(question: InboxQuestion) -> str | None:
    return question.workspace[0] if question.workspace else None
