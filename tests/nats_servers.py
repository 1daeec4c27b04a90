"""A real NATS server for tests: from the wheel, on a free port, with JetStream in a temporary folder."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "nats-server"
_MOST_LOOKS = 500


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


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
async def nats_server(folder: Path, config: str = "") -> AsyncIterator[str]:
    """Run a server with JetStream, and yield its address. `config` is added to its configuration file."""
    port = free_port()
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
