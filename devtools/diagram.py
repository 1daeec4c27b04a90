"""Draws the machine of a conversation from its table: `python -m devtools.diagram docs/machine.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.backends.agent.machine.machine import PHASES, TABLE, TableRow

__all__ = ["drawn", "main"]

_INTRODUCTION = """\
# The machine of a conversation

`python -m devtools.diagram docs/machine.md` generates this page from the table in
`src/dragoman/backends/agent/machine/machine.py`. Do not edit it. The docstring of that module
explains the machine.

A conversation is always in one of seven phases, and events lead from one phase to another. An event
that a phase's table below does not list cannot happen in that phase. If it does, the code that runs
the machine has a bug.
"""


def drawn() -> str:
    """The whole page."""
    pieces = [_INTRODUCTION, "```mermaid", "stateDiagram-v2", *_arrows(), "```"]
    for phase in PHASES:
        pieces += ["", f"## {phase}", "", "| event | leads to | what happens |", "|---|---|---|"]
        pieces += [
            f"| `{event.__name__}` | {_leads_to(row)} | {_what_happens(row)} |"
            for (where, event), row in TABLE.items()
            if where == phase
        ]
    return "\n".join(pieces) + "\n"


def _arrows() -> Iterator[str]:
    """One for each two phases, with all events that lead from the one to the other. Staying is not drawn."""
    yield "    [*] --> Parked"
    for before in PHASES:
        for after in PHASES:
            events = [
                event.__name__
                for (where, event), row in TABLE.items()
                if where == before and after in row.leads_to
            ]
            if events and before != after:
                yield f"    {before} --> {after}: {', '.join(events)}"


def _leads_to(row: TableRow) -> str:
    return ", ".join(phase for phase in PHASES if phase in row.leads_to)


def _what_happens(row: TableRow) -> str:
    return (row.handler.__doc__ or "").partition("\n")[0]


def main(arguments: Sequence[str]) -> int:
    """Write the page to the file that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m devtools.diagram FILE\n")
        return 2
    Path(arguments[0]).write_text(drawn(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
