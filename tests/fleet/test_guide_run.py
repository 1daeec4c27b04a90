"""The operator's guide, carried out: its five minutes on one machine, in order, and its backup of one server."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fleet.node_processes import FleetProcesses, HttpGateway, NodeProcess

pytestmark = pytest.mark.long

_GUIDE = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")
_FIVE_MINUTES = _GUIDE.partition("## Five minutes")[2].partition("\n## ")[0]
_LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", _FIVE_MINUTES, re.DOTALL | re.MULTILINE)
    for line in block.replace("\\\n", "").splitlines()
]


class _Operator:
    """Types the lines of the guide. Only ports are others: those of the guide may be taken."""

    def __init__(self, fleet: FleetProcesses) -> None:
        self.fleet = fleet
        self.nodes: dict[str, NodeProcess] = {}
        self.gateways: list[HttpGateway] = []

    async def carry_out(self, line: str) -> str:
        match shlex.split(line):
            case ["dragoman", "fleet", "up"]:
                await self.fleet.start()
                assert self.fleet.up is not None
                table = re.search(r"^\[fleet\]\n(?:\w+ = .*\n)+", self.fleet.up.said, re.MULTILINE)
                assert table is not None
                (self.fleet.folder / "fleet.toml").write_text(table[0])
                return table[0]
            case ["dragoman", *words, "worker", "--name", name]:
                await self._start(name, *words, "worker", "--name", name)
                await self.nodes[name].until_said("to the fleet at")
                await self.fleet.until_listed(name)
                return self.nodes[name].said
            case ["dragoman", *words, "serve", "--name", name] | [
                "dragoman",
                *words,
                "serve",
                "--name",
                name,
                "--port",
                _,
            ]:
                await self._start(name, *words, "serve", "--name", name, "--port", "0")
                said = await self.nodes[name].until_said("serving at")
                self.gateways.append(self.fleet.client(self.nodes[name]))
                return said
            case ["curl", _, "--json", body]:
                answered = await self.gateways[-1].client.post("/v1/responses", json=json.loads(body))
                assert answered.status_code == 200, answered.text
                return answered.text
            case ["dragoman", *words]:
                return await self.fleet.run(*words)
        raise AssertionError(f"the guide has a line that this test cannot carry out: {line}")

    async def _start(self, name: str, *words: str) -> None:
        self.nodes[name] = await self.fleet.process(*words)

    async def stop(self, *names: str) -> None:
        for name in names:
            self.nodes[name].signal(signal.SIGTERM)
            assert await self.nodes[name].end() == 0, self.nodes[name].said


async def test_the_five_minutes_of_the_guide_and_a_backup(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        fleet = FleetProcesses(tmp_path, stack)
        operator = _Operator(fleet)
        said = {line: await operator.carry_out(line) for line in _LINES}
        [answer] = [json.loads(text) for line, text in said.items() if line.startswith("curl")]
        assert "demo agent" in json.dumps(answer["output"])
        assert said["dragoman fleet drain worker-3"].endswith("worker-3 has ended.\n")
        assert len(operator.gateways) == 2
        assert await operator.nodes["worker-3"].end() == 0

        # As the guide says of a single server: it is stopped, and its folder is copied.
        await operator.stop("gateway-1", "gateway-2", "worker-1", "worker-2")
        assert fleet.up is not None
        fleet.up.signal(signal.SIGTERM)
        assert await fleet.up.end() == 0
        store, backup = fleet.state / "fleet" / "jetstream", tmp_path / "backup"
        shutil.copytree(store, backup)
        shutil.rmtree(store)
        shutil.copytree(backup, store)
        for line in _LINES:
            if line == "dragoman fleet up" or line.endswith(("worker-1", "gateway-1")):
                await operator.carry_out(line)
        gateway = operator.gateways[-1]
        await gateway.until_offered("demo")
        assert (await gateway.client.get(f"/v1/responses/{answer['id']}")).json()["id"] == answer["id"]
        after = await gateway.ask("What did I say before?", "demo", previous_response_id=answer["id"])
        assert "who are you" in after.text
