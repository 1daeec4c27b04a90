"""`llm` in the terminal."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients import install
from clients.programs.process import Output, Program
from clients.scenarios import Found, Job
from clients.serving import MODEL

__all__ = ["Llm"]

_FUNCTIONS = """
def look_up(word: str) -> str:
    "Look a word up."
    return f"<look_up of {word}>"

def count(word: str) -> str:
    "Count a word."
    return f"<count of {word}>"
"""
_CALL = re.compile(r"^Tool call: (\w+)\((.*)\)$", re.MULTILINE)


class Llm(Program):
    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.env |= {"LLM_USER_PATH": str(home / "llm"), "OPENAI_API_KEY": "none"}
        (home / "llm").mkdir()

    async def run(self, job: Job, on_piece: Callable[[str], None]) -> Found:
        model = {
            "model_id": MODEL,
            "model_name": MODEL,
            "api_base": job.url,
            "responses": True,
            "supports_tools": True,
            "supports_schema": True,
        }
        # JSON is YAML, too.
        (self.home / "llm" / "extra-openai-models.yaml").write_text(json.dumps([model]))
        options = {
            "tool_loop": ("--functions", _FUNCTIONS, "--td"),
            "parallel_tools": ("--functions", _FUNCTIONS, "--td"),
            "structured": ("--schema", "name, people int"),
        }
        shown = 0

        def on_output(output: Output) -> bool:
            nonlocal shown
            on_piece(output.out[shown:])
            shown = len(output.out)
            return job.scenario == "abort" and "." in output.out

        texts: list[str] = []
        output = Output()
        for prompt in job.prompts:
            more = ("-c",) if texts else options.get(job.scenario, ())
            output = await self.execute(
                *(str(install.python("python")), "-m", "llm", "-m", MODEL, *more, prompt), on_output=on_output
            )
            texts.append(output.out.strip())
        calls: list[tuple[str, Any]] = [
            (name, ast.literal_eval(given)) for name, given in _CALL.findall(output.err)
        ]
        objects = [json.loads(text) for text in texts] if job.scenario == "structured" else []
        return Found(texts, output.err.strip(), calls, objects)

    def call(self, name: str, word: str) -> list[Any]:
        return ["call", name, {"word": word}]

    def returned(self, name: str, word: str) -> str:
        return f"<{name} of {word}>"
