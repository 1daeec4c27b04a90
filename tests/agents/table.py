"""The table agent × scenario."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

__all__ = ["Cell", "Table"]

_SIGNS = {
    "passed": "yes",
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


@dataclass
class Table:
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)

    def put(self, agent: str, scenario: str, cell: Cell) -> None:
        row = self.cells.setdefault(agent, {})
        # A test that failed and whose end failed as well has failed once.
        if scenario not in row or row[scenario].outcome == "passed":
            row[scenario] = cell

    def as_json(self) -> dict[str, dict[str, dict[str, object]]]:
        return {
            agent: {name: asdict(cell) for name, cell in row.items()} for agent, row in self.cells.items()
        }

    def as_text(self) -> str:
        agents = sorted(self.cells)
        scenarios = list(dict.fromkeys(name for row in self.cells.values() for name in row))
        width = max(map(len, scenarios)) + 2
        widths = {agent: max(len(agent), 8) + 2 for agent in agents}
        lines = ["scenario".ljust(width) + "".join(agent.ljust(widths[agent]) for agent in agents)]
        for name in scenarios:
            signs = {agent: self._sign(agent, name) for agent in agents}
            lines.append(name.ljust(width) + "".join(signs[agent].ljust(widths[agent]) for agent in agents))
        lines += ["", *self._notes()]
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def _sign(self, agent: str, scenario: str) -> str:
        cell = self.cells[agent].get(scenario)
        return "not run" if cell is None else _SIGNS[cell.outcome]

    def _notes(self) -> list[str]:
        return [
            f"{agent}: {cell.note}" if cell.outcome == "missing" else f"¹ {agent}, {name}: {cell.note}"
            for agent, row in sorted(self.cells.items())
            for name, cell in row.items()
            if cell.note
        ]
