"""Records the wire of agents for `tests/traces/data`: `PYTHONPATH=tests python -m agents.record gemini qwen`.

Each scenario is a trace of its own, from a new agent behind `dragoman vscode`. What differs from run to run or from
machine to machine is replaced: folders, addresses, the name of our tool server, and the lists of modes, models and
commands. Run `make goldens` afterwards, and read them.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from agents import install
from agents.rows import ROWS
from agents.running import Desk, answered, at_desk
from model_server import play
from vscode.editor import PERMISSIONS, Chat, returned, tool

Json: TypeAlias = dict[str, Any]

_DATA = Path(__file__).parents[1] / "traces" / "data"
_SERVER = re.compile(r"dg-[0-9a-f]{8}")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
# What an agent offers to choose from.
_LISTS = frozenset(
    {
        "availableCommands",
        "availableModes",
        "availableModels",
        "availableSkillDetails",
        "availableSkills",
        "options",
    }
)


async def _allow(desk: Desk, call: Json) -> Json:
    if call["name"].startswith("probe_"):
        return returned(call, f"{call['name']} says {call['input']['word']}")
    return await desk.editor.approve(call)


async def _turn(desk: Desk, chat: Chat, *replies: str) -> None:
    await answered(chat, await chat.say(play(*replies)), lambda call: _allow(desk, call))


async def _calls(desk: Desk, chat: Chat) -> None:
    await _turn(desk, chat, "say Calling alpha.; call probe_alpha$ word=one", "say Done: {results}.")
    three = "; ".join(f"call probe_{name}$ word={name}" for name in ("alpha", "beta", "gamma"))
    await _turn(desk, chat, three, "say All: {results}.")


async def _command_allowed(desk: Desk, chat: Chat) -> None:
    await _turn(desk, chat, "say I will run a command.; run echo ran > out.txt", "say Done: {results}.")


async def _command_refused(desk: Desk, chat: Chat) -> None:
    answer = await chat.say(play("run echo ran > out.txt", "say After {results}."))
    await chat.say(*[returned(call, "No.", isError=True) for call in answer.calls])
    await _turn(desk, chat, "say Still here.")


async def _file_allowed(desk: Desk, chat: Chat) -> None:
    await _turn(desk, chat, f"write {desk.workspace / 'new.txt'} yes", "say Done: {results}.")


async def _cancelled_with_a_question_open(desk: Desk, chat: Chat) -> None:
    await chat.say(play("run echo ran > out.txt", "say After {results}."))
    await _turn(desk, chat, "say Still here.")


async def _cancelled_in_mid_stream(desk: Desk, chat: Chat) -> None:
    answer = chat.begin(play("say Begin of it.; wait never; say After all."))
    await answer.until(lambda it: "Begin of it." in it.text)
    answer.cancel()
    await chat.end(answer)
    await _turn(desk, chat, "say Still here.")


_SCENARIOS: dict[str, Callable[[Desk, Chat], Awaitable[None]]] = {
    "mcphttp": _calls,
    "bashallow": _command_allowed,
    "bashreject": _command_refused,
    "writeallow": _file_allowed,
    "cancelperm": _cancelled_with_a_question_open,
    "cancel": _cancelled_in_mid_stream,
}


async def _record(agent: str, scenario: str) -> None:
    with TemporaryDirectory() as folder:
        async with at_desk(ROWS[agent], Path(folder) / "desk") as desk:
            tools = [*(tool(f"probe_{name}") for name in ("alpha", "beta", "gamma")), *PERMISSIONS]
            await _SCENARIOS[scenario](desk, Chat(desk.editor, agent, tools, []))
        lines = (desk.folder / "wire.jsonl").read_text().splitlines()
        places = {desk.workspace: "/WS", desk.folder / "home": "/HOME", install.cache(): "/TOOLS"}
        (_DATA / f"{agent}-{scenario}.jsonl").write_text("".join(_cleaned(line, places) for line in lines))
    print(f"{agent}-{scenario}: {len(lines)} frames", flush=True)


def _cleaned(line: str, places: dict[Path, str]) -> str:
    for folder, name in places.items():
        line = line.replace(str(folder), name)
    line = _ADDRESS.sub("http://127.0.0.1:1", _SERVER.sub("dg-0badcafe", line))
    frame = json.loads(line)
    message = _without_lists(frame["msg"])
    if message.get("method") == "initialize":
        message["params"]["clientInfo"]["version"] = "0"
    if message.get("method") == "session/prompt":
        # A player looks for folders there, too, and its own differ.
        for block in message["params"]["prompt"]:
            block["text"] = block["text"].replace("/WS/", "")
    kept = {"t": round(frame["t"], 3), "dir": frame["dir"], "msg": message}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n"


def _without_lists(value: Any) -> Any:
    match value:
        case {"toolCall": _, "options": options, **rest}:
            # Of a question: these are the answers.
            return {**rest, "toolCall": value["toolCall"], "options": options}
        case dict():
            return {name: [] if name in _LISTS else _without_lists(each) for name, each in value.items()}
        case list():
            return [_without_lists(each) for each in value]
        case _:
            return value


async def _record_all(agents: list[str]) -> None:
    for agent in agents:
        for scenario in _SCENARIOS:
            await _record(agent, scenario)


if __name__ == "__main__":
    asyncio.run(_record_all(sys.argv[1:]))
