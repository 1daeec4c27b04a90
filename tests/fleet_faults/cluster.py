"""Three real NATS servers with JetStream, on loopback, as one cluster; every way to and between them can be cut."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.config import FleetConfig
from dragoman.fleet.folder import FleetFolder
from fleet_faults.proxy import Proxy
from nats_servers import PROGRAM, free_port, wait_for_port

__all__ = ["NatsCluster", "NatsServer"]

# Nobody listens there. Servers tell each other their addresses; a way that no proxy is in must not come about.
_NOWHERE = "127.0.0.1:1"


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
    """With accounts and credentials of the fleet's roles, as `dragoman fleet credentials` makes them."""

    def __init__(self, folder: Path, size: int = 3) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.fleet = FleetFolder(folder)
        self.fleet.keys()
        self.servers = [NatsServer(f"n{number}", folder) for number in range(1, size + 1)]
        self._proxies: list[Proxy] = []

    async def start(self) -> None:
        for number, server in enumerate(self.servers):
            # Each connects to those before it: so there is one way between any two.
            addresses = []
            for other in self.servers[:number]:
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
            f'include "{self.fleet.accounts_file.relative_to(server.folder)}"\n'
        )
        text = config + (cluster if len(self.servers) > 1 else "")
        (server.folder / f"{server.name}.conf").write_text(text)

    async def _proxy(self, target: int) -> Proxy:
        proxy = await Proxy(target).open()
        self._proxies.append(proxy)
        return proxy

    async def ways(self) -> list[Proxy]:
        """One way to each server, for a node."""
        return [await self._proxy(server.port) for server in self.servers]

    def config(self, role: str, name: str, ports: list[int] | None = None) -> FleetConfig:
        """What a node with this name has in `[fleet]`. Without ports it connects to the servers themselves."""
        assert role in ("admin", "worker", "gateway")
        ports = ports or [server.port for server in self.servers]
        urls = tuple(f"nats://127.0.0.1:{port}" for port in ports)
        return FleetConfig(url=list(urls), credentials=self.fleet.credentials(role, name), name=name)  # type: ignore[arg-type]

    def named(self, name: str) -> NatsServer:
        return next(server for server in self.servers if server.name == name)

    async def close(self) -> None:
        for server in self.servers:
            server.end()
        for proxy in self._proxies:
            await proxy.close()
