"""A fleet of real commands: `dragoman fleet up`, `worker` and `serve` as processes, with credentials of their roles."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from fake_agent.steps import COMMAND, prompt

__all__ = [
    "DEADLINE_SECONDS",
    "Answer",
    "FleetProcesses",
    "Going",
    "HttpGateway",
    "NodeProcess",
    "fleet_processes",
    "soon",
]

Json = dict[str, Any]
_T = TypeVar("_T")

# Longer than anything here takes on a busy machine. Only a test that fails reaches it.
DEADLINE_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_APPROVALS = {"x-dragoman-approvals": "items"}
_DEMO = [sys.executable, "-m", "dragoman", "demo-agent", "--pace", "instant"]


async def soon(work: Awaitable[_T]) -> _T:
    return await asyncio.wait_for(work, DEADLINE_SECONDS)


class NodeProcess:
    """A command that runs, and what it has said so far."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said = ""
        self._news = asyncio.Condition()
        self._reading = [asyncio.create_task(self._read(each)) for each in (process.stdout, process.stderr)]

    @classmethod
    async def started(cls, *words: str, env: dict[str, str], cwd: Path) -> NodeProcess:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dragoman",
            *words,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=env,
            cwd=cwd,
        )
        return cls(process)

    async def _read(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while line := await stream.readline():
            async with self._news:
                self.said += line.decode()
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()

    async def until_said(self, words: str) -> str:
        """Wait for these words, and return all that it has said."""

        def is_over() -> bool:
            return words in self.said or all(each.done() for each in self._reading)

        async with self._news:
            await soon(self._news.wait_for(is_over))
        assert words in self.said, self.said
        return self.said

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def end(self) -> int:
        """Wait until it has ended by itself."""
        status = await soon(self.process.wait())
        await asyncio.gather(*self._reading)
        return status

    async def killed(self) -> None:
        if self.process.returncode is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
        await self.end()


@dataclass
class Answer:
    """A whole answer of `/v1/responses`."""

    json: Json

    @property
    def text(self) -> str:
        items = [item for item in self.json["output"] if item["type"] == "message"]
        return "".join(part.get("text", "") for item in items for part in item["content"])

    @property
    def calls(self) -> list[Json]:
        return [item for item in self.json["output"] if item["type"] == "function_call"]

    @property
    def id(self) -> str:
        return str(self.json["id"])


@dataclass
class Going:
    """An answer that is under way, as a stream."""

    task: asyncio.Task[None]
    events: list[Json] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        return "".join(each["delta"] for each in self.events if each["type"] == "response.output_text.delta")

    async def until(self, words: str) -> None:
        while words not in self.text:
            assert not self.task.done(), (self.task, self.events)
            self.news.clear()
            waiting = asyncio.create_task(self.news.wait())
            await soon(asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED))
            waiting.cancel()

    async def end(self) -> Json:
        """The event with which it has ended."""
        await soon(self.task)
        return self.events[-1]


class HttpGateway:
    """A client of one gateway."""

    def __init__(self, node: NodeProcess, url: str) -> None:
        self.node = node
        self.url = url
        self.client = httpx2.AsyncClient(base_url=url, timeout=DEADLINE_SECONDS)

    async def models(self) -> list[str]:
        found = (await self.client.get("/v1/models")).json()
        return [each["id"] for each in found["data"]]

    async def until_offered(self, model: str, *, is_so: bool = True) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (model in await self.models()) != is_so:  # noqa: ASYNC110 - a server tells nobody
                await asyncio.sleep(_LOOK_SECONDS)

    async def post(self, input_: object, model: str = "fake", **fields: object) -> httpx2.Response:
        return await self.client.post("/v1/responses", json={"model": model, "input": input_, **fields})

    async def ask(self, input_: object, model: str = "fake", **fields: object) -> Answer:
        answered = await self.post(input_, model, **fields)
        assert answered.status_code == 200, answered.text
        return Answer(answered.json())

    async def do(self, *steps: object, **fields: Any) -> Answer:
        """Let the fake agent carry out steps."""
        return await self.ask(prompt(*steps), **fields)

    async def chat(self, messages: list[Json]) -> Json:
        """The message of a chat completion, for a client that takes approvals as items."""
        body = {"model": "fake", "messages": messages}
        answered = await self.client.post("/v1/chat/completions", json=body, headers=_APPROVALS)
        assert answered.status_code == 200, answered.text
        message: Json = answered.json()["choices"][0]["message"]
        return message

    def begin(self, *steps: object, **fields: object) -> Going:
        """A stream in which the fake agent carries out steps."""
        body = {"model": "fake", "input": prompt(*steps), "stream": True, **fields}
        return self._streamed("POST", "/v1/responses", json=body)

    def follow(self, response: str, after: int) -> Going:
        """The stream of a background response, after this event."""
        query = {"stream": "true", "starting_after": str(after)}
        return self._streamed("GET", f"/v1/responses/{response}", params=query)

    def _streamed(self, method: str, path: str, **options: Any) -> Going:
        async def read() -> None:
            async with self.client.stream(method, path, **options) as answered:
                assert answered.status_code == 200, await answered.aread()
                async for line in answered.aiter_lines():
                    if line.startswith("data: {"):
                        going.events.append(json.loads(line.removeprefix("data: ")))
                        going.news.set()

        going = Going(asyncio.create_task(read()))
        return going


class FleetProcesses:
    """NATS, and the nodes that a test starts. Every node has a state folder and a configuration of its own."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.state = folder / "state"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
        self.env = {**inherited, "HOME": str(folder), "COLUMNS": "200", "DRAGOMAN_STATE_DIR": str(self.state)}
        self.url = ""
        self.up: NodeProcess | None = None

    async def start(self, port: int = 0) -> None:
        self.up = await self.process("fleet", "up", "--port", str(port))
        said = await self.up.until_said("Ctrl-C ends NATS")
        found = re.search(r"NATS at (nats://\S+),", said)
        assert found is not None
        self.url = found[1]

    async def process(self, *words: str) -> NodeProcess:
        """A command that runs, until the end of the test at most."""
        node = await NodeProcess.started(*words, env=self.env, cwd=self.folder)
        self._stack.push_async_callback(node.killed)
        return node

    async def run(self, *words: str) -> str:
        """A command, to its end: what it says. It must succeed."""
        node = await self.process(*words)
        assert await node.end() == 0, node.said
        return node.said

    def place(self, name: str) -> Path:
        """A node's own folder: the fake agent's notes and gates are there, too."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        return place

    async def worker(self, name: str, url: str | None = None, models: str = "") -> NodeProcess:
        """`dragoman worker` with the demo and the fake agent, when it takes requests."""
        await self.run("fleet", "credentials", "worker", name)
        place = self.place(name)
        command = json.dumps([*COMMAND, json.dumps({"folder": str(place)})])
        fake = f'[models.fake]\nkind = "acp"\ncommand = {command}\ncwd = {json.dumps(str(place))}\n'
        demo = f'[models.demo]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps(_DEMO)}\n'
        self.configure(name, f"{fake}{demo}{models}", url)
        return await self.again(name)

    async def again(self, name: str) -> NodeProcess:
        """A worker that was configured before."""
        node = await self.process(*self.named(name), "worker", "--name", name)
        await node.until_said("to the fleet at")
        await self.until_listed(name)
        return node

    async def until_listed(self, name: str, *, is_there: bool = True) -> None:
        """Wait until `dragoman fleet status` shows a node as one that answers; or no longer."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                status = json.loads(await self.run("fleet", "status", "--json"))
                answering = [each["name"] for each in status["nodes"] if each["status"] is not None]
                if (name in answering) == is_there:
                    return

    async def gateway(self, name: str, url: str | None = None, extra: str = "") -> HttpGateway:
        """`dragoman serve`, when it knows the models of the workers."""
        await self.run("fleet", "credentials", "gateway", name)
        self.configure(name, extra, url)
        node = await self.process(*self.named(name), "serve", "--name", name, "--port", "0")
        await node.until_said("serving at")
        gateway = self.client(node)
        await gateway.until_offered("fake")
        return gateway

    def client(self, node: NodeProcess) -> HttpGateway:
        """A client of a gateway that serves."""
        found = re.search(r"serving at (http://[^/\s]+)/v1", node.said)
        assert found is not None
        gateway = HttpGateway(node, found[1])
        self._stack.push_async_callback(gateway.client.aclose)
        return gateway

    def configure(self, name: str, tables: str, url: str | None = None) -> None:
        """As in production: a node has the file with its own credentials, and nothing else of the operator's folder."""
        place = self.place(name)
        file = place / "node.creds"
        shutil.copyfile(self.state / "fleet" / f"{name}.creds", file)
        file.chmod(0o600)
        fleet = f"[fleet]\nurl = {json.dumps(url or self.url)}\ncredentials = {json.dumps(str(file))}\n"
        (place / "dragoman.toml").write_text(fleet + tables)

    def named(self, name: str) -> tuple[str, ...]:
        place = self.place(name)
        return "--config", str(place / "dragoman.toml"), "--state-dir", str(place / "state")

    def pids(self, name: str) -> set[int]:
        """The agents that a worker has started."""
        entries = map(json.loads, self.notes(name).splitlines())
        return {int(entry["params"]["pid"]) for entry in entries if entry["method"] == "started"}

    def notes(self, name: str) -> str:
        file = self.place(name) / "journal"
        return file.read_text() if file.exists() else ""

    def owner(self, text: str, *names: str) -> str:
        """The worker whose agent was told this."""
        [found] = [name for name in names if text in self.notes(name)]
        return found

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not is_so():  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(_LOOK_SECONDS)

    async def until_true(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not await is_so():  # noqa: ASYNC110 - a server tells nobody
                await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def fleet_processes(folder: Path) -> AsyncIterator[FleetProcesses]:
    async with AsyncExitStack() as stack:
        fleet = FleetProcesses(folder, stack)
        await fleet.start()
        yield fleet
