from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.consumer import Bridge, soon
from process.living import all_gone
from responses.endpoint import Endpoint, endpoint as endpoint_


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    """The real bridge, with an agent that does what a test says."""
    bridge = Bridge(tmp_path)
    yield bridge
    await bridge.close()
    await soon(all_gone(bridge.pids))


@pytest.fixture
async def endpoint(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Endpoint]:
    """A model endpoint on this machine, whatever stands between this machine and the world."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    async with endpoint_() as served:
        yield served
