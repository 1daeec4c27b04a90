"""An editor in a page: `dragoman vscode` on standard input and output, one prompt, every permission asked for.

    python examples/editor.py demo 'run `echo hello`'

docs/reference/protocol.md has all of the protocol. DRAGOMAN is the program, if it is not on the PATH.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


class Dragoman:
    """The other end. Requests are made one at a time here; a real editor makes them side by side."""

    def __init__(self) -> None:
        program = shlex.split(os.environ.get("DRAGOMAN", "dragoman"))
        self._process = subprocess.Popen([*program, "vscode"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ids = itertools.count(1)

    def request(self, method: str, params: Json, on_part: Callable[[Json], None] = lambda _part: None) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        id_ = next(self._ids)
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            told = json.loads(line)
            if told.get("method") == "lm/responsePart" and told["params"]["requestId"] == id_:
                on_part(told["params"]["part"])
            elif told.get("id") == id_:
                if "error" in told:
                    raise SystemExit(told["error"]["message"])
                return told["result"]
        raise SystemExit("Dragoman has ended.")

    def close(self) -> None:
        self.request("shutdown", {})
        self._process.communicate()


def main(model: str, prompt: str) -> None:
    dragoman = Dragoman()
    ready = dragoman.request(
        "initialize",
        {
            "protocolVersion": 1,
            "client": {"name": "example"},
            "workspaceFolders": [str(Path.cwd())],
            "features": {"thinking": True},
        },
    )
    tools = [{"name": name, "description": "Asks a person."} for name in ready["permissionTools"]]
    messages: list[Json] = [{"role": "user", "content": [{"type": "text", "value": prompt}]}]
    while True:
        parts: list[Json] = []

        def show(part: Json, parts: list[Json] = parts) -> None:
            parts.append(part)
            if part["type"] == "text":
                print(part["value"], end="", flush=True)

        dragoman.request(
            "lm/provideLanguageModelChatResponse",
            {"modelId": model, "messages": messages, "options": {"tools": tools}},
            show,
        )
        # All of it goes back, also the parts that nobody saw: they say which conversation this is.
        messages.append({"role": "assistant", "content": parts})
        calls = [part for part in parts if part["type"] == "tool_call"]
        if not calls:
            break
        messages.append({"role": "user", "content": [decided(dragoman, call) for call in calls]})
    dragoman.close()


def decided(dragoman: Dragoman, call: Json) -> Json:
    """Ask a person with Dragoman's own words, and fetch the proof if they agree."""
    asked = {"name": call["name"], "input": call["input"]}
    question = dragoman.request("tools/prepareInvocation", asked)["confirmationMessages"]
    print(f"\n{question['title']}\n{question['message']}\n")
    if is_allowed():
        # A sensitive action needs a dialog that no mode of an editor skips. This one is never skipped.
        content = dragoman.request("tools/invoke", {**asked, "confirmed": True})["content"]
        return {"type": "tool_result", "callId": call["callId"], "content": content}
    refusal = [{"type": "text", "value": "Tool use rejected with user message: not today"}]
    return {"type": "tool_result", "callId": call["callId"], "content": refusal, "isError": True}


def is_allowed() -> bool:
    """Ask at the terminal. The end of the input counts as a no."""
    try:
        return input("Allow this once? [y/N] ").strip().lower() == "y"
    except EOFError:
        return False


if __name__ == "__main__":
    match sys.argv[1:]:
        case [model, prompt]:
            main(model, prompt)
        case _:
            sys.exit("usage: editor.py MODEL PROMPT")
