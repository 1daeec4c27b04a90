from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from demo_agent.harness import Editor, in_this_process
from dragoman.backends.agent.toolserver import ToolServer
from toolserver.harness import PatientClock


@pytest.fixture
async def editor(tmp_path: Path) -> AsyncIterator[Editor]:
    """A client of an agent in this process."""
    async with in_this_process(tmp_path / "sessions") as editor:
        yield editor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a session works."""
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def clock() -> PatientClock:
    return PatientClock()


@pytest.fixture
async def server(clock: PatientClock) -> AsyncIterator[ToolServer]:
    """The consumer's tool server, which is the MCP library's own."""
    server = ToolServer(clock)
    await server.start()
    yield server
    await server.close()
