"""What lasts of a decision: granted before the conversation has it, and revoked if it does not take it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.permissions.action import Action
from dragoman.permissions.approvals import ApprovalLevel, Approvals
from dragoman.permissions.concluding import conclude, levels_for, promised_levels
from dragoman.permissions.decide import Ask
from dragoman.permissions.inbox import InboxDecision, InboxOutcome, InboxQuestion, QuestionClosed
from dragoman.permissions.pipeline import PermissionServices
from dragoman.store import ApprovalStore, Database

_ACTION = Action(
    agent="a", agent_name="A", risk="execute", kind="execute", title="x", command="x", input="x", folder="/w"
)


def _asked(services: PermissionServices, *workspace: str, takes: bool = True) -> InboxQuestion:
    async def apply(decision: InboxDecision) -> None:
        if takes:
            services.inbox.close(id_, "allowed" if decision.is_allowed else "denied")

    id_ = services.inbox.open(
        _ACTION,
        Ask(),
        apply,
        print,
        conversation="c",
        connection="k",
        client="",
        approval_session="s",
        workspace=workspace,
    )
    question = services.inbox.find(id_)
    assert question is not None
    return question


@pytest.mark.parametrize("level", ["session", "workspace", "always"])
async def test_a_lasting_yes_is_granted_if_it_is_taken(tmp_path: Path, level: ApprovalLevel) -> None:
    with Database.open(tmp_path) as database:
        services = PermissionServices(Approvals(ApprovalStore(database)))
        yes = InboxDecision(is_allowed=True, by="phone", level=level)
        lost = _asked(services, "/w", takes=False)
        with pytest.raises(QuestionClosed):
            await conclude(services, lost, yes)
        assert services.approvals.list() == ()
        taken = _asked(services, "/w")
        assert promised_levels(services, taken) == ("once", "session", "workspace", "always")
        assert (await conclude(services, taken, yes)).decision == yes
        [granted] = services.approvals.list()
        assert granted.level == level


async def test_the_decision_says_how_far_the_yes_really_reaches() -> None:
    services = PermissionServices()
    question = _asked(services)
    assert promised_levels(services, question) == ("once", "session")
    outcome = await conclude(services, question, InboxDecision(is_allowed=True, by="phone", level="always"))
    assert outcome.decision is not None
    assert outcome.decision.level == "session"


async def test_once_and_a_refusal_leave_nothing() -> None:
    services = PermissionServices()
    await conclude(services, _asked(services), InboxDecision(is_allowed=True, by="phone"))
    await conclude(services, _asked(services), InboxDecision(is_allowed=False, by="phone"))
    with pytest.raises(QuestionClosed):
        await conclude(services, _asked(services, takes=False), InboxDecision(is_allowed=False, by="phone"))
    assert services.approvals.list() == ()


async def test_a_question_of_another_node_is_decided_there() -> None:
    services = PermissionServices()
    levels: tuple[ApprovalLevel, ...] = ("once", "session", "always")
    copy = InboxQuestion(
        "w.1", _ACTION, Ask(), "c", "k", "", "", ("/w",), 0.0, 9.0, 0.0, node="w", node_levels=levels
    )

    async def apply(decision: InboxDecision) -> None:
        services.inbox.close_with(copy.id, InboxOutcome("allowed", 1.0, decision))

    services.inbox.mirror(copy, apply)
    assert promised_levels(services, copy) == levels
    outcome = await conclude(services, copy, InboxDecision(is_allowed=True, by="phone", level="always"))
    assert outcome.state == "allowed"
    assert services.approvals.list() == ()


def test_what_is_asked_about_every_time_is_allowed_once() -> None:
    services = PermissionServices()
    question = _asked(services)
    assert levels_for(question, ("once", "session")) == ("once", "session")
    once = InboxQuestion("1", _ACTION, Ask(once=True), "c", "k", "", "", (), 0.0, 9.0, 0.0)
    assert levels_for(once, ("once", "session")) == ("once",)
