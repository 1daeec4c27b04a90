"""Decisions: who may make them, how far they reach, rules, and two people at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console.asking import ALICE, Asking, models_in, session_of
from dragoman.frontends.console.deciding import Decider, DecisionLevel
from dragoman.frontends.console.wire import ConsoleError
from dragoman.frontends.rule_offers import RuleOffers
from dragoman.models import Models
from dragoman.permissions.decide import Ask
from dragoman.permissions.keys import approval_key
from http_server.kit import soon


class Desk:
    """A decider with real approvals and rules, and a conversation that asks."""

    def __init__(self, folder: Path, *, is_stored: bool = True) -> None:
        self.models: Models = models_in(folder, is_stored=is_stored)
        permissions = self.models.permissions
        self.folder = folder
        self.inbox = permissions.inbox
        self.approvals = permissions.approvals
        self.asking = Asking(self.inbox, str(folder))
        self.decider = Decider(permissions, RuleOffers(self.models))

    @property
    def rules(self) -> str:
        return (self.folder / "own.toml").read_text()

    async def refused(self, *args: object, **options: object) -> ConsoleError:
        with pytest.raises(ConsoleError) as error:
            await soon(self.decider.decide(*args, **options))  # type: ignore[arg-type]  # whatever a test gives
        return error.value


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    await desk.models.close()


async def test_a_yes_reaches_the_agent_before_it_is_an_outcome(desk: Desk) -> None:
    question = desk.asking.ask()
    desk.asking.stored.clear()
    deciding = asyncio.create_task(desk.decider.decide(question.id, session_of(), "allow"))
    await asyncio.sleep(0)
    assert not deciding.done()
    assert desk.inbox.outcome(question.id) is None
    desk.asking.stored.set()
    outcome = await soon(deciding)
    assert (outcome["state"], outcome["by"], outcome["level"]) == ("allowed", "phone", "once")
    (got,) = desk.asking.got
    assert (got.is_allowed, got.by, got.level) == (True, "phone", "once")
    assert desk.approvals.list() == ()


async def test_a_no_has_its_reason_cleaned_and_limited(desk: Desk) -> None:
    question = desk.asking.ask()
    error = await desk.refused(question.id, session_of(), "deny", reason="x" * 2_001)
    assert (error.status, error.code) == (400, "reason_too_long")
    reason = f"  no\x1b[2J\ud800 {'x' * 100}\n"
    outcome = await desk.decider.decide(question.id, session_of(), "deny", reason=reason)
    assert (outcome["state"], outcome["reason"]) == ("denied", f"no␛[2J\ufffd {'x' * 100}")
    assert desk.asking.got[0].reason == outcome["reason"]


@pytest.mark.parametrize("level", ["session", "workspace", "always"])
async def test_a_lasting_yes_is_granted(desk: Desk, level: DecisionLevel) -> None:
    question = desk.asking.ask()
    assert (await soon(desk.decider.decide(question.id, session_of(), "allow", level)))["level"] == level
    (granted,) = desk.approvals.list()
    assert (granted.level, granted.tool) == (level, "dragoman-agent-action-execute")
    assert granted.key == approval_key(question.action)
    assert (granted.session, granted.workspace) == (
        "s1" if level == "session" else None,
        str(desk.folder) if level == "workspace" else None,
    )


async def test_nothing_lasts_of_a_yes_that_came_too_late(desk: Desk) -> None:
    question = desk.asking.ask()
    desk.asking.stored.clear()
    deciding = asyncio.create_task(desk.decider.decide(question.id, session_of(), "allow", "always"))
    await asyncio.sleep(0)
    desk.inbox.close(question.id, "ended")
    desk.asking.stored.set()
    with pytest.raises(ConsoleError) as error:
        await soon(deciding)
    assert (error.value.status, error.value.code) == (410, "closed")
    assert desk.approvals.list() == ()
    outcome = error.value.more["outcome"]
    assert isinstance(outcome, dict)
    assert outcome["state"] == "ended"


async def test_without_a_store_only_a_session_is_promised(tmp_path: Path) -> None:
    desk = Desk(tmp_path, is_stored=False)
    question = desk.asking.ask()
    assert (await desk.refused(question.id, session_of(), "allow", "always")).code == "bad_level"
    assert (await desk.decider.decide(question.id, session_of(), "allow", "session"))["level"] == "session"


@pytest.mark.parametrize("level", ["session", "workspace", "always", "rule"])
async def test_what_is_asked_about_every_time_can_be_allowed_once(desk: Desk, level: DecisionLevel) -> None:
    question = desk.asking.ask(Ask(once=True))
    assert desk.decider.offers(question, session_of()) == ()
    error = await desk.refused(question.id, session_of(), "allow", level, toml="")
    assert error.code == ("offer_changed" if level == "rule" else "bad_level")
    assert (await desk.decider.decide(question.id, session_of(), "allow"))["state"] == "allowed"


async def test_a_session_of_one_key_decides_for_that_key_and_not_for_longer(desk: Desk) -> None:
    alice = session_of(ALICE)
    foreign = desk.asking.ask(connection="http:b")
    assert (await desk.refused(foreign.id, alice, "allow")).status == 404
    assert (await desk.refused("unknown", alice, "allow")).status == 404
    own = desk.asking.ask(connection="http:a")
    for level in ("workspace", "always"):
        assert (await desk.refused(own.id, alice, "allow", level)).code == "bad_level"
    assert desk.decider.offers(own, alice) == ()
    assert (await desk.decider.decide(own.id, alice, "allow", "session"))["level"] == "session"


async def test_of_two_decisions_at_once_the_first_counts_and_the_second_learns_it(desk: Desk) -> None:
    question = desk.asking.ask()
    desk.asking.stored.clear()
    first = asyncio.create_task(desk.decider.decide(question.id, session_of(name="first"), "allow"))
    await asyncio.sleep(0)
    on_its_way = await desk.refused(question.id, session_of(name="second"), "deny")
    desk.asking.stored.set()
    await soon(first)
    after = await desk.refused(question.id, session_of(name="third"), "deny")
    # The request may still end before the agent gets the first answer.
    assert (on_its_way.code, on_its_way.more) == ("decided", {"outcome": None})
    assert on_its_way.message == "first has just allowed this."
    assert (after.status, after.code) == (409, "decided")
    outcome = after.more["outcome"]
    assert isinstance(outcome, dict)
    assert (outcome["state"], outcome["by"]) == ("allowed", "first")
    assert [got.by for got in desk.asking.got] == ["first"]


async def test_a_rule_is_written_as_it_was_shown_and_the_request_allowed(desk: Desk) -> None:
    question, session = desk.asking.ask(), session_of()
    offer = desk.decider.offers(question, session)[-1]
    outcome = await desk.decider.decide(question.id, session, "allow", "rule", toml=offer.toml)
    assert desk.rules == offer.toml
    place = f"{desk.folder / 'own.toml'}:1"
    assert (outcome["state"], outcome["level"], outcome["rule"]) == ("allowed", "rule", place)
    assert desk.asking.got[0].new_rule == place
    # It is in force: the next such request needs no question.
    services = desk.models.permissions
    decided = services.decide(question.action, "s2", question.workspace)
    assert type(decided).__name__ == "Allowed"


async def test_a_rule_that_is_not_offered_like_this_is_not_written(desk: Desk) -> None:
    question, session = desk.asking.ask(), session_of()
    offers = desk.decider.offers(question, session)
    for toml in (f"{offers[0].toml}x", "", offers[0].toml.rstrip()):
        error = await desk.refused(question.id, session, "allow", "rule", toml=toml)
        assert (error.status, error.code) == (409, "offer_changed")
    alice = session_of(ALICE)
    error = await desk.refused(question.id, alice, "allow", "rule", toml=offers[0].toml)
    assert error.code == "offer_changed"
    assert (await desk.refused(question.id, session, "allow", "rule")).code == "bad_offer"
    assert desk.rules == ""
    assert desk.asking.got == []


async def test_no_rule_is_written_for_a_question_that_is_over(desk: Desk) -> None:
    question, session = desk.asking.ask(), session_of()
    offer = desk.decider.offers(question, session)[0]
    desk.inbox.close(question.id, "expired")
    error = await desk.refused(question.id, session, "allow", "rule", toml=offer.toml)
    assert (error.status, error.code) == (410, "closed")
    assert desk.rules == ""


async def test_a_rule_stays_although_the_request_ends_meanwhile_and_the_person_learns_both(
    desk: Desk,
) -> None:
    question, session = desk.asking.ask(), session_of()
    offer = desk.decider.offers(question, session)[0]
    desk.asking.stored.clear()
    deciding = asyncio.create_task(
        desk.decider.decide(question.id, session, "allow", "rule", toml=offer.toml)
    )
    await asyncio.sleep(0)
    desk.inbox.close(question.id, "ended")
    desk.asking.stored.set()
    with pytest.raises(ConsoleError) as error:
        await soon(deciding)
    assert error.value.status == 410
    assert f"{desk.folder / 'own.toml'}:1 is in force" in error.value.message
    assert desk.rules


async def test_a_file_that_cannot_be_written_leaves_the_question_open(desk: Desk) -> None:
    question, session = desk.asking.ask(), session_of()
    offer = desk.decider.offers(question, session)[0]
    (desk.folder / "own.toml").write_text("not toml [")
    error = await desk.refused(question.id, session, "allow", "rule", toml=offer.toml)
    assert (error.status, error.code) == (409, "rule_not_written")
    assert desk.inbox.check_open(question.id) is question


async def test_a_refusal_cannot_last(desk: Desk) -> None:
    question = desk.asking.ask()
    assert (await desk.refused(question.id, session_of(), "deny", "always")).code == "bad_level"
    assert desk.inbox.check_open(question.id) is question
