"""The whole of it: the command, a client, an agent's process, and a person at the console, each on its own connection."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from console.asking import stamped
from console.data_site import RUN
from console.kit import Browser
from fake_agent.steps import COMMAND
from http_server.kit import Json, soon

pytestmark = pytest.mark.long


@dataclass
class Served:
    process: asyncio.subprocess.Process
    browser: Browser
    client: httpx2.AsyncClient

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[tuple[str, Json]]]:
        headers = {
            "origin": self.browser.origin,
            "x-dragoman-console": self.browser.token,
            "cookie": "; ".join(f"{name}={value}" for name, value in self.browser.cookies.items()),
        }

        async def read(response: httpx2.Response) -> AsyncIterator[tuple[str, Json]]:
            held = b""
            async for chunk in response.aiter_bytes():
                *frames, held = (held + chunk).split(b"\n\n")
                for frame in frames:
                    data: Json = json.loads(frame.decode().partition("data: ")[2])
                    yield stamped(frame)[1], data

        async with self.client.stream(
            "GET", "/console/api/events", headers=headers, timeout=None
        ) as response:
            assert response.status_code == 200
            yield read(response)


@asynccontextmanager
async def served(folder: Path, more: str = "") -> AsyncIterator[Served]:
    command = json.dumps([*COMMAND, json.dumps({"folder": str(folder)})])
    own = folder / "own.toml"
    own.write_text(f'[models.m]\nkind = "acp"\ncommand = {command}\ncwd = {json.dumps(str(folder))}\n{more}')
    arguments = ("--config", own, "--state-dir", folder / "state", "serve", "--port", "0", "--pairing-code")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dragoman",
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        lines = [(await soon(process.stdout.readline())).decode() for _ in range(2)]
        address = lines[0].split()[-1]
        code = re.search(r"[0-9A-Z]{4}-[0-9A-Z]{4}", lines[1])
        assert code is not None, lines
        async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
            browser = Browser(address.rstrip("/"), client)
            await browser.pair(code[0])
            yield Served(process, browser, client)
    finally:
        if process.returncode is None:
            process.kill()
        await soon(process.wait())


async def _next(events: AsyncIterator[tuple[str, Json]], wanted: str) -> Json:
    async def look() -> Json:
        async for name, data in events:
            if name == wanted:
                return data
        raise AssertionError(f"the stream has ended without {wanted}")

    return await soon(look())


async def test_a_person_decides_and_the_server_ends_although_the_page_is_open(tmp_path: Path) -> None:
    async with served(tmp_path) as site, site.events() as events:
        await _next(events, "hello")
        body = {"model": "m", "input": json.dumps([RUN, ["say", "after it"]])}
        answering = asyncio.create_task(site.client.post("/v1/responses", json=body, timeout=30))
        question = await _next(events, "question")
        decided = await site.browser.call(
            "POST", f"questions/{question['id']}/decision", {"decision": "allow", "level": "session"}
        )
        assert (decided.status_code, decided.json()["state"]) == (200, "allowed")
        assert (await _next(events, "closed"))["outcome"]["by"] == "phone"
        answered = (await soon(answering)).json()
        assert "<p: the-allow_once>after it" in str(answered["output"])
        # An open page is no work that the server has to wait for.
        site.process.send_signal(signal.SIGTERM)
        assert await soon(site.process.wait()) == 0
        assert site.process.stderr is not None
        assert "ending as soon as" not in (await site.process.stderr.read()).decode()
        # The stream ended in order.
        async for name, _ in events:
            assert name in ("beat", "conversation")


async def _in_two_pieces(
    site: Served, call: str, body: Json, between: Callable[[], Awaitable[object]]
) -> bytes:
    """The first line of the answer to a call whose body is complete only after `between`."""
    browser = site.browser
    host = browser.origin.removeprefix("http://")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    data = json.dumps(body).encode()
    lines = (
        f"POST /console/api/{call} HTTP/1.1",
        f"host: {host}",
        f"origin: {browser.origin}",
        f"x-dragoman-console: {browser.token}",
        f"cookie: {cookie}",
        "content-type: application/json",
        f"content-length: {len(data)}",
        "expect: 100-continue",
        *("", ""),
    )
    reader, writer = await asyncio.open_connection(*host.split(":"))
    try:
        writer.write("\r\n".join(lines).encode())
        # The server has looked at the headers, and waits for the body.
        assert (await soon(reader.readline())).startswith(b"HTTP/1.1 100 ")
        assert await soon(reader.readline()) == b"\r\n"
        await between()
        writer.write(data)
        return await soon(reader.readline())
    finally:
        writer.close()


async def test_a_session_that_is_revoked_while_its_request_is_sent_makes_no_code(tmp_path: Path) -> None:
    async with served(tmp_path) as site:

        async def revoke() -> None:
            assert (await site.browser.call("DELETE", "sessions/self")).status_code == 200

        assert b" 401 " in await _in_two_pieces(site, "pairing", {"role": "decide"}, revoke)


async def test_a_session_that_is_revoked_while_its_decision_is_sent_decides_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as site, site.events() as events:
        await _next(events, "hello")
        body = {"model": "m", "input": json.dumps([RUN, ["say", "after it"]]), "stream": True}
        answering = asyncio.create_task(site.client.post("/v1/responses", json=body, timeout=30))
        question = await _next(events, "question")

        async def revoke() -> None:
            await site.browser.call("DELETE", "sessions/self")

        call = f"questions/{question['id']}/decision"
        assert b" 401 " in await _in_two_pieces(site, call, {"decision": "allow"}, revoke)
        answering.cancel()
        await asyncio.wait({answering})


async def test_a_question_that_waits_when_the_server_ends_is_refused_and_the_answer_says_so(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as site, site.events() as events:
        await _next(events, "hello")
        body = {"model": "m", "input": json.dumps([RUN, ["say", "after it"]]), "stream": True}
        answering = asyncio.create_task(site.client.post("/v1/responses", json=body, timeout=30))
        await _next(events, "question")
        site.process.send_signal(signal.SIGTERM)
        answer = (await soon(answering)).text
        assert "The server ended, and its console with it, before a person decided." in answer
        assert "after it" in answer
        assert answer.endswith("data: [DONE]\n\n")
