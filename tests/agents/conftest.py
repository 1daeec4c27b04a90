"""Keeps which scenario went how with which agent, and prints the table at the end."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from agents.install import Missing
from agents.rows import ROWS
from agents.table import Cell, Table
from dragoman.backends.agent.catalogue import traits_of

_TABLE = pytest.StashKey[Table]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TABLE] = Table()


def _place(node: str) -> tuple[str, str] | None:
    """Agent and scenario of a test: `test_one_tool[claude]`."""
    name, _, agent = node.rpartition("::")[2].partition("[")
    return (agent.partition("]")[0], name.removeprefix("test_")) if agent else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An agent's scenarios share its processes, so one worker has them all."""
    for item in items:
        place = _place(item.nodeid)
        if place is not None:
            item.add_marker(pytest.mark.xdist_group(place[0]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    place = _place(item.nodeid)
    if place is None:
        return report
    agent, scenario = place
    reason = dict(traits_of(ROWS[agent].agent).cannot).get(scenario)
    if report.when == "call":
        item.went_well = report.passed  # type: ignore[attr-defined]
        if reason is not None:
            _hold_against(report, reason)
    elif report.failed and call.excinfo is not None and isinstance(call.excinfo.value, Missing):
        report.user_properties.append(("missing", str(call.excinfo.value)))
        if not os.environ.get("CI"):
            # On a machine of one's own a row may be missing, and is said to be.
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {call.excinfo.value}")
    return report


def _hold_against(report: pytest.TestReport, reason: str) -> None:
    """A scenario that the catalogue says cannot work. One that works by chance is shown as that."""
    report.user_properties.append(("reason", reason))
    if report.failed:
        report.outcome = "skipped"
        report.wasxfail = reason


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # With several workers, only their controller prints.
    table = _current
    place = _place(report.nodeid)
    if table is None or place is None or (report.when != "call" and not report.failed and not report.skipped):
        return
    facts = dict(report.user_properties)
    note = str(facts.get("reason") or facts.get("missing") or "")
    outcome: str = "missing" if "missing" in facts else report.outcome
    if "reason" in facts:
        outcome = "worked" if report.passed else "cannot"
    table.put(*place, Cell(outcome, note, round(report.duration, 1)))


_current: Table | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    global _current  # noqa: PLW0603 - reports come without a session
    _current = session.config.stash[_TABLE] if not hasattr(session.config, "workerinput") else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    table = config.stash[_TABLE]
    if not table.cells:
        return
    terminalreporter.section("agents")
    terminalreporter.write(table.as_text())
    named = os.environ.get("DRAGOMAN_AGENTS_TABLE")
    if named:
        Path(named).write_text(json.dumps(table.as_json(), indent=1, sort_keys=True) + "\n")
