from collections.abc import AsyncIterator

import pytest

from responses.endpoint import Endpoint, endpoint as endpoint_


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands between this machine and the world, these tests stay on it."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with endpoint_() as served:
        yield served
