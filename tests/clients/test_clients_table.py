"""The table of clients, and the lists that it is made of."""

from __future__ import annotations

from pathlib import Path

from clients.document import text
from clients.rows import PINS, ROWS, version
from clients.scenarios import SCENARIOS

_ROOT = Path(__file__).parents[2]


def test_the_document_is_what_make_clients_table_writes() -> None:
    assert (_ROOT / "docs" / "clients.md").read_text() == text(), "make clients-table"


def test_every_cell_is_tested_or_explained() -> None:
    assert len(SCENARIOS) == 8
    for row in ROWS.values():
        assert row.cannot.keys() <= SCENARIOS.keys(), row.id
        assert all(row.cannot.values()), row.id
        # A client that has objects says by which ways.
        assert bool(row.structured) != ("structured" in row.cannot), row.id


def test_every_client_has_a_pinned_version_that_the_table_names() -> None:
    lines = text().splitlines()
    for row in ROWS.values():
        [line] = [line for line in lines if line.startswith(f"| {row.title} | ")]
        assert f" | {version(row)} | " in line


def test_nothing_is_installed_without_a_hash_or_from_a_named_registry() -> None:
    for file in PINS.rglob("*"):
        if file.name == "package-lock.json":
            assert '"resolved"' not in file.read_text()
        elif file.suffix == ".txt":
            pins = [line for line in file.read_text().splitlines() if not line.startswith("    --hash=")]
            assert pins
            assert all(" \\" in pin for pin in pins), file
