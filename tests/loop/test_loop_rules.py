"""Rules in the tool loop: what a rule refuses concerns its own call only, and a question says which rule asks (D4, D5, D6)."""

from __future__ import annotations

import pytest

from dragoman.backends.scripted import ScriptedModel, call, reply
from dragoman.lm import CancellationError, CancellationSource, CancellationToken
from dragoman.loop.events import CallDecided
from dragoman.permissions.rules_in_force import RulesInForce
from dragoman.policy.policy import Policy
from dragoman.policy.rule import LocatedRule, PolicyRule
from dragoman.tools.decision import CannotAsk, Decision, Deny, ToolQuestion
from loop_kit import YES, Person, RecordingTool, events_of, last_results, outcomes, play, toolbox
from virtual_clock import VirtualClock


def rules(decision: str, *tools: str, reason: str | None = None) -> RulesInForce:
    rule = PolicyRule(decision=decision, tools=tools, reason=reason)  # type: ignore[arg-type]  # one of three
    return RulesInForce(Policy([LocatedRule(rule, "dragoman.toml", 3)]))


def two_calls() -> ScriptedModel:
    return ScriptedModel.of(
        reply(call("write", path="a", call_id="dg_1"), call("send", path="b", call_id="dg_2")), "I see."
    )


async def test_d6_a_rule_refuses_its_own_call_and_the_others_go_on(clock: VirtualClock) -> None:
    write, send = RecordingTool("write"), RecordingTool("send")
    person = Person(YES)
    tools = toolbox(write, send, rules=rules("deny", "write", reason="Not here."))
    state = await play(two_calls(), tools, person, clock=clock)
    assert outcomes(state) == ["denied", "ok"]
    assert "The rule at dragoman.toml:3 denies it: Not here." in last_results(state)[0].text
    assert [question.tool for question in person.asked] == ["send"]
    decided = events_of(person, CallDecided)
    assert [(each.allowed, each.by) for each in decided] == [(False, "rule"), (True, "person")]


async def test_d6_a_rule_allows_without_a_question(clock: VirtualClock) -> None:
    person = Person()
    tools = toolbox(RecordingTool("write"), RecordingTool("send"), rules=rules("allow", "*"))
    state = await play(two_calls(), tools, person, clock=clock)
    assert outcomes(state) == ["ok", "ok"]
    assert person.asked == []
    assert [each.by for each in events_of(person, CallDecided)] == ["rule", "rule"]


async def test_d4_a_question_that_a_rule_asks_says_so_and_offers_this_call_only(
    clock: VirtualClock,
) -> None:
    person = Person(YES, YES)
    tools = toolbox(
        RecordingTool("write"), RecordingTool("send"), rules=rules("ask", "write", reason="Look.")
    )
    await play(two_calls(), tools, person, clock=clock)
    by_rule, other = person.asked
    assert "The rule at dragoman.toml:3 asks about this every time: Look." in by_rule.confirmation.message
    assert by_rule.levels == ("once",)
    assert "rule" not in other.confirmation.message
    assert len(other.levels) > 1


async def test_d5_an_ask_rule_where_no_one_can_be_asked_is_named(clock: VirtualClock) -> None:
    person = Person(CannotAsk("There is no terminal."))
    tools = toolbox(RecordingTool("write"), RecordingTool("send"), rules=rules("ask", "write"))
    state = await play(two_calls(), tools, person, clock=clock)
    assert "There is no terminal. The rule at dragoman.toml:3 asks" in last_results(state)[0].text
    assert events_of(person, CallDecided)[0].by == "unasked"


async def test_d5_a_denial_that_no_person_gave_is_not_one_of_theirs(clock: VirtualClock) -> None:
    person = Person(Deny("The setting refuses it.", by_user=False), YES)
    tools = toolbox(RecordingTool("write"), RecordingTool("send"))
    state = await play(two_calls(), tools, person, clock=clock)
    assert outcomes(state) == ["denied", "ok"]
    assert "user message" not in last_results(state)[0].text
    assert events_of(person, CallDecided)[0].by == "unasked"


async def test_d6_a_program_that_invokes_a_tool_is_refused_by_a_rule() -> None:
    class Nobody:
        async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
            raise AssertionError(question, token)

    token = CancellationSource().token
    refusing = toolbox(RecordingTool("write"), rules=rules("deny", "write"))
    with pytest.raises(CancellationError, match="denies it") as refused:
        await refusing.invoke("write", {"path": "a"}, Nobody(), token)
    assert refused.value.scope == "rejected"
    allowing = toolbox(RecordingTool("write"), rules=rules("allow", "write"))
    assert not (await allowing.invoke("write", {"path": "a"}, Nobody(), token)).is_error
