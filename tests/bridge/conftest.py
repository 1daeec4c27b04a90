from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.consumer import Bridge, soon
from process.living import all_gone


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    """I7 for every test here: when the model is closed, no agent is left."""
    bridge = Bridge(tmp_path)
    yield bridge
    await bridge.close()
    await soon(all_gone(bridge.pids))
