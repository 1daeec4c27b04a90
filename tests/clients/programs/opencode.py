"""opencode: its server, which its user interfaces talk to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from clients import install
from clients.programs.process import Program
from clients.scenarios import CITY_SCHEMA, Found, Job
from clients.serving import MODEL, Json, Servers

__all__ = ["OPENCODE_OFFLINE", "Opencode"]

OPENCODE_OFFLINE = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}


class Opencode(Program):
    def __init__(self, home: Path, servers: Servers) -> None:
        super().__init__(home)
        self.env |= OPENCODE_OFFLINE
        # One provider for each server.
        self._providers = {url: way for way, url in servers.urls.items()}
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "permission": "allow",
            "provider": {way: _provider(url) for way, url in servers.urls.items()},
        }
        (self.folder / "opencode.json").write_text(json.dumps(settings))
        self._process: asyncio.subprocess.Process | None = None
        self._http = httpx2.AsyncClient(timeout=None)

    async def close(self) -> None:
        await self._http.aclose()
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(str(install.opencode()), "serve", "--port", "0"),
            cwd=self.folder,
            env=self.env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        while b" listening on " not in (line := await self._process.stdout.readline()):
            assert line, "opencode has ended"
        self._http.base_url = line.split()[-1].decode()

    async def run(self, job: Job, on_piece: Callable[[str], None]) -> Found:
        if self._process is None:
            await self.start()
        session = (await self._post("/session", {}))["id"]

        def on_text(text: str) -> None:
            on_piece(text)
            if job.scenario == "abort":
                aborting.append(asyncio.create_task(self._post(f"/session/{session}/abort", {})))

        aborting: list[asyncio.Task[Any]] = []
        body: Json = {"model": {"providerID": self._providers[job.url], "modelID": MODEL}}
        if job.scenario == "structured":
            body["format"] = {"type": "json_schema", "schema": CITY_SCHEMA}
        texts: list[str] = []
        answer: Json = {}
        async with self._watched(session, on_text) as idle:
            for prompt in job.prompts:
                asked = body | {"parts": [{"type": "text", "text": prompt}]}
                answer = await self._post(f"/session/{session}/message", asked)
                texts.append("".join(part["text"] for part in answer["parts"] if part["type"] == "text"))
                # Its last words come by another way than its answer.
                await idle.get()
            await asyncio.gather(*aborting)
        if job.scenario == "structured":
            return Found(texts, objects=[answer["info"]["structured"]])
        messages = await self._get(f"/session/{session}/message")
        parts = [part for message in messages for part in message["parts"]]
        return Found(
            texts,
            "".join(part["text"] for part in parts if part["type"] == "reasoning"),
            [
                ("bash", part["state"]["input"])
                for part in parts
                if part["type"] == "tool" and part["tool"] == "bash"
            ],
        )

    async def _get(self, path: str) -> Any:
        answer = await self._http.get(path)
        assert answer.status_code == httpx2.codes.OK, answer.text
        return answer.json()

    async def _post(self, path: str, body: Json) -> Any:
        answer = await self._http.post(path, json=body)
        assert answer.status_code == httpx2.codes.OK, answer.text
        return answer.json()

    @asynccontextmanager
    async def _watched(
        self, session: str, on_text: Callable[[str], None]
    ) -> AsyncIterator[asyncio.Queue[None]]:
        """Its events, as its user interfaces have them. Deltas of the answer's text are pieces. The queue has an entry for each
        turn that has ended.
        """
        kinds: dict[str, str] = {}
        idle: asyncio.Queue[None] = asyncio.Queue()
        async with self._http.stream("GET", "/event") as events:
            lines = events.aiter_lines()
            # From now on, none is missed.
            await anext(lines)

            async def watch() -> None:
                async for line in lines:
                    event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                    about = event.get("properties", {})
                    if about.get("sessionID") != session:
                        continue
                    if event["type"] == "message.part.updated":
                        kinds[about["part"]["id"]] = about["part"]["type"]
                    elif event["type"] == "message.part.delta" and kinds[about["partID"]] == "text":
                        on_text(about["delta"])
                    elif event["type"] == "session.status" and about["status"]["type"] == "idle":
                        idle.put_nowait(None)

            watching = asyncio.create_task(watch())
            try:
                yield idle
            finally:
                watching.cancel()
                await asyncio.wait([watching])

    def call(self, name: str, word: str) -> list[Any]:
        return ["call", "bash", {"command": f"echo {word}", "description": name}]

    def returned(self, name: str, word: str) -> str:
        return f"{word}\n"


def _provider(url: str) -> Json:
    limit = {"context": 200_000, "output": 16_000}
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Dragoman",
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {MODEL: {"name": "Scripted", "tool_call": True, "reasoning": True, "limit": limit}},
    }
