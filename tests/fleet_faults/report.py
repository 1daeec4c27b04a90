"""What was injected into fleets, how long they took to recover, and what it broke."""

from __future__ import annotations

import json
from collections import Counter
from statistics import median

from fleet_faults.plan import KINDS, ROLES
from fleet_faults.run import FleetOutcome, Happened

__all__ = ["FleetReport"]


class FleetReport:
    def __init__(self) -> None:
        self._outcomes: list[FleetOutcome] = []

    def add(self, outcome: FleetOutcome) -> None:
        self._outcomes.append(outcome)

    @property
    def broken(self) -> int:
        return sum(bool(outcome.broken) for outcome in self._outcomes)

    @property
    def _happened(self) -> list[Happened]:
        return [each for outcome in self._outcomes for each in outcome.happened]

    def table(self) -> str:
        """A row for each kind of fault: for each role how many, and until every chat had an answer: median and longest."""
        rows = [["", *ROLES]]
        for kind in KINDS:
            cells = []
            for role in ROLES:
                times = [h.recovered for h in self._happened if (h.fault.role, h.fault.kind) == (role, kind)]
                cells.append(f"{len(times)}: {median(times):.0f} s, {max(times):.0f} s" if times else "·")
            rows.append([kind, *cells])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        turns, failed = sum(o.turns for o in self._outcomes), sum(o.failed for o in self._outcomes)
        counts = (
            f"{len(self._outcomes)} runs, {len(self._happened)} faults, {turns} turns, "
            f"{failed} ended with an error, {self.broken} runs broken"
        )
        checked = sum(o.has_all_leases for o in self._outcomes)
        leases = f"In {checked} of the runs the history of leases was complete: every claim was checked against it."
        return "\n".join([*lines, "", counts, leases])

    def json(self) -> str:
        return json.dumps(
            {
                "runs": len(self._outcomes),
                "faults": [
                    {
                        "role": each.fault.role,
                        "kind": each.fault.kind,
                        "lasted": round(each.lasted, 2),
                        "recovered": round(each.recovered, 2),
                        "failures": dict(Counter(each.failures)),
                    }
                    for each in self._happened
                ],
                "turns": sum(outcome.turns for outcome in self._outcomes),
                "failed": sum(outcome.failed for outcome in self._outcomes),
                "broken": self.broken,
                "failures": [
                    {"seed": outcome.plan.seed, "plan": str(outcome.plan), "broken": outcome.broken}
                    for outcome in self._outcomes
                    if outcome.broken
                ],
            },
            indent=1,
        )
