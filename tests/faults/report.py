"""What was injected where, how often, and what it broke."""

from __future__ import annotations

import json
from collections import Counter

from faults.plan import FAULTS, STATES
from faults.run import Outcome

__all__ = ["Report"]

_TWO = "two at a time"


class Report:
    def __init__(self) -> None:
        self._runs: Counter[tuple[str, str]] = Counter()
        self._broken: Counter[tuple[str, str]] = Counter()
        self._outcomes: list[Outcome] = []

    @property
    def runs(self) -> int:
        return self._runs.total()

    @property
    def broken(self) -> int:
        return self._broken.total()

    def add(self, outcome: Outcome) -> None:
        first, *second = outcome.plan.faults
        place = (_TWO if second else first, outcome.plan.state)
        self._runs[place] += 1
        self._broken[place] += bool(outcome.broken)
        self._outcomes.append(outcome)

    def table(self) -> str:
        """A row for each fault, a column for each state; how many runs, and behind a slash how many of them broke."""
        states = [state for state in STATES if any(place[1] == state for place in self._runs)]
        faults = [fault for fault in (*FAULTS, _TWO) if any(place[0] == fault for place in self._runs)]
        rows = [["", *states, "all"]]
        for fault in faults:
            cells = [self._cell(fault, state) for state in states]
            rows.append([fault, *cells, str(sum(self._runs[fault, state] for state in states))])
        rows.append(["all", *(str(sum(self._runs[f, s] for f in faults)) for s in states), str(self.runs)])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if not column else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        missed = [
            f"{', '.join(outcome.missed)} did not happen: {outcome.plan}"
            for outcome in self._outcomes
            if outcome.missed
        ]
        counts = f"{self.runs} runs, {self.injected} faults injected, {self.broken} runs broken, {len(missed)} without their fault"
        return "\n".join([*lines, "", *missed, counts])

    @property
    def injected(self) -> int:
        return sum(len(outcome.injected) for outcome in self._outcomes) - self._runs["nothing", "idle"]

    @property
    def hollow(self) -> int:
        """Runs that show nothing, because what they are about did not happen. Nobody promises that of a random moment."""
        return sum(bool(outcome.missed) and not outcome.plan.is_anywhere for outcome in self._outcomes)

    def _cell(self, fault: str, state: str) -> str:
        runs, broken = self._runs[fault, state], self._broken[fault, state]
        return "·" if not runs else f"{runs}/{broken}" if broken else str(runs)

    def json(self) -> str:
        return json.dumps(
            {
                "runs": self.runs,
                "injected": self.injected,
                "hollow": self.hollow,
                "broken": self.broken,
                "faults": [
                    {"fault": fault, "state": state, "runs": runs, "broken": self._broken[fault, state]}
                    for (fault, state), runs in sorted(self._runs.items())
                ],
                "failures": [
                    {"seed": outcome.plan.seed, "plan": str(outcome.plan), "broken": outcome.broken}
                    for outcome in self._outcomes
                    if outcome.broken
                ],
            },
            indent=1,
            ensure_ascii=False,
        )
