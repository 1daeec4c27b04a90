"""The configuration of NATS in the operator's guide: three servers as it says, with TLS, accounts and replicas."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from dragoman.config import FleetConfig
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.folder import FleetFolder
from dragoman.fleet.joining import joined
from dragoman.fleet.streams import make_streams
from fleet.certificates import make_certificates
from fleet.machines import soon
from nats_servers import PROGRAM, free_port, wait_for_port

pytestmark = pytest.mark.long

_GUIDE = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")


def _configurations(folder: Path) -> list[tuple[Path, int]]:
    """The file of each server, and its port. Only names, ports and paths differ from the guide's."""
    [block] = re.findall(r"^```\n(server_name: nats1\n.*?)^```", _GUIDE, re.DOTALL | re.MULTILINE)
    ports = {number: (free_port(), free_port()) for number in (1, 2, 3)}
    found = []
    for number, (port, route) in ports.items():
        text = block.replace("server_name: nats1", f"server_name: nats{number}\nhost: 127.0.0.1")
        text = text.replace("port: 4222", f"port: {port}").replace(
            "port: 6222", f"host: 127.0.0.1\n  port: {route}"
        )
        text = text.replace("/etc/nats/", f"{folder}/").replace("/var/lib/nats", f"{folder}/data{number}")
        for other, (_, its_route) in ports.items():
            text = text.replace(f"nats://nats{other}.example:6222", f"nats://127.0.0.1:{its_route}")
        assert ".example" not in text
        file = folder / f"nats{number}.conf"
        file.write_text(text)
        found.append((file, port))
    return found


async def _make_streams(connection: FleetConnection) -> None:
    """As `dragoman fleet init --replicas 3`, as soon as the servers have found each other."""
    while True:
        try:
            await make_streams(connection, 3, None)
        except (FleetUnavailable, NoAnswer):
            await asyncio.sleep(0.2)
        else:
            return


async def test_three_servers_as_in_the_guide_are_a_cluster_with_tls(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    operator = FleetFolder(tmp_path / "state")
    operator.credentials("admin", "admin")
    shutil.copyfile(operator.accounts_file, tmp_path / "accounts.conf")
    servers = _configurations(tmp_path)
    with ExitStack() as stack:
        for file, port in servers:
            log = stack.enter_context(file.with_suffix(".log").open("wb"))
            server = subprocess.Popen([PROGRAM, "-c", file], stdout=log, stderr=log)  # noqa: ASYNC220 - a start does not block
            stack.callback(server.wait)
            stack.callback(server.kill)
            await wait_for_port(port)
        urls = tuple(f"tls://127.0.0.1:{port}" for _, port in servers)
        admin = FleetConfig(url=urls, credentials=operator.path, tls_ca=tmp_path / "ca.pem")
        async with joined(admin, "admin") as connection:
            await soon(_make_streams(connection))
            info = await connection.js.stream_info("DRAGOMAN_JOURNALS")
            assert info.cluster is not None
            assert len(info.cluster.replicas or ()) == 2
