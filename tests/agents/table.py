"""The table agent × scenario."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["AT_TIMES", "SIGNS", "Cell", "Table", "judged"]

# How a reason in the catalogue begins that is a race: such a scenario may work.
AT_TIMES = "at times"

SIGNS = {
    "passed": "yes",
    # What cannot work at times, and did this time.
    "worked": "yes ¹",
    "cannot": "no ¹",
    "missing": "missing",
    "failed": "FAILED",
    # Nothing here may be skipped.
    "skipped": "FAILED",
}


@dataclass(frozen=True)
class Cell:
    outcome: str
    # Why it cannot work, or what is missing.
    note: str = ""
    seconds: float = 0.0


def judged(reason: str, *, passed: bool) -> str:
    """The outcome of a scenario of which the catalogue says why it cannot work. One that works all the same has failed:
    either the catalogue is out of date, or the test does not show what it is about.
    """
    if not passed:
        return "cannot"
    return "worked" if reason.startswith(AT_TIMES) else "failed"


@dataclass
class Table:
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)

    def put(self, agent: str, scenario: str, cell: Cell) -> None:
        row = self.cells.setdefault(agent, {})
        # A test that failed and whose end failed as well has failed once.
        if scenario not in row or row[scenario].outcome == "passed":
            row[scenario] = cell

    def add(self, cells: dict[str, dict[str, dict[str, Any]]]) -> None:
        """What another process found."""
        for agent, row in cells.items():
            for scenario, cell in row.items():
                self.put(agent, scenario, Cell(**cell))

    def as_json(self) -> dict[str, dict[str, dict[str, object]]]:
        return {
            agent: {name: asdict(cell) for name, cell in row.items()} for agent, row in self.cells.items()
        }

    @property
    def scenarios(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.cells.values() for name in row))

    def sign(self, agent: str, scenario: str) -> str:
        cell = self.cells[agent].get(scenario)
        return "not run" if cell is None else SIGNS[cell.outcome]

    def as_text(self) -> str:
        agents, scenarios = sorted(self.cells), self.scenarios
        width = max(map(len, ("scenario", *scenarios))) + 2
        widths = {agent: max(len(agent), 8) + 2 for agent in agents}
        lines = ["scenario".ljust(width) + "".join(agent.ljust(widths[agent]) for agent in agents)]
        for name in scenarios:
            signs = (self.sign(agent, name).ljust(widths[agent]) for agent in agents)
            lines.append(name.ljust(width) + "".join(signs))
        lines += ["", *self.notes()]
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def notes(self) -> list[str]:
        """Each once: a row that is missing says so of every scenario."""
        notes = (
            _note(agent, name, cell)
            for agent, row in sorted(self.cells.items())
            for name, cell in row.items()
            if cell.note
        )
        return list(dict.fromkeys(notes))


def _note(agent: str, scenario: str, cell: Cell) -> str:
    match cell.outcome:
        case "missing":
            return f"{agent}: {cell.note}"
        case "passed":
            return f"{agent}, {scenario}: {cell.note}"
        case _:
            return f"¹ {agent}, {scenario}: {cell.note}"
