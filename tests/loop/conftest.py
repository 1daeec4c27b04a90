"""Every test of the loop runs in virtual time."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from virtual_clock import VirtualClock, VirtualTimeLoop, running_clock


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual time": VirtualTimeLoop}


@pytest.fixture
async def clock() -> VirtualClock:
    return running_clock()
