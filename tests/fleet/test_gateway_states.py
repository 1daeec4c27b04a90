"""What a gateway and its fleet show of themselves to operators, while something is wrong or ends."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from fake_agent.steps import open_gate
from fleet.node_processes import FleetProcesses, fleet_processes
from fleet.stalling_proxy import stalling_proxy

pytestmark = pytest.mark.long


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[FleetProcesses]:
    async with fleet_processes(tmp_path) as each:
        yield each


async def test_a_gateway_that_is_cut_off_says_so_and_the_status_names_the_responses_that_wait_for_one(
    fleet: FleetProcesses,
) -> None:
    async with stalling_proxy(fleet.url) as proxy:
        await fleet.worker("w1")
        gateway = await fleet.gateway("g1", proxy.url)
        going = gateway.begin(["say", "Half"], ["gate", "on"], ["say", " and whole."], background=True)
        await going.until("Half")
        id_ = going.events[0]["response"]["id"]

        async def readiness() -> tuple[int, str]:
            found = await gateway.client.get("/readyz")
            return found.status_code, found.json().get("reason", "")

        async def metric(name: str) -> float:
            text = (await gateway.client.get("/metrics")).text
            [line] = [each for each in text.splitlines() if each.startswith(f"dragoman_{name} ")]
            return float(line.split()[1])

        assert await readiness() == (200, "")
        known = {
            name: await metric(f"fleet_{name}") for name in ("connected", "workers", "streams", "orphans")
        }
        assert known == {"connected": 1, "workers": 1, "streams": 1, "orphans": 0}
        assert await metric("fleet_lease_seconds") > 0
        proxy.stall()
        await fleet.until_true(lambda: _is_told(readiness, 503))
        assert (await readiness())[1] in (
            "NATS cannot be reached.",
            "This gateway has no lease now, because it could not be renewed in time.",
        )
        assert (await gateway.client.get("/healthz")).status_code == 200

        async def is_shown() -> bool:
            said = await fleet.run("fleet", "status")
            return (
                f"w1 keeps background responses whose gateway is gone, until another one continues them: {id_}"
                in said
            )

        await fleet.until_true(is_shown)
        proxy.go_on()
        await fleet.until_true(lambda: _is_told(readiness, 200))
        open_gate(fleet.place("w1"), "on")
        assert (await going.end())["response"]["output"][-1]["content"][0]["text"] == "Half and whole."
        # It was this gateway that was cut off.
        assert await metric("fleet_workers_lost_total") == 0


async def _is_told(readiness: Callable[[], Awaitable[tuple[int, str]]], status: int) -> bool:
    return (await readiness())[0] == status


async def test_a_gateway_that_ends_is_shown_as_one_that_drains(fleet: FleetProcesses) -> None:
    await fleet.worker("w1")
    gateway = await fleet.gateway("g1")
    going = gateway.begin(["say", "Half"], ["gate", "on"], ["say", " and whole."])
    await going.until("Half")
    gateway.node.signal(signal.SIGTERM)

    async def is_shown() -> bool:
        nodes = (await fleet.run("fleet", "status")).splitlines()
        return any(line.split()[:3] == ["g1", "gateway", "drains"] for line in nodes)

    await fleet.until_true(is_shown)
    open_gate(fleet.place("w1"), "on")
    assert (await going.end())["type"] == "response.completed"
    assert await gateway.node.end() == 0
