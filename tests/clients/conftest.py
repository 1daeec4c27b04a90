"""Which clients a run is about."""

from __future__ import annotations

import pytest

# Failed assertions there say what they compared.
pytest.register_assert_rewrite("clients.scenarios", "clients.drivers", "clients.programs")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients", help="only these rows, with commas between")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = config.getoption("clients", None)
    if named is None:
        return
    wanted = named.split(",")
    others = [item for item in items if _client(item) not in (None, *wanted)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def _client(item: pytest.Item) -> str | None:
    call: pytest.CallSpec2 | None = getattr(item, "callspec", None)  # type: ignore[name-defined]
    return None if call is None else call.params.get("client")
