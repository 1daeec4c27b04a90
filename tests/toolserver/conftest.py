from collections.abc import AsyncIterator

import pytest

from dragoman.backends.agent.toolserver import ToolServer
from toolserver.harness import LINKS, Link, PatientClock


@pytest.fixture
def clock() -> PatientClock:
    return PatientClock()


@pytest.fixture
async def server(clock: PatientClock) -> AsyncIterator[ToolServer]:
    server = ToolServer(clock)
    await server.start()
    yield server
    await server.close()


@pytest.fixture(params=LINKS, ids=str)
def link(request: pytest.FixtureRequest) -> Link:
    chosen: Link = request.param
    return chosen
