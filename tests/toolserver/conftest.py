from collections.abc import AsyncIterator

import httpx2
import pytest

from dragoman.backends.agent.toolserver import ToolServer
from toolserver.harness import LINKS, Bridge, Link, PatientClock, http_client, tool
from toolserver.raw_http import Raw


@pytest.fixture
def clock() -> PatientClock:
    return PatientClock()


@pytest.fixture
async def server(clock: PatientClock) -> AsyncIterator[ToolServer]:
    server = ToolServer(clock)
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def bridge(server: ToolServer) -> Bridge:
    return Bridge.of(server, tool("ask"))


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with http_client() as client:
        yield client


@pytest.fixture
def raw(bridge: Bridge, http: httpx2.AsyncClient) -> Raw:
    """An agent of that bridge."""
    return Raw(bridge, http)


@pytest.fixture(params=LINKS, ids=str)
def link(request: pytest.FixtureRequest) -> Link:
    chosen: Link = request.param
    return chosen
