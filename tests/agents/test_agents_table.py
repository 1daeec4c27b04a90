"""The table, and the document that it is in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agents.document import KNOWN, known, tried, write
from agents.rows import ROWS
from agents.table import Cell, Table, judged
from dragoman.agents.catalogue import shipped

_DOCUMENT = Path(__file__).parents[2] / "docs" / "agents.md"
_PINS = Path(__file__).with_name("pins")
_SCENARIO = re.compile(r"^async def test_(\w+)\(", re.MULTILINE)


def _scenarios() -> list[str]:
    return _SCENARIO.findall(Path(__file__).with_name("matrix.py").read_text())


@pytest.fixture
def table() -> Table:
    table = Table()
    table.put("claude", "text", Cell("passed"))
    table.put("codex", "text", Cell("cannot", "its nature"))
    table.put("codex", "image", Cell("passed", "by a ticket"))
    return table


def test_a_reason_that_is_out_of_date_is_a_failure_and_a_race_is_told() -> None:
    assert judged("its nature", passed=False) == "cannot"
    assert judged("its nature", passed=True) == "failed"
    assert judged("at times, its nature", passed=False) == "cannot"
    assert judged("at times, its nature", passed=True) == "worked"


def test_what_other_processes_found_is_one_table(table: Table) -> None:
    whole = Table()
    for agent in ("claude", "codex"):
        whole.add({agent: table.as_json()[agent]})
    assert whole == table
    lines = whole.as_text().splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["scenario", "claude", "codex"],
        ["text", "yes", "no", "¹"],
        ["image", "not", "run", "yes"],
    ]
    assert lines[4:] == ["¹ codex, text: its nature", "codex, image: by a ticket"]


def test_a_test_whose_end_failed_as_well_has_failed_once(table: Table) -> None:
    table.put("claude", "text", Cell("failed"))
    table.put("claude", "text", Cell("passed"))
    assert table.sign("claude", "text") == "FAILED"


def test_the_reason_of_a_row_that_is_missing_is_told_once(table: Table) -> None:
    for scenario in ("text", "image"):
        table.put("fast-agent", scenario, Cell("missing", "no Python"))
    assert table.as_text().count("fast-agent: no Python") == 1


def test_without_a_new_run_the_document_keeps_what_it_has_of_the_last(table: Table, tmp_path: Path) -> None:
    document, nowhere = tmp_path / "agents.md", tmp_path / "table.json"
    assert write(document, nowhere) == 1
    document.write_text(f"{tried(table)}{KNOWN}\n\nold")
    assert write(document, nowhere) == 0
    assert document.read_text() == tried(table) + known()


def test_every_row_is_in_the_catalogue_and_every_reason_is_about_a_scenario() -> None:
    scenarios = _scenarios()
    assert len(scenarios) >= 20
    assert {row.agent for row in ROWS.values() if row.agent} <= shipped().keys()
    for entry in shipped().values():
        assert entry.facts.cannot.keys() <= set(scenarios)


def test_the_hash_in_the_catalogue_is_that_of_the_package_that_was_tried() -> None:
    for agent in ("claude", "claude-node20", "codex", "copilot"):
        entry = shipped()[agent]
        assert entry.distribution.npx is not None
        name, _, version = entry.distribution.npx.package.rpartition("@")
        lock = json.loads((_PINS / agent / "package-lock.json").read_text())
        tried = lock["packages"][f"node_modules/{name}"]
        assert tried["version"] == version == entry.version
        assert tried["integrity"] == entry.facts.integrity


def test_the_hash_in_the_catalogue_is_that_of_the_wheel_that_was_tried() -> None:
    entry = shipped()["fast-agent"]
    pins = (_PINS / "fast-agent.txt").read_text()
    [tried] = re.findall(r"^fast-agent-mcp==(\S+) \\\n((?:    --hash=\S+(?: \\)?\n)+)", pins, re.MULTILINE)
    assert tried[0] == entry.version
    assert f"--hash={entry.facts.integrity}" in tried[1]


def test_the_document_is_what_make_agents_table_writes() -> None:
    before, heading, rest = _DOCUMENT.read_text().partition(KNOWN)
    assert heading + rest == known(), "make agents-table"
    for name, row in ROWS.items():
        version = "" if row.agent is None else f" {shipped()[row.agent].version}"
        assert f"| {name}{version} |" in before
    for scenario in _scenarios():
        assert f"| {scenario.replace('_', ' ')} |" in before
    assert "FAILED" not in before
    assert "not run" not in before
