"""Real HTTP clients × what is done with them, against one server and through a chain of two.

Run by `make test-clients`; `make test` does not look here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from clients.drivers import Libraries
from clients.rows import ROWS
from clients.scenarios import SCENARIOS, Client, Trial
from clients.serving import WAYS, Servers, Way, servers

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Servers]:
    async with servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


class Clients:
    """One process for each environment, started when it is needed."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._libraries: dict[str, Libraries] = {}

    async def of(self, runner: str) -> Client:
        if runner not in self._libraries:
            home = self._folders.mktemp(runner) / "home"
            self._libraries[runner] = await Libraries.start(runner, home)
        return self._libraries[runner]

    async def close(self) -> None:
        for each in self._libraries.values():
            await each.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def clients(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Clients]:
    started = Clients(tmp_path_factory)
    yield started
    await started.close()


_CELLS = [
    pytest.param(
        row.id, scenario, way, id=f"{row.id}-{scenario}-{way}", marks=pytest.mark.xdist_group(row.id)
    )
    for row in ROWS.values()
    for scenario in SCENARIOS
    if scenario not in row.cannot
    for way in WAYS
]


@pytest.mark.parametrize(("client", "scenario", "way"), _CELLS)
async def test_client(served: Servers, clients: Clients, client: str, scenario: str, way: Way) -> None:
    row = ROWS[client]
    await SCENARIOS[scenario](Trial(row, await clients.of(row.runner), served, way, scenario))
