"""aider, without a terminal. It calls no functions: its model answers with files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients import install
from clients.programs.process import Output, Program
from clients.scenarios import Found, Job
from clients.serving import MODEL

__all__ = ["Aider"]

_OPTIONS = ("--no-check-update", "--no-show-release-notes", "--no-git", "--no-pretty", "--no-fancy-input")
_HEAD = re.compile(r"\A.*?^Repo-map: disabled$", re.DOTALL | re.MULTILINE)
_COUNT = re.compile(r"^Tokens: .*$", re.MULTILINE)
_THINKING = re.compile(r"-{5,}\n► \*\*THINKING\*\*\n(.*?)\n-{5,}\n► \*\*ANSWER\*\*\n", re.DOTALL)
_ASKS = re.compile(r"^> *$", re.MULTILINE)


class Aider(Program):
    def __init__(self, home: Path) -> None:
        super().__init__(home)
        # It would look for the limits of a model that it does not know.
        limits = {"max_input_tokens": 200_000, "max_output_tokens": 16_000}
        known = {f"openai/{MODEL}": {**limits, "litellm_provider": "openai", "mode": "chat"}}
        (self.folder / ".aider.model.metadata.json").write_text(json.dumps(known))

    async def run(self, job: Job, on_piece: Callable[[str], None]) -> Found:
        self.env |= {"OPENAI_API_BASE": job.url, "OPENAI_API_KEY": "none", "AIDER_ANALYTICS_DISABLE": "true"}
        shown = ""

        def on_output(output: Output) -> bool:
            nonlocal shown
            answers, _ = _answers(output.out)
            said = answers[-1] if answers else ""
            if said.startswith(shown) and said != shown:
                on_piece(said[len(shown) :])
                shown = said
            return job.scenario == "abort" and "." in said

        output = await self.execute(
            *(str(install.python("aider")), "-m", "aider", "--model", f"openai/{MODEL}", *_OPTIONS),
            given="".join(f"{line}\n" for line in (*job.prompts, "/exit")),
            on_output=on_output,
        )
        texts, thinking = _answers(output.out)
        return Found(texts, thinking)

    def call(self, name: str, word: str) -> list[Any]:
        raise NotImplementedError

    def returned(self, name: str, word: str) -> str:
        raise NotImplementedError


def _answers(shown: str) -> tuple[list[str], str]:
    """The answers, between the marks that aider puts around them; and the thinking."""
    body, found = _HEAD.subn("", shown)
    if not found:
        return [], ""
    thinking = "".join(_THINKING.findall(body))
    body = _ASKS.sub("", _COUNT.sub("\0", _THINKING.sub("", body)))
    return [answer.strip() for answer in body.split("\0") if answer.strip()], thinking.strip()
