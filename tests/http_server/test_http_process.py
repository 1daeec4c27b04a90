"""R7: `dragoman serve` as a process: on the wire, at its limits, and at its end."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import connect

from fake_agent.steps import COMMAND, prompt
from http_server.kit import DEADLINE, soon
from http_server.stream_check import check_events

pytestmark = pytest.mark.long

_CONFIG = """
[serve]
drain_seconds = 20
[models.tape]
kind = "script"
path = "tape.jsonl"
"""
_TAPE = """
{"when": {"prompt": "slow"}, "do": [{"say": "First. "}, {"wait": 1.5}, {"say": "Last."}]}
{"when": {"prompt": "wait"}, "do": [{"say": "Waiting. "}, {"wait": "forever"}]}
{"do": [{"say": "You said ${prompt}."}]}
"""


def _arguments(folder: Path, *more: str) -> list[str]:
    (folder / "dragoman.toml").write_text(_CONFIG)
    (folder / "tape.jsonl").write_text(_TAPE)
    named = ["--config", str(folder / "dragoman.toml"), "--state-dir", str(folder / "state")]
    return [sys.executable, "-m", "dragoman", "serve", *named, *more]


class Running:
    def __init__(self, folder: Path, arguments: list[str] | None = None) -> None:
        arguments = arguments or _arguments(folder, "--port", "0")
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        line = self.wait_for("serving at")
        self.port = int(line.split()[-1].removesuffix("/v1").rpartition(":")[2])

    def wait_for(self, words: str) -> str:
        """The next line on standard error with these words in it."""
        assert self.process.stderr is not None
        return next(line for line in self.process.stderr if words in line)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        status = self.process.wait(DEADLINE)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return status

    async def request(self, prompt: str, **fields: object) -> "Wire":
        body = json.dumps({"model": "tape", "input": prompt, "stream": True, **fields}).encode()
        head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        return await self.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def send(self, data: bytes) -> "Wire":
        reader, writer = await soon(asyncio.open_connection("127.0.0.1", self.port))
        writer.write(data)
        return Wire(reader, writer)


class Wire:
    """A connection, chunk by chunk as the server wrote it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        return await soon(self.reader.readuntil(b"\r\n\r\n"))

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            size = int(await soon(self.reader.readline()), 16)
            chunk = await soon(self.reader.readexactly(size + 2))
            if size == 0:
                return
            yield chunk[:-2]

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await soon(self.writer.wait_closed())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    served = Running(tmp_path_factory.mktemp("served"))
    yield served
    assert served.stop() == 0


async def test_r7_each_event_is_one_chunk_on_the_wire(running: Running) -> None:
    wire = await running.request("hello")
    head = (await wire.head()).lower()
    assert head.startswith(b"http/1.1 200")
    assert b"content-type: text/event-stream" in head
    assert b"server:" not in head
    *events, done = [chunk async for chunk in wire.chunks()]
    assert done == b"data: [DONE]\n\n"
    assert all(event.startswith(b"event: ") and event.count(b"\n\n") == 1 for event in events)
    check_events([json.loads(event.partition(b"data: ")[2]) for event in events])
    await wire.close()


async def test_r7_headers_have_a_limit(running: Running) -> None:
    wire = await running.send(
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n"
    )
    assert (await wire.head()).startswith(b"HTTP/1.1 431")
    await wire.close()


async def test_r7_a_websocket_on_the_same_path(running: Running) -> None:
    url = f"ws://127.0.0.1:{running.port}/v1/responses"
    async with connect(url, proxy=None) as client:
        previous: dict[str, object] = {}
        for word in ("one", "two"):
            await client.send(
                json.dumps({"type": "response.create", "model": "tape", "input": word, **previous})
            )
            events: list[dict[str, Any]] = []
            while not events or events[-1]["type"] != "response.completed":
                events.append(json.loads(await soon(client.recv())))
            response = check_events(events)
            assert response["output"][0]["content"][0]["text"] == f"You said {word}."
            previous = {"previous_response_id": response["id"]}
    with pytest.raises(websockets.InvalidStatus) as caught:
        await soon(connect(url, proxy=None, origin=websockets.Origin("https://evil.example")).__aenter__())
    assert caught.value.response.status_code == 403


async def test_r7_a_connection_that_is_cut_cancels(running: Running) -> None:
    wire = await running.request("wait")
    await wire.head()
    async for chunk in wire.chunks():
        if b"Waiting" in chunk:
            break
    await wire.close()
    metrics = b""
    while b'outcome="cancelled"} 1' not in metrics:
        asked = await running.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        metrics = await soon(asked.reader.read())
        await asked.close()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_r7_an_answer_under_way_may_finish_when_the_server_is_told_to_end(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    served = Running(tmp_path)
    wire = await running_slowly(served)
    served.process.send_signal(number)
    told = await asyncio.to_thread(served.wait_for, "ending as soon as")
    assert "what is under way is done, after 20 seconds at most. Ctrl-C again" in told
    rest = b"".join([chunk async for chunk in wire.chunks()])
    assert b"Last." in rest
    assert rest.endswith(b"data: [DONE]\n\n")
    await wire.close()
    assert await asyncio.to_thread(served.end) == status


async def running_slowly(served: Running) -> Wire:
    wire = await served.request("slow")
    await wire.head()
    async for chunk in wire.chunks():
        if b"First." in chunk:
            break
    return wire


async def test_r7_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    served = Running(tmp_path)
    wire = await served.request("wait")
    await wire.head()
    served.process.send_signal(signal.SIGTERM)
    # The listening socket goes first: then it has been heard.
    while True:
        try:
            await (await served.send(b"")).close()
        except OSError:
            break
    served.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(served.end) == 0
    await wire.close()


def _refused(*arguments: str, cwd: Path) -> tuple[int, str]:
    ended = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        cwd=cwd,
        env=dict(os.environ),
    )
    return ended.returncode, ended.stderr


def test_a_port_that_is_taken_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, words = _refused(*_arguments(tmp_path, "--port", port), cwd=tmp_path)
    assert status == 1
    assert f"cannot listen at 127.0.0.1, port {port}: Address already in use. Is it" in words
    assert "--port" in words
    assert "Traceback" not in words


def test_off_this_machine_a_key_is_required(tmp_path: Path) -> None:
    status, words = _refused(*_arguments(tmp_path, "--host", "0.0.0.0", "--port", "0"), cwd=tmp_path)  # noqa: S104
    assert status == 2
    assert "api_keys" in words


def test_r7_our_own_checker_finds_no_fault_with_our_server(running: Running, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{running.port}/v1"
    command = [sys.executable, "-m", "dragoman", "check", url, "--state-dir", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE, check=False, cwd=tmp_path, env=environment
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    parts, events = ended.stdout.split("and the rules for events")
    assert "0 failed" in parts
    assert "0 failed" in events
    assert all(f"\nE{number} " in events for number in range(1, 16))


async def test_d6_a_rule_that_is_written_while_the_server_runs_counts(tmp_path: Path) -> None:
    config = tmp_path / "dragoman.toml"
    agent = json.dumps([*COMMAND, json.dumps({"folder": str(tmp_path)})])
    model = f'[models.fake]\nkind = "acp"\nagent = "demo"\npermission = "allow"\ncommand = {agent}\n'
    config.write_text(model)
    options = ["--config", str(config), "--state-dir", str(tmp_path / "state"), "--log-level", "info"]
    served = Running(tmp_path, [sys.executable, "-m", "dragoman", "serve", *options, "--port", "0"])
    call = {"toolCallId": "p", "title": "Run", "kind": "execute", "rawInput": {"command": "make"}}
    steps = prompt(["ask", call, ["allow_once", "reject_once"]])

    async def answer() -> str:
        wire = await served.request(steps, model="fake")
        await wire.head()
        text = b"".join([chunk async for chunk in wire.chunks()]).decode()
        await wire.close()
        return text

    assert "<p: the-allow_once>" in await answer()
    rule = '[[policy]]\ndecision = "deny"\ncommand = ["make"]\nreason = "Not today."\n'
    config.write_text(model + rule)
    await soon(asyncio.to_thread(served.wait_for, "the rules were changed; there are 1 now"))
    refused = await answer()
    assert "<p: the-reject_once>" in refused
    assert "Not today." in refused
    assert served.stop() == 0


async def test_an_answer_that_is_not_finished_when_the_server_ends_says_so_and_is_stored(
    tmp_path: Path,
) -> None:
    arguments = _arguments(tmp_path, "--port", "0")
    config = tmp_path / "dragoman.toml"
    config.write_text(_CONFIG.replace("drain_seconds = 20", "drain_seconds = 1"))
    served = Running(tmp_path, arguments)
    streamed = await served.request("wait")
    await streamed.head()
    chunks = streamed.chunks()
    events: list[dict[str, Any]] = []
    while "response.output_text.delta" not in [each["type"] for each in events]:
        events += _events_in(await anext(chunks))
    whole = await served.request("wait", stream=False)
    chat = json.dumps({"model": "tape", "messages": [{"role": "user", "content": "wait"}]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
    chatting = await served.send(f"{head}Content-Length: {len(chat)}\r\n\r\n".encode() + chat)
    # All three are under way.
    await asyncio.to_thread(_until_under_way, served.port, 3)
    served.process.send_signal(signal.SIGTERM)
    async for chunk in chunks:
        events += _events_in(chunk)
    failed = events[-1]["response"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_ended")
    assert "`drain_seconds`" in failed["error"]["message"]
    for wire, status in ((whole, b"200"), (chatting, b"503")):
        answered = await soon(wire.reader.read())
        assert answered.split()[1] == status
        assert b"server_ended" in answered
        assert b"Waiting. " in answered
    for wire in (streamed, whole, chatting):
        await wire.close()
    assert served.end() == 0
    # What it has said is stored.
    served = Running(tmp_path, arguments)
    assert await asyncio.to_thread(_fetched, served.port, failed["id"]) == failed
    assert served.stop() == 0


def _events_in(chunk: bytes) -> list[dict[str, Any]]:
    lines = chunk.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def _fetched(port: int, id_: str) -> object:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/responses/{id_}") as answered:
        return json.load(answered)


def _until_under_way(port: int, count: int) -> None:
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answered:
            if f"dragoman_responses_under_way {count}" in answered.read().decode():
                return
