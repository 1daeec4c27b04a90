"""The short form of `make test-faults`: a few of its runs, and whether its checks see what they are there to see."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import faults.__main__
from dragoman.store import Database
from faults.holding import Holding
from faults.invariants import broken_by
from faults.journals import journals_broken_by
from faults.plan import FAULTS, FIRST_OF_TWO, PLACES, Act, Plan, plan_of, smaller
from faults.plot import drawn, slope
from faults.report import Report
from faults.run import Outcome, Run, run_plan

# Where the most can go wrong.
_PLANS = (
    Plan(1, ("killed",), "awaiting a result", (("call",),), 0, takes_up="resume"),
    Plan(2, ("bridge killed",), "approved", (("ask",),), 0, transport="stdio"),
    Plan(5, ("bridge killed",), "speaking", (("call",), ("speak",)), 1, takes_up="resume"),
    Plan(6, ("bridge killed",), "awaiting a result", (("call",),), 0),
    Plan(7, ("bridge killed",), "awaiting a permission", (("ask",),), 0, front="serve"),
    Plan(3, ("floods", "bridge killed"), "speaking", (("speak",),), 0),
    Plan(4, ("killed", "vanishes"), "awaiting a permission", (("ask",),), 0),
)


@pytest.mark.long
@pytest.mark.parametrize("plan", _PLANS, ids=lambda plan: f"{'+'.join(plan.faults)}, {plan.state}")
async def test_i1_i2_i4_i5_i6_i7_hold_after_a_fault(plan: Plan, tmp_path: Path) -> None:
    outcome = await run_plan(plan, tmp_path / "run")
    assert not outcome.missed
    assert not outcome.broken, "\n".join(["", str(plan), *outcome.broken, outcome.stderr])


async def test_i2_i3_i4_i5_what_is_not_true_is_noticed(tmp_path: Path) -> None:
    """A run in which nothing fails; then its account is falsified, each time in another way."""
    plan = Plan(0, ("nothing",), "speaking", (("speak", "call"), ("ask", "refused")), 0)
    run = Run(plan, tmp_path / "run")
    try:
        await run.drive()
        await run.finish()
        assert run.broken == []
        chat = run.chat
        assert (len(chat.ran), sorted(chat.decided.values())) == (1, ["allow", "deny"])
        [ran], allowed = chat.ran, next(word for word, said in chat.decided.items() if said == "allow")
        heard, seen = list(chat.heard), set(chat.seen)

        def complaints() -> str:
            found = "\n".join(broken_by(run))
            chat.heard, chat.seen = list(heard), set(seen)
            return found

        chat.seen.discard(heard[0])
        assert "I5: said and lost" in complaints()
        chat.heard.append(heard[-1])
        assert "I5: said twice" in complaints()
        chat.heard.append("«A0.7@1.1»")
        assert "I5: never said" in complaints()
        chat.heard.reverse()
        assert "I5: out of order" in complaints()
        run.other.heard = heard[:1]
        assert "I3: " in complaints()
        run.other.heard = []
        chat.ran[ran] = 2
        assert "ran 2 times" in complaints()
        del chat.ran[ran]
        assert "has a result and never ran" in complaints()
        chat.ran[ran] = 1
        chat.decided[allowed] = "deny"
        assert "I4: " in complaints()
        chat.decided[allowed] = "allow"
        chat.seen.add("«A0.0@1.1»")
        assert "was carried out by 2 agents" in complaints()
        assert complaints() == ""
        chat.heard.append("«A0.7@1.1»")
        assert "J1: acknowledged and not journalled (1 words)" in "".join(await journals_broken_by(run))
        chat.heard = heard
        assert await journals_broken_by(run) == []
        with Database.open(run.world.state) as database, database.writing():
            database.execute("UPDATE journal_heads SET sequence = sequence + 1")
        assert "has gaps" in "".join(await journals_broken_by(run))
        (run.world.folder / "stderr").write_text("Task was destroyed but it is pending!\n")
        assert "the bridge complains" in complaints()
    finally:
        run.close()


def test_a_seed_is_a_plan_and_consecutive_ones_go_everywhere() -> None:
    plans = [plan_of(seed) for seed in range(2 * len(PLACES))]
    assert plans == [plan_of(seed) for seed in range(2 * len(PLACES))]
    assert {(*plan.faults, plan.state) for plan in plans} == set(PLACES)
    assert {fault for fault, _ in PLACES} == set(FAULTS)
    assert {plan.front for plan in plans} == {"vscode", "serve"}
    assert all(0 <= plan.turn < len(plan.turns) for plan in plans)


def test_smaller_plans_have_the_same_fault_in_the_same_state_and_come_to_an_end() -> None:
    for seed in range(len(PLACES)):
        plan = plan_of(seed)
        for _ in range(20):
            smallest = next(smaller(plan), plan)
            assert (smallest.faults, smallest.state) == (plan.faults, plan.state)
            if smallest == plan:
                break
            plan = smallest
        assert next(smaller(plan), None) is None
        assert len(plan.turns) <= 2


async def test_of_a_plan_that_breaks_the_smallest_that_does_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def broken_through_serve(plan: Plan, _folder: Path, _holding: object) -> Outcome:
        return Outcome(plan, ["I5: said twice"] if plan.front == "serve" else [])

    monkeypatch.setattr(faults.__main__, "run_plan", broken_through_serve)
    turns: tuple[tuple[Act, ...], ...] = (("ask",), ("call", "speak"), ("calls",))
    plan = Plan(7, ("killed",), "resumed", turns, 1, front="serve", bystander=True, transport="stdio")
    smallest = await faults.__main__.shrunk(plan, tmp_path)
    assert smallest == Plan(7, ("killed",), "resumed", (("call",),), 0, front="serve")


def test_the_report_counts_what_was_injected_where() -> None:
    report = Report()
    plan = plan_of(5)
    report.add(Outcome(plan, injected=plan.faults))
    report.add(Outcome(plan, ["I5: said twice"], injected=plan.faults))
    assert (report.runs, report.injected, report.broken, report.hollow) == (2, 2, 1, 0)
    table = report.table().splitlines()
    assert table[1].split()[-2:] == ["2/1", "2"]
    assert table[-1] == "2 runs, 2 faults injected, 1 runs broken, 0 without their fault"
    assert '"seed": 5' in report.json()


def test_a_run_without_its_fault_is_no_run() -> None:
    report = Report()
    both = plan_of(FIRST_OF_TWO)
    report.add(Outcome(plan_of(5)))
    report.add(Outcome(both, injected=both.faults[:1]))
    report.add(Outcome(plan_of(0), injected=("nothing",)))
    assert (report.runs, report.injected, report.hollow) == (3, 1, 2)
    assert f"{both.faults[1]} did not happen: seed {FIRST_OF_TWO}" in report.table()


def test_what_is_left_behind_is_what_is_more_than_the_conversations_need() -> None:
    holding = Holding(Counter(pipe=9, file=7, socket=6), Counter(pipe=12, file=7, socket=8))
    assert holding.exceeded(Counter(pipe=12, file=7, socket=11), agents=2) == {}
    assert holding.exceeded(Counter(pipe=12, file=7), agents=1) == {"pipe": "12 instead of 9"}
    assert holding.exceeded(Counter({"task sleep": 1}), agents=1) == {"task sleep": "1 instead of 0"}
    assert holding.exceeded(Counter(socket=10), agents=0) == {"socket": "10 instead of 9"}


def test_two_faults_are_as_many_plans_and_the_first_are_those_that_were_met() -> None:
    plans = [plan_of(seed) for seed in range(FIRST_OF_TWO, FIRST_OF_TWO + 60)]
    assert plans == [plan_of(plan.seed) for plan in plans]
    assert all(len(plan.faults) == 2 for plan in plans)
    assert plans[1].faults == ("floods", "bridge killed")
    assert {plan.front for plan in plans} == {"vscode", "serve"}
    assert {plan.apart > 0 for plan in plans} == {True, False}
    assert len({fault for plan in plans for fault in plan.faults}) > 20
    assert {each.faults for each in smaller(plans[0])} >= {("killed",), ("vanishes",)}


def test_a_trend_is_the_rise_of_what_is_judged() -> None:
    points = [(minute / 10, 50 + 3 * minute / 10) for minute in range(100)]
    rise, begin = slope(points)
    assert (round(rise, 6), round(begin, 6)) == (3, 50)
    assert drawn("Memory", [(x, y, 1.0) for x, y in points], 2.0).count("<polyline") == 2
