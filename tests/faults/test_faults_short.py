"""The short form of `make test-faults`: a few of its runs, and whether its checks see what they are there to see."""

from __future__ import annotations

from pathlib import Path

import pytest

import faults.__main__
from faults.invariants import broken_by
from faults.plan import FAULTS, PAIRS, Act, Plan, plan_of, smaller
from faults.plot import drawn, slope
from faults.report import Report
from faults.run import Outcome, Run, run_plan

# Where the most can go wrong.
_PLANS = (
    Plan(1, "killed", "awaiting a result", (("call",),), 0, takes_up="resume"),
    Plan(2, "bridge killed", "approved", (("ask",),), 0, transport="stdio"),
)


@pytest.mark.parametrize("plan", _PLANS, ids=lambda plan: f"{plan.fault}, {plan.state}")
async def test_i1_i2_i4_i5_i6_i7_hold_after_a_fault(plan: Plan, tmp_path: Path) -> None:
    outcome = await run_plan(plan, tmp_path / "run")
    assert outcome.injected
    assert not outcome.broken, "\n".join(["", str(plan), *outcome.broken, outcome.stderr])


async def test_i2_i3_i4_i5_what_is_not_true_is_noticed(tmp_path: Path) -> None:
    """A run in which nothing fails; then its account is falsified, each time in another way."""
    plan = Plan(0, "nothing", "idle", (("speak", "call"), ("ask", "refused")), 1, front="serve")
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
        (run.world.folder / "stderr").write_text("Task was destroyed but it is pending!\n")
        assert "the bridge complains" in complaints()
    finally:
        run.close()


def test_a_seed_is_a_plan_and_consecutive_ones_go_everywhere() -> None:
    plans = [plan_of(seed) for seed in range(2 * len(PAIRS))]
    assert plans == [plan_of(seed) for seed in range(2 * len(PAIRS))]
    assert {(plan.fault, plan.state) for plan in plans} == set(PAIRS)
    assert {fault for fault, _ in PAIRS} == set(FAULTS)
    assert {plan.front for plan in plans} == {"vscode", "serve"}
    assert all(0 <= plan.turn < len(plan.turns) for plan in plans)


def test_smaller_plans_have_the_same_fault_in_the_same_state_and_come_to_an_end() -> None:
    for seed in range(len(PAIRS)):
        plan = plan_of(seed)
        for _ in range(20):
            smallest = next(smaller(plan), plan)
            assert (smallest.fault, smallest.state) == (plan.fault, plan.state)
            if smallest == plan:
                break
            plan = smallest
        assert next(smaller(plan), None) is None
        assert len(plan.turns) <= 2


async def test_of_a_plan_that_breaks_the_smallest_that_does_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def broken_through_serve(plan: Plan, _folder: Path) -> Outcome:
        return Outcome(plan, ["I5: said twice"] if plan.front == "serve" else [])

    monkeypatch.setattr(faults.__main__, "run_plan", broken_through_serve)
    turns: tuple[tuple[Act, ...], ...] = (("ask",), ("call", "speak"), ("calls",))
    plan = Plan(7, "killed", "resumed", turns, 1, front="serve", bystander=True, transport="stdio")
    smallest = await faults.__main__.shrunk(plan, tmp_path)
    assert smallest == Plan(7, "killed", "resumed", (("call",),), 0, front="serve")


def test_the_report_counts_what_was_injected_where() -> None:
    report = Report()
    plan = plan_of(5)
    report.add(Outcome(plan, injected=True))
    report.add(Outcome(plan, ["I5: said twice"], injected=True))
    assert (report.runs, report.broken) == (2, 1)
    table = report.table().splitlines()
    assert table[1].split()[-2:] == ["2/1", "2"]
    assert table[-1] == "2 runs, 2 faults injected, 1 runs broken"
    assert '"seed": 5' in report.json()


def test_a_trend_is_the_rise_of_what_is_judged() -> None:
    points = [(minute / 10, 50 + 3 * minute / 10) for minute in range(100)]
    rise, begin = slope(points)
    assert (round(rise, 6), round(begin, 6)) == (3, 50)
    assert drawn("Memory", [(x, y, 1.0) for x, y in points], 2.0).count("<polyline") == 2
