"""Who is compared, how each is started, and how it is spoken to.

All are given the same agent (`stub.py`). LiteLLM speaks to models and not to agents: its model is the same fake, over HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from bench import installing
from bench.load import Bare, Chat, Consumer, Editor, Failed, Responses

__all__ = [
    "ACP2API",
    "ALONE",
    "ELSEWHERE",
    "FLOOR",
    "HERE",
    "HTTP",
    "LITELLM",
    "LOWER_FLOORS",
    "NOTHING",
    "OURS",
    "OURS_RESPONSES",
    "SDK",
    "STDIO",
    "Agents",
    "Contestant",
    "Running",
    "Way",
    "configured",
    "fake_agents",
    "free_port",
    "running",
]

Way: TypeAlias = Literal["stdio", "http", "responses"]

OURS = "dragoman"
FLOOR = "floor"
SDK = "ACP SDK"
ACP2API = "acp2api"
LITELLM = "LiteLLM"
NOTHING = "nothing between"
_STUB = Path(__file__).parent / "stub.py"
_ROOT = Path(__file__).parent.parent
# LiteLLM loads for a quarter of a minute on an idle machine.
_START_SECONDS = 180.0
_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Agents:
    """The fake agent, under way."""

    pid: int
    command: tuple[str, ...]
    # One that takes tools over standard input and output only.
    stdio_command: tuple[str, ...]
    # Where the same is a model.
    port: int


@dataclass(frozen=True, slots=True)
class Running:
    name: str
    way: Way
    pid: int
    consumer: Consumer


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    way: Way
    # What to run, in a folder of its own and at a port. Raises `installing.Missing`.
    command: Callable[[Path, Agents, int], tuple[str, ...]]


@asynccontextmanager
async def fake_agents(folder: Path) -> AsyncIterator[Agents]:
    path = str(folder / "agents")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.agents", path),
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        if process.stdout is None or not (line := await process.stdout.readline()):
            raise Failed("the fake agent did not start")
        command = (sys.executable, "-I", "-S", str(_STUB))
        yield Agents(process.pid, (*command, path), (*command, f"{path}.stdio"), int(line))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def running(contestant: Contestant, folder: Path, agents: Agents) -> AsyncIterator[Running]:
    """Started, and ready to be asked. Raises `Missing`, or `Failed` with the last it said."""
    place = folder / f"{contestant.name}-{contestant.way}".replace(" ", "-")
    place.mkdir()
    port = free_port()
    command = contestant.command(place, agents, port)
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - what is compared
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if contestant.way == "stdio" else log,
            stderr=log,
            cwd=_ROOT,
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
    try:
        async with asyncio.timeout(_START_SECONDS):
            consumer = await _consumer(contestant, process, port)
        yield Running(contestant.name, contestant.way, process.pid, consumer)
        await consumer.close()
    except (TimeoutError, ConnectionError) as error:
        told = (place / "log").read_text(errors="replace").strip()[-500:]
        raise Failed(f"{contestant.name}: {error!r}; {told}") from error
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _consumer(contestant: Contestant, process: subprocess.Popen[bytes], port: int) -> Consumer:
    if contestant.way == "stdio":
        kind = Bare if contestant.name == NOTHING else Editor
        return await kind.connected(process.stdout, process.stdin)
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return Responses(port) if contestant.way == "responses" else Chat(port)
        if process.poll() is not None:
            raise ConnectionError("it ended")
        await asyncio.sleep(0.05)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def configured(place: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    """The beginning of our own command line, with that agent as its model."""
    file = place / "dragoman.toml"
    file.write_text(
        f'[models.bench]\nkind = "acp"\ncommand = {json.dumps(command)}\n'
        "[serve]\nmax_responses = 10000\n[conversation]\nmax_agents = 10000\n"
    )
    return (sys.executable, "-m", "dragoman", "--config", str(file), "--state-dir", str(place / "state"))


def _ours(place: Path, agents: Agents, _port: int) -> tuple[str, ...]:
    return (*configured(place, agents.command), "vscode")


def _ours_http(place: Path, agents: Agents, port: int) -> tuple[str, ...]:
    return (*configured(place, agents.command), "serve", "--port", str(port))


def _relay(*program: str, http: bool) -> Callable[[Path, Agents, int], tuple[str, ...]]:
    return lambda _place, agents, port: (
        *(sys.executable, "-m", *program, str(port) if http else "stdio"),
        *agents.command,
    )


def _acp2api(place: Path, agents: Agents, port: int) -> tuple[str, ...]:
    agent = {"name": "bench", "type": "general", "command": agents.command[0], "args": agents.command[1:]}
    server = {"port": port, "cwd": str(place), "maxSessions": 10_000, "maxConversations": 10_000}
    # YAML takes JSON.
    (place / "acp2api.yaml").write_text(json.dumps({"server": server, "agents": [agent]}))
    program = installing.npm_package("acp2api") / "acp2api" / "bin" / "acp2api.js"
    node = installing.node() / "bin" / "node"
    return (str(node), str(program), "--config", str(place / "acp2api.yaml"))


def _litellm(place: Path, agents: Agents, port: int) -> tuple[str, ...]:
    model = {"model": "openai/bench", "api_base": f"http://127.0.0.1:{agents.port}/v1", "api_key": "bench"}
    # Without a key: on loopback, and looking at one would only cost it time.
    general = {"dangerously_permit_weak_or_unset_master_key": True}
    models = [{"model_name": "bench", "litellm_params": model}]
    (place / "litellm.yaml").write_text(json.dumps({"model_list": models, "general_settings": general}))
    program = "import sys; from litellm import run_server; sys.exit(run_server())"
    options = ("--config", str(place / "litellm.yaml"), "--host", "127.0.0.1", "--port", str(port))
    return (str(installing.litellm()), "-c", program, *options)


# The agent itself: what the load generator and the fake agent come to by themselves.
ALONE = Contestant(NOTHING, "stdio", lambda _place, agents, _port: agents.command)
OURS_RESPONSES = Contestant(OURS, "responses", _ours_http)
# The same relay on the loop that we run on.
LOWER_FLOORS = (
    Contestant("floor on uvloop", "stdio", _relay("bench.floor", "uvloop", http=False)),
    Contestant("floor on uvloop", "http", _relay("bench.floor", "uvloop", http=True)),
)
STDIO = (
    Contestant(OURS, "stdio", _ours),
    Contestant(FLOOR, "stdio", _relay("bench.floor", "asyncio", http=False)),
    Contestant(SDK, "stdio", _relay("bench.sdk", http=False)),
)
HTTP = (
    Contestant(OURS, "http", _ours_http),
    Contestant(FLOOR, "http", _relay("bench.floor", "asyncio", http=True)),
    Contestant(SDK, "http", _relay("bench.sdk", http=True)),
    Contestant(ACP2API, "http", _acp2api),
    Contestant(LITELLM, "http", _litellm),
)
# Those that have to be installed first, and those that need nothing but this repository and what its tests need.
ELSEWHERE = (ACP2API, LITELLM)
HERE = tuple(
    dict.fromkeys(one.name for one in (ALONE, *LOWER_FLOORS, *STDIO, *HTTP) if one.name not in ELSEWHERE)
)
