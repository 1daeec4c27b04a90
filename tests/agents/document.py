"""`docs/agents.md`: what the matrix found, and what the catalogue knows. Written by `make agents-table`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from agents.table import Table
from dragoman.agents.catalogue import shipped
from dragoman.agents.entry import CatalogueEntry, Facts

__all__ = ["KNOWN", "known", "tried", "write"]

_HEAD = """# Agents

Written by `make agents-table`; not by hand.

## What was tried

`make test-agents` runs each of these agents, in the version below, through `dragoman vscode`, `dragoman serve` and
`dragoman chat`, against a scripted model and without a network. What cannot work is explained. `careless` is an agent of
the tests that is in no catalogue and does everything late, twice, silently or never: it shows the careful defaults.
"""
KNOWN = "## What is known"
_KNOWN = f"""{KNOWN}

From the catalogue (`dragoman agents list`). An agent that is not in it gets the careful defaults.
"""


def write(document: Path, result: Path) -> int:
    """From the last complete run; without one, what the document has of it stays."""
    if result.exists():
        table = Table()
        table.add(json.loads(result.read_text()))
        begin = tried(table)
    elif document.exists():
        begin = document.read_text().partition(KNOWN)[0]
    else:
        print("There is no complete run to tell of: make test-agents", file=sys.stderr)
        return 1
    document.write_text(begin + known())
    print(f"{document} is written")
    return 0


def tried(table: Table) -> str:
    agents = sorted(table.cells)
    versions = {id_: f" {entry.version}" for id_, entry in shipped().items()}
    lines = [
        _HEAD,
        f"| | {' | '.join(f'{agent}{versions.get(agent, str())}' for agent in agents)} |",
        f"|---|{'---|' * len(agents)}",
    ]
    for scenario in table.scenarios:
        signs = " | ".join(table.sign(agent, scenario) for agent in agents)
        lines.append(f"| {scenario.replace('_', ' ')} | {signs} |")
    lines += ["", *(f"- {note.replace('_', ' ')}" for note in table.notes()), ""]
    return "\n".join(lines) + "\n"


def known() -> str:
    return "\n".join([_KNOWN, *(line for entry in shipped().values() for line in _entry(entry))])


def _entry(entry: CatalogueEntry) -> Iterator[str]:
    facts = entry.facts
    yield f"### {entry.name}\n"
    yield f"`{entry.id}`, {entry.version}. {entry.description}\n"
    if not facts.built_in:
        yield f"- installed from {', '.join(_sources(entry))}{_needs(facts)}"
    if facts.env:
        yield f"- set for it: {', '.join(f'`{name}={value}`' for name, value in facts.env.items())}"
    yield f"- takes tools over {' and '.join(facts.tool_transports)}; waits for one {_limit(facts)}"
    ways = [way for way, can in (("resume", facts.resumes), ("load", facts.loads)) if can]
    yield f"- takes a session up: {' and '.join(ways) or 'no; it is told everything again'}"
    if not facts.lists_again:
        yield "- sees other tools in a new session only"
    yield from (f"- **{caution.text}**" for caution in facts.cautions)
    if facts.when_no_tools is not None:
        yield f"- when it has no tools: {facts.when_no_tools}"
    yield from (f"- {quirk}" for quirk in facts.quirks)
    yield from (f"- {name.replace('_', ' ')} cannot work: {why}" for name, why in facts.cannot.items())
    yield ""


def _sources(entry: CatalogueEntry) -> Iterator[str]:
    if entry.distribution.npx is not None:
        yield f"npm, `{entry.distribution.npx.package}`"
    if entry.distribution.uvx is not None:
        yield f"PyPI, `{entry.distribution.uvx.package}`"
    if entry.distribution.binary:
        yield "an archive of its own"


def _needs(facts: Facts) -> str:
    node, python = facts.needs.node, facts.needs.python
    needs = [f"Node {node}" if node else "", f"Python {python}" if python else ""]
    return "".join(f"; needs {need} or newer" for need in needs if need)


def _limit(facts: Facts) -> str:
    limit = facts.tool_limit
    if limit is None:
        return "as long as it takes"
    return f"{limit.seconds:g} seconds" + (
        ", and longer with progress" if limit.progress_extends else " at most"
    )
