"""A chat whose consumer keeps account: of every word it was given, every call it ran, everything it decided."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from dragoman.jsonrpc import ErrorResponse, RpcResponse
from faults.plan import Act, State
from vscode.editor import PERMISSIONS, TOOLS, Answer, Editor, returned

__all__ = ["WORD", "Chat", "name_of", "script", "turn_of"]

WORD = re.compile(r"«[^»@]+@\d+\.\d+»")
SKIPPED = "The user chose to skip the tool call, they want to proceed without running it"


_TURN = re.compile(r"[A-Z](\d+)\.")


def name_of(word: str) -> str:
    return word[1:].partition("@")[0]


def turn_of(word: str) -> int:
    """The number of the turn that it was said in; -1 for one outside any turn of ours."""
    found = _TURN.match(name_of(word))
    return int(found[1]) if found else -1


@dataclass
class Chat:
    name: str
    history: list[dict[str, Any]] = field(default_factory=list)
    # Of the last request.
    sent: list[dict[str, Any]] = field(default_factory=list)
    # Words in the order in which they stand in the chat, and all that ever came, also in what was thrown away.
    heard: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    ran: Counter[str] = field(default_factory=Counter)
    # Calls whose result went out in a request.
    given: set[str] = field(default_factory=set)
    decided: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    # Turns that the person stopped; that the bridge died in; that were asked for again.
    stopped: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": [{"type": "text", "value": text}]})

    def send(self, editor: Editor) -> Answer:
        """Raises `ConnectionClosed`; then nothing was sent."""
        answer = editor.respond("fake", list(self.history), [*TOOLS, *PERMISSIONS])
        self.sent = list(self.history)
        for part in (part for message in self.sent for part in message["content"]):
            if part["type"] == "tool_result":
                self.given.update(WORD.findall(str(part["content"])))
        return answer

    def again(self, editor: Editor) -> Answer:
        """The same request once more."""
        return editor.respond("fake", list(self.sent), [*TOOLS, *PERMISSIONS])

    def hear(self, answer: Answer, *, kept: bool = True) -> None:
        words = WORD.findall(answer.text)
        self.seen.update(words)
        if kept:
            self.heard += words
            if answer.text or answer.calls:
                self.history.append(answer.message)

    async def serve(self, call: dict[str, Any], editor: Editor) -> dict[str, Any]:
        """What the editor does with a call: run it, or ask the person. Returns the result."""
        assert call["callId"] not in self.ids, f"the call id {call['callId']} came twice"
        self.ids.add(call["callId"])
        if not call["name"].startswith("dragoman-agent-action-"):
            word = call["input"]["word"]
            self.ran[word] += 1
            return returned(call, f"ran {word}")
        shown = await editor.ask("tools/prepareInvocation", {"name": call["name"], "input": call["input"]})
        title = shown["confirmationMessages"]["title"]
        if title == "No longer open":
            # The dialog says no more than that, and whatever is pressed there grants nothing.
            return await editor.approve(call)
        # The call itself says nothing: the dialog must.
        assert WORD.findall(title), f"the dialog does not show what is asked: {shown}"
        [word, *_] = WORD.findall(title)
        if "R" in name_of(word):
            self.decided[word] = "deny"
            return returned(call, SKIPPED)
        self.decided[word] = "allow"
        return await editor.approve(call)

    def complain(self, answer: Answer) -> None:
        """An error names what to do."""
        match answer.reply:
            case RpcResponse():
                pass
            case ErrorResponse(error=error):
                data = error.data if isinstance(error.data, dict) else {}
                self.errors.append(error.message)
                assert data.get("kind"), f"an error of no kind: {error}"
                assert data.get("hint") or data["kind"] == "internal", (
                    f"an error without a next step: {error.message}"
                )
                assert data["kind"] != "internal", f"an internal error: {error.message}"


def script(chat: str, turn: int, acts: tuple[Act, ...], state: State | None) -> str:
    """What the agent is to do in a turn; in the one of the fault it comes to that state, and waits there."""
    steps: list[Any] = []
    here: list[Any] = ["at", f"{chat}-here"]
    waits = state
    for number, act in enumerate(acts):
        name = f"{chat}{turn}.{number}"
        match act, waits:
            case "speak", "silent":
                steps = [here, *steps, ["word", name]]
            case "speak", "speaking":
                steps += [["word", f"{name}a"], here, ["word", f"{name}b"]]
            case "speak", "cancelling":
                steps += [["slow_stop", "go-stopped"], ["word", name], ["note", "speaks"], ["hang"]]
            case "speak", _:
                steps += [["word", f"{name}a"], ["word", f"{name}b"]]
            case "call", "working on":
                row = [["gate", "handed-over"], ["word", f"{name}x"], here, ["word", f"{name}y"]]
                steps += [["all", [["use", "look_up", name], ["row", row]]]]
            case "call", "resumed":
                steps += [["use", "look_up", name], here, ["word", f"{name}z"]]
            case "call", _:
                steps += [["use", "look_up", name]]
            case "calls", "gathering":
                steps += [["announce", f"{name}p", "look_up"], ["announce", f"{name}q", "count"]]
                row = [here, ["use", "count", f"{name}q"]]
                steps += [["all", [["use", "look_up", f"{name}p"], ["row", row]]]]
            case "calls", _:
                steps += [["all", [["use", "look_up", f"{name}p"], ["use", "count", f"{name}q"]]]]
            case "ask", _:
                steps += [["permit", name]]
            case "refused", _:
                steps += [["permit", f"{name}R"]]
        if steps and here in json_steps(steps):
            waits = None
        if state == "cancelling" and act == "speak":
            break
    return json.dumps(steps)


def json_steps(steps: list[Any]) -> list[Any]:
    """All steps, also those inside others."""
    found: list[Any] = []
    for step in steps:
        found.append(step)
        if isinstance(step, list):
            found += json_steps([inner for inner in step if isinstance(inner, list)])
    return found
