"""Real HTTP clients × what is done with them, against one server and through a chain of two.

Run by `make test-clients`; `make test` does not look here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from clients.drivers import Libraries
from clients.programs.aider import Aider
from clients.programs.codex import Codex
from clients.programs.llm import Llm
from clients.programs.opencode import Opencode
from clients.rows import ROWS, Row
from clients.scenarios import SCENARIOS, Client, Trial
from clients.serving import WAYS, Servers, Way, servers

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Servers]:
    async with servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


class Clients:
    """Each is started when it is needed. Libraries of one environment share a process."""

    def __init__(self, folders: pytest.TempPathFactory, servers: Servers) -> None:
        self._folders = folders
        self._servers = servers
        self._started: dict[str, Libraries | Llm | Aider | Codex | Opencode] = {}

    async def of(self, row: Row) -> Client:
        name = row.runner if row.runner in ("python", "older", "node") else row.id
        if name not in self._started:
            home = self._folders.mktemp(name) / "home"
            match row.runner:
                case "llm":
                    self._started[name] = Llm(home)
                case "aider":
                    self._started[name] = Aider(home)
                case "codex":
                    self._started[name] = Codex(home, websocket=row.id.endswith("websocket"))
                case "opencode":
                    self._started[name] = Opencode(home, self._servers)
                case _:
                    self._started[name] = await Libraries.start(row.runner, home.parent)
        return self._started[name]

    async def close(self) -> None:
        for each in self._started.values():
            await each.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def clients(tmp_path_factory: pytest.TempPathFactory, served: Servers) -> AsyncIterator[Clients]:
    started = Clients(tmp_path_factory, served)
    yield started
    await started.close()


# Longer than anything here takes on a busy machine. Only a test that fails reaches it.
_DEADLINE_SECONDS = 100.0

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
    async with asyncio.timeout(_DEADLINE_SECONDS):
        await SCENARIOS[scenario](Trial(row, await clients.of(row), served, way, scenario))
