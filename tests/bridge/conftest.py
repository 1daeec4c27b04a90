import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bridge.consumer import Bridge, soon
from process.living import all_gone

# `make test-fleet` runs these tests a second time: with the bridge on a worker of a fleet.
_THROUGH_GATEWAY = os.environ.get("DRAGOMAN_BRIDGE") == "fleet"


@pytest.fixture
async def bridge(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Bridge]:
    """I7 for every test here: when the model is closed, no agent is left."""
    async with AsyncExitStack() as stack:
        if _THROUGH_GATEWAY:
            from bridge.through_gateway import (  # noqa: PLC0415 - NATS, for these only
                NOT_THROUGH_GATEWAY,
                gateway_bridge,
            )

            if (why := NOT_THROUGH_GATEWAY.get(request.node.name)) is not None:
                pytest.skip(why)

            server = tmp_path_factory.mktemp("nats")
            bridge = await stack.enter_async_context(gateway_bridge(tmp_path, server))
        else:
            bridge = Bridge(tmp_path)
        yield bridge
        await bridge.close()
        await soon(all_gone(bridge.pids))
