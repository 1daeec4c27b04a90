"""Real NATS servers for tests: from the wheel, on free ports, with JetStream in a temporary folder."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

PROGRAM = Path(sys.executable).parent / "nats-server"
_MOST_LOOKS = 500
# Below those that systems choose for connections.
_PORTS = (15_000, 32_000)
_RANDOM = SystemRandom()
# Those that this process has given out. Some are used much later.
_GIVEN: set[int] = set()


def free_port() -> int:
    """One that is free now. The system gives ports of this range to nobody else before it is used."""
    for _ in range(_MOST_LOOKS):
        port = _RANDOM.randint(*_PORTS)
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            if port not in _GIVEN:
                _GIVEN.add(port)
                return port
    raise OSError("no port is free")


async def wait_for_port(port: int) -> None:
    """Wait until something listens there. The server opens its port when it is ready."""
    for _ in range(_MOST_LOOKS):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
    raise TimeoutError(f"nothing listens at port {port}")


@asynccontextmanager
async def nats_server(folder: Path, config: str = "", port: int | None = None) -> AsyncIterator[str]:
    """Run a server with JetStream, and yield its address. `config` is added to its configuration file."""
    port = port or free_port()
    file = folder / "nats.conf"
    file.write_text(
        f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{folder}/jetstream" }}\n{config}'
    )
    with (folder / "nats.log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, "-c", file], stdout=log, stderr=log)  # noqa: ASYNC220 - a start does not block
        try:
            await wait_for_port(port)
            yield f"nats://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


@dataclass
class ClusterServer:
    name: str
    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@asynccontextmanager
async def nats_cluster(folder: Path, size: int = 3) -> AsyncIterator[dict[str, ClusterServer]]:
    """Run servers with JetStream as one cluster, and yield them by their names. They elect their leader after that."""
    ports = {f"n{number}": (free_port(), free_port()) for number in range(size)}
    routes = ", ".join(f'"nats://127.0.0.1:{route}"' for _, route in ports.values())
    servers: dict[str, ClusterServer] = {}
    try:
        for name, (port, route) in ports.items():
            file = folder / f"{name}.conf"
            file.write_text(
                f"server_name: {name}\nhost: 127.0.0.1\nport: {port}\n"
                f'jetstream {{ store_dir: "{folder}/{name}" }}\n'
                f"cluster {{ name: fleet, host: 127.0.0.1, port: {route}, routes: [{routes}] }}\n"
            )
            with (folder / f"{name}.log").open("wb") as log:
                process = subprocess.Popen([PROGRAM, "-c", file], stdout=log, stderr=log)  # noqa: ASYNC220 - a start does not block
            servers[name] = ClusterServer(name, f"nats://127.0.0.1:{port}", process)
        for port, _ in ports.values():
            await wait_for_port(port)
        yield servers
    finally:
        for server in servers.values():
            server.kill()
