"""Three real NATS servers with JetStream, on loopback, as one cluster; every way to and between them can be cut."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import nats.errors
from nats.js.api import StreamConfig

from dragoman.config import FleetConfig
from dragoman.fleet.connection import FleetUnavailable, NoAnswer
from dragoman.fleet.credentials import FleetRole
from dragoman.fleet.folder import FleetFolder
from dragoman.fleet.joining import joined
from dragoman.fleet.streams import check_streams, make_streams
from fleet_faults.proxy import Proxy
from nats_servers import PROGRAM, free_port, wait_for_port

__all__ = ["NatsCluster", "NatsServer"]

# Nobody listens there. Servers tell each other their addresses; a way that no proxy is in must not come about.
_NOWHERE = "127.0.0.1:1"
# An election takes seconds; only a test that fails waits for so long.
_START_SECONDS = 120.0
_LOOK_SECONDS = 0.1


@dataclass
class NatsServer:
    name: str
    folder: Path
    port: int = field(default_factory=free_port)
    routes_port: int = field(default_factory=free_port)
    # To the other servers, and from them.
    routes: list[Proxy] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 - a start does not block
                [PROGRAM, "-c", self.folder / f"{self.name}.conf"], stdout=log, stderr=log
            )
        await wait_for_port(self.port)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


class NatsCluster:
    """With accounts and credentials of the fleet's roles, as `dragoman fleet credentials` makes them; or without."""

    def __init__(self, folder: Path, size: int = 3, *, has_roles: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.fleet = FleetFolder(folder)
        self._has_roles = has_roles
        if has_roles:
            self.fleet.keys()
        self.servers = [NatsServer(f"n{number}", folder) for number in range(1, size + 1)]
        self._proxies: list[Proxy] = []

    async def start(self) -> None:
        for server in self.servers:
            addresses = []
            for other in (each for each in self.servers if each is not server):
                proxy = await self._proxy(other.routes_port)
                server.routes.append(proxy)
                other.routes.append(proxy)
                addresses.append(f'"nats-route://127.0.0.1:{proxy.port}"')
            self._configure(server, addresses)
        for server in self.servers:
            await server.start()

    def _configure(self, server: NatsServer, routes: list[str]) -> None:
        cluster = (
            f"cluster {{ name: fleet, host: 127.0.0.1, port: {server.routes_port}, "
            f'advertise: "{_NOWHERE}", no_advertise: true, routes: [{", ".join(routes)}] }}\n'
        )
        config = (
            f"server_name: {server.name}\nhost: 127.0.0.1\nport: {server.port}\n"
            f'jetstream {{ store_dir: "{server.folder}/{server.name}", sync_interval: always }}\n'
        )
        accounts = f'include "{self.fleet.accounts_file.relative_to(server.folder)}"\n'
        text = config + (accounts if self._has_roles else "") + (cluster if len(self.servers) > 1 else "")
        (server.folder / f"{server.name}.conf").write_text(text)

    async def _proxy(self, target: int) -> Proxy:
        proxy = await Proxy(target).open()
        self._proxies.append(proxy)
        return proxy

    async def ways(self) -> list[Proxy]:
        """One way to each server, for a node."""
        return [await self._proxy(server.port) for server in self.servers]

    def config(self, role: FleetRole, name: str, ports: list[int] | None = None) -> FleetConfig:
        """What a node with this name has in `[fleet]`. Without ports it connects to the servers themselves."""
        ports = ports or [server.port for server in self.servers]
        urls = tuple(f"nats://127.0.0.1:{port}" for port in ports)
        credentials = self.fleet.credentials(role, name) if self._has_roles else None
        return FleetConfig(url=urls, credentials=credentials, name=name)

    async def prepare(self, *more: StreamConfig) -> None:
        """The streams of a fleet, and these. Servers that have just started do not know each other for a moment."""
        size = len(self.servers)
        async with joined(self.config("admin", "admin"), "admin") as connection:
            await _until_done(partial(make_streams, connection, size, None))
            for each in more:
                await _until_done(partial(connection.js.add_stream, each))
        for server in self.servers:
            async with joined(self.config("admin", "admin", [server.port]), "admin") as connection:
                await _until_done(partial(check_streams, connection, "worker"))
                for each in more:
                    await _until_done(partial(connection.js.stream_info, each.name or ""))

    def named(self, name: str) -> NatsServer:
        return next(server for server in self.servers if server.name == name)

    async def close(self) -> None:
        for server in self.servers:
            server.end()
        for proxy in self._proxies:
            await proxy.close()


async def _until_done(do: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while True:
            with suppress(FleetUnavailable, NoAnswer, nats.errors.Error):
                await do()
                return
            await asyncio.sleep(_LOOK_SECONDS)
