"""A node that cannot join its fleet: the error says why, and which command or key helps."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dragoman.cli.gateway import Gateway
from dragoman.config import FleetConfig
from dragoman.fleet.connection import FleetUnavailable
from dragoman.fleet.credentials import FleetKeys, FleetRole
from dragoman.fleet.joining import joined
from nats_servers import free_port, nats_server

_KEYS = FleetKeys.new()


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with nats_server(tmp_path, _KEYS.server_config()) as url:
        yield url


def _file(folder: Path, role: FleetRole, name: str, keys: FleetKeys = _KEYS) -> Path:
    file = folder / f"{name}.creds"
    file.write_text(keys.credentials(role, name).text())
    return file


async def _error(fleet: FleetConfig, name: str, role: FleetRole | None = None) -> str:
    with pytest.raises(FleetUnavailable) as raised:
        async with joined(fleet, name, role):
            pass
    return str(raised.value)


@pytest.mark.parametrize(("has", "needs"), [("worker", "gateway"), ("gateway", "worker")])
async def test_credentials_of_another_role_are_refused(
    tmp_path: Path, has: FleetRole, needs: FleetRole
) -> None:
    """Without a server: nothing is sent."""
    fleet = FleetConfig(url="nats://127.0.0.1:1", credentials=_file(tmp_path, has, "one"))
    said = await _error(fleet, "one", needs)
    assert f"one.creds are a {has}'s; a {needs} needs a {needs}'s" in said
    assert f"dragoman fleet credentials {needs} NAME" in said
    if needs == "gateway":
        with pytest.raises(FleetUnavailable, match="are a worker's; a gateway needs"):
            async with Gateway.joined(fleet):
                pass


async def test_the_command_for_another_name_is_that_of_the_role(tmp_path: Path) -> None:
    fleet = FleetConfig(url="nats://127.0.0.1:1", credentials=_file(tmp_path, "gateway", "one"))
    said = await _error(fleet, "two", "gateway")
    assert "are for the node one, and this one is two" in said
    assert said.endswith("dragoman fleet credentials gateway two.")
    said = await _error(FleetConfig(url="nats://127.0.0.1:1", credentials=tmp_path), "three", "worker")
    assert "dragoman fleet credentials worker three, and copy three.creds." in said


async def test_nats_that_asks_for_credentials_is_not_said_to_be_away(url: str) -> None:
    said = await _error(FleetConfig(url=url), "one", "worker")
    assert "cannot be reached" not in said
    assert "asks for credentials, and there are none" in said
    assert "dragoman fleet credentials worker one" in said
    assert "`[fleet] credentials`" in said


async def test_a_refusal_that_is_lost_with_its_connection_is_heard_at_the_next_one(url: str) -> None:
    address = urlsplit(url)
    resets = 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """As a server that closes the connection while the client still writes."""
        nonlocal resets
        there, back = await asyncio.open_connection(address.hostname, address.port)
        writer.write(await there.readline())
        if resets < 3:
            resets += 1
            await reader.readline()
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        else:
            back.write(await reader.readline())
            back.write(await reader.readline())
            writer.write(await there.readline())
            await writer.drain()
            writer.close()
        back.close()

    server = await asyncio.start_server(take, "127.0.0.1")
    async with server:
        port = server.sockets[0].getsockname()[1]
        said = await _error(FleetConfig(url=f"nats://127.0.0.1:{port}"), "one", "worker")
    assert resets == 3
    assert "asks for credentials, and there are none" in said


async def test_credentials_of_another_fleet_are_named(url: str, tmp_path: Path) -> None:
    file = _file(tmp_path, "gateway", "one", FleetKeys.new())
    said = await _error(FleetConfig(url=url, credentials=file), "one", "gateway")
    assert "cannot be reached" not in said
    assert "refuses the credentials of one" in said
    assert "dragoman fleet credentials gateway one" in said
    assert "`[fleet] credentials`" in said


async def test_where_nothing_listens_the_error_names_the_key_of_the_address() -> None:
    said = await asyncio.wait_for(_error(FleetConfig(url=f"nats://127.0.0.1:{free_port()}"), "one"), 20)
    assert "cannot be reached: " in said
    assert "Does NATS run there? `[fleet] url` has the address." in said
