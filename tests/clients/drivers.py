"""Libraries as clients: a process that has them, which runs one job after the other."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients import install
from clients.scenarios import Found, Job
from clients.serving import MODEL

__all__ = ["OFFLINE", "Libraries"]

_HERE = Path(__file__).parent
# They tell nobody that they run, and fetch no list of models.
OFFLINE = {
    "DO_NOT_TRACK": "1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "PYDANTIC_AI_DISABLE_TELEMETRY": "1",
    "AI_SDK_LOG_WARNINGS": "false",
    "HF_HUB_OFFLINE": "1",
}


class Libraries:
    """The clients of one environment. Their functions are `look_up` and `count`."""

    shows_items = False

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count(1)

    @classmethod
    async def start(cls, runner: str, home: Path) -> Libraries:
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **OFFLINE}
        command: tuple[str, ...]
        if runner == "node":
            command = (str(install.node()), str(_HERE / "node" / "driver.mjs"), str(install.node_clients()))
        else:
            command = (str(install.python(runner)), str(_HERE / "libraries" / "driver.py"))
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=home,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        return cls(process)

    async def close(self) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()

    async def run(self, job: Job, on_piece: Callable[[str], None]) -> Found:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        id_ = next(self._ids)
        asked = {
            "id": id_,
            "client": job.client,
            "scenario": job.scenario,
            "url": job.url,
            "model": MODEL,
            "prompts": job.prompts,
        }
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            assert told["id"] == id_, told
            if "piece" in told:
                on_piece(told["piece"])
            elif "result" in told:
                calls = [(name, arguments) for name, arguments in told["result"].pop("calls")]
                return Found(calls=calls, **told["result"])
            else:
                raise AssertionError(f"{job.client} failed:\n{told['error']}")
        raise AssertionError(f"{job.client} has ended")

    def call(self, name: str, word: str) -> list[Any]:
        return ["call", name, {"word": word}]

    def returned(self, name: str, word: str) -> str:
        return f"<{name} of {word}>"
