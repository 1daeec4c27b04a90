"""`dragoman chat --json` as a program drives it, with an agent that asks for whatever the test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_agent.steps import COMMAND, prompt

__all__ = ["ALLOWED", "Run", "User", "ask"]

_LIMIT_SECONDS = 60
# What the fake agent says when it was allowed to act.
ALLOWED = "<t1: the-allow_once>"


def ask(**tool_call: object) -> list[object]:
    """A step of the fake agent: one permission request with exactly these fields."""
    return ["ask", {"toolCallId": "t1", **tool_call}, ["allow_once", "reject_once"]]


@dataclass
class Run:
    """What one `dragoman chat --json` printed."""

    events: list[dict[str, Any]] = field(default_factory=list)
    errors: str = ""

    @property
    def questions(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == "asked"]

    @property
    def question(self) -> dict[str, Any]:
        [question] = self.questions
        return question

    @property
    def shown(self) -> str:
        """All that a person reads before they decide."""
        return f"{self.question['title']}\n{self.question['message']}"

    @property
    def text(self) -> str:
        return "".join(event["text"] for event in self.events if event["event"] == "text")


class User:
    """Somebody with a state folder and a configuration of their own, who works in `workspace`."""

    def __init__(self, home: Path, *, settings: str = "", models: tuple[str, ...] = ("fake",)) -> None:
        self.home = home
        self.workspace = home / "work"
        self.workspace.mkdir(parents=True)
        command = json.dumps([*COMMAND, json.dumps({"folder": str(home)})])
        tables = "".join(
            f'[models.{model}]\nkind = "acp"\nagent = "demo"\ncommand = {command}\nname = "{model.title()} Agent"\n'
            for model in models
        )
        self.config = home / "dragoman.toml"
        self.config.write_text(tables + settings)

    def run(
        self,
        *steps: object,
        answers: str | list[str] = "once",
        model: str = "fake",
        folder: Path | None = None,
    ) -> Run:
        """One prompt. Each question gets the next answer: a level, or "deny"; the last one counts for the rest."""
        with subprocess.Popen(
            [
                sys.executable, "-m", "dragoman", "--config", str(self.config), "--state-dir", str(self.home / "state"),
                "chat", model, "--json", "-p", prompt(*steps),
            ],
            cwd=folder or self.workspace,
            env={**os.environ, "HOME": str(self.home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:  # fmt: skip
            try:
                return self._follow(process, [answers] if isinstance(answers, str) else list(answers))
            finally:
                process.kill()

    def _follow(self, process: subprocess.Popen[str], answers: list[str]) -> Run:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        run = Run()
        for line in process.stdout:
            event = json.loads(line)
            run.events.append(event)
            if event["event"] == "asked":
                level = answers.pop(0) if len(answers) > 1 else answers[0]
                decision = {"decision": "deny"} if level == "deny" else {"decision": "allow", "level": level}
                process.stdin.write(json.dumps({"callId": event["callId"], **decision}) + "\n")
                process.stdin.flush()
        run.errors = process.stderr.read()
        process.wait(_LIMIT_SECONDS)
        return run
