"""Codex, over HTTP or over a WebSocket."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients import install
from clients.programs.process import Output, Program
from clients.scenarios import CITY_SCHEMA, Found, Job
from clients.serving import MODEL, Json

__all__ = ["Codex"]

_SETTINGS = """\
model = "{model}"
model_provider = "dragoman"
sandbox_mode = "danger-full-access"
approval_policy = "never"
check_for_update_on_startup = false

[model_providers.dragoman]
name = "Dragoman"
base_url = "{url}"
wire_api = "responses"
supports_websockets = {websocket}
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"""


class Codex(Program):
    shows_items = True

    def __init__(self, home: Path, *, websocket: bool = False) -> None:
        super().__init__(home)
        self._websocket = json.dumps(websocket)
        (home / ".codex").mkdir()
        (home / "city.json").write_text(json.dumps(CITY_SCHEMA))

    async def run(self, job: Job, on_piece: Callable[[str], None]) -> Found:
        settings = _SETTINGS.format(model=MODEL, url=job.url, websocket=self._websocket)
        (self.home / ".codex" / "config.toml").write_text(settings)
        items: list[Json] = []

        def on_output(output: Output) -> bool:
            found = _items(output.out)
            for item in found[len(items) :]:
                if item["type"] == "agent_message":
                    on_piece(item["text"])
            items[:] = found
            return job.scenario == "abort" and bool(_texts(items))

        texts: list[str] = []
        for prompt in job.prompts:
            items.clear()
            words = ("exec", "resume", "--last") if texts else ("exec",)
            form = ("--output-schema", str(self.home / "city.json")) if job.scenario == "structured" else ()
            options = ("--json", "--skip-git-repo-check", *form)
            await self.execute(str(install.codex()), *words, *options, prompt, on_output=on_output)
            texts += _texts(items)
        thinking = "".join(item["text"] for item in items if item["type"] == "reasoning")
        calls: list[tuple[str, Any]] = [
            ("exec_command", {"cmd": shlex.split(item["command"])[-1]})
            for item in items
            if item["type"] == "command_execution"
        ]
        objects = [json.loads(text) for text in texts] if job.scenario == "structured" else []
        return Found(texts, thinking, calls, objects)

    def call(self, name: str, word: str) -> list[Any]:
        return ["call", "exec_command", {"cmd": f"echo {word}"}]

    def returned(self, name: str, word: str) -> str:
        return f"Output:\n{word}\n"


def _items(lines: str) -> list[Json]:
    """All whole ones so far."""
    events = [json.loads(line) for line in lines.splitlines(keepends=True) if line.endswith("\n")]
    return [event["item"] for event in events if event["type"] == "item.completed"]


def _texts(items: list[Json]) -> list[str]:
    return [item["text"] for item in items if item["type"] == "agent_message"]
