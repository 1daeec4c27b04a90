"""`docs/clients.md`: which client was tried with what. Written by `make clients-table`.

`make test-clients` runs every cell that is a "yes" here, and fails if one does not work. So the table follows from the list of
clients alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from clients.rows import ROWS, Row, version
from clients.scenarios import SCENARIOS

__all__ = ["text", "write"]

_COLUMNS = 100
_HEAD = """# Clients

Written by `make clients-table`; not by hand.

`make test-clients` runs each of these clients, in the version below, against `dragoman serve` with
an agent: directly, and through a second `dragoman serve` that uses the first as its endpoint. It is
offline. "yes": the scenario works both ways. The client shows what the agent said, and the agent
gets each prompt once. [Over HTTP](http.md#from-other-programs) says how to set them up. Open WebUI
is tested in a browser (`make test-openwebui`).

- *text*: an answer as a whole. *stream*: the client shows its first words while the agent goes on.
- *tool loop*, *parallel tools*: the agent calls functions of the client, one or two at once, and
  gets their results.
- *second turn*: it goes on in the same session of the agent.
- *thinking*: the client has the agent's thoughts, apart from its answer.
- *structured output*: an object of a given form, by every method that the client has for it.
- *abort*: the client leaves in mid-stream, and the agent stops.
"""


def text() -> str:
    names = [_words(name) for name in SCENARIOS]
    lines = [
        _HEAD,
        f"| client | version | {' | '.join(names)} |",
        f"|---|---|{'---|' * len(names)}",
        *(_line(row) for row in ROWS.values()),
        "",
        *(
            fill(note, _COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
            for row in ROWS.values()
            for note in _notes(row)
        ),
    ]
    return "\n".join(lines) + "\n"


def write(document: Path) -> int:
    document.write_text(text())
    print(f"{document} is written")
    return 0


def _line(row: Row) -> str:
    cells = (_cell(row, scenario) for scenario in SCENARIOS)
    return f"| {row.title} | {version(row)} | {' | '.join(cells)} |"


def _cell(row: Row, scenario: str) -> str:
    if scenario in row.cannot:
        return "–"
    return "yes ¹" if scenario == "second_turn" and row.retells else "yes"


def _notes(row: Row) -> Iterator[str]:
    """Each reason once, with the scenarios that it is about."""
    if row.retells:
        yield f"- ¹ {row.title}, second turn: {row.retells}"
    for reason in dict.fromkeys(row.cannot.values()):
        about = ", ".join(_words(name) for name, why in row.cannot.items() if why == reason)
        yield f"- {row.title}, {about}: {reason}"


def _words(scenario: str) -> str:
    return "structured output" if scenario == "structured" else scenario.replace("_", " ")
