"""Keeps which scenario went how with which agent, and prints the table at the end."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from agents.install import Missing
from agents.rows import ROWS
from agents.table import Cell, Table, judged
from dragoman.backends.agent.profile.traits import traits_of

_TABLE = pytest.StashKey[Table]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--agent", help="only this row")
    parser.addoption("--table", help="a file for what was found, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TABLE] = Table()


def _place(node: str) -> tuple[str, str] | None:
    """Agent and scenario of a test: `test_one_tool[claude]`."""
    name, _, agent = node.rpartition("::")[2].partition("[")
    return (agent.partition("]")[0], name.removeprefix("test_")) if agent else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("agent", None)
    if wanted is not None:
        others = [item for item in items if (_place(item.nodeid) or ("", ""))[0] != wanted]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


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
        if scenario == "slow_person":
            report.user_properties.append(("note", ROWS[agent].slow_note))
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
    report.user_properties.append(("reason", reason))
    outcome = judged(reason, passed=report.passed)
    if outcome == "cannot":
        report.outcome = "skipped"
        report.wasxfail = reason
    elif outcome == "failed":
        report.outcome = "failed"
        report.longrepr = f"The catalogue says that this cannot work ({reason}), but it has."
    report.user_properties.append(("outcome", outcome))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # With several workers, only their controller prints.
    table = _current
    place = _place(report.nodeid)
    if table is None or place is None or (report.when != "call" and not report.failed and not report.skipped):
        return
    facts = dict(report.user_properties)
    note = str(facts.get("reason") or facts.get("missing") or facts.get("note") or "")
    outcome: str = "missing" if "missing" in facts else report.outcome
    outcome = str(facts.get("outcome") or outcome)
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
    named = config.getoption("table", None)
    if named:
        Path(named).write_text(json.dumps(table.as_json(), indent=1) + "\n")
