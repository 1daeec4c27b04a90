"""The agent as a process of its own, as clients start it."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    EnvVariable,
    McpServerStdio,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from demo_agent.harness import Editor, agent_command, in_process, prompted_command, soon
from dragoman.backends.agent.toolserver import ToolServer
from process.living import alive, all_gone
from toolserver.harness import Bridge, text, tool

pytestmark = pytest.mark.long


class _SdkClient:
    """A client as one writes it with the official SDK."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[ToolCallUpdate] = []
        self._news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: object) -> None:
        self.updates.append(update)
        self._news.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: object
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        chosen = next(option.option_id for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def heard(self, words: str) -> None:
        while words not in self.said:
            self._news.clear()
            await self._news.wait()

    @property
    def said(self) -> str:
        return "".join(
            update.content.text for update in self.updates if update.session_update == "agent_message_chunk"
        )


async def test_the_official_sdk_talks_to_it(tmp_path: Path, folder: Path, server: ToolServer) -> None:
    bridge = Bridge.of(server, tool("read_file", "Reads"), name="dg-1")
    relay, relay_arguments, env = bridge.endpoint.stdio()
    address = McpServerStdio(
        name="dg-1",
        command=relay,
        args=list(relay_arguments),
        env=[EnvVariable(name=name, value=value) for name, value in env.items()],
    )
    client = _SdkClient()
    command, *arguments = prompted_command(tmp_path / "state")
    async with spawn_agent_process(client, command, *arguments) as (agent, process):  # type: ignore[arg-type]  # a client need not do everything
        hello = await soon(agent.initialize(PROTOCOL_VERSION))
        assert hello.agent_info is not None
        assert hello.agent_info.name == "dragoman-demo-agent"
        session = (await soon(agent.new_session(str(folder), mcp_servers=[address]))).session_id
        answering = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[text_block("read it")]))
        bridge.answer(await bridge.call(), text("A RESULT"))
        assert (await soon(answering)).stop_reason == "end_turn"
        assert "A RESULT" in client.said
        await soon(agent.prompt(session_id=session, prompt=[text_block("write a file")]))
        assert (folder / "demo-agent.txt").exists()
        assert [call.kind for call in client.asked] == ["other", "edit"]
        await soon(agent.set_session_mode(session_id=session, mode_id="plan"))
        with pytest.raises(RequestError):
            await soon(agent.prompt(session_id=session, prompt=[text_block("!error")]))
        answering = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[text_block("!hang")]))
        await soon(client.heard("until you cancel"))
        await soon(agent.cancel(session_id=session))
        assert (await soon(answering)).stop_reason == "cancelled"
        await soon(agent.load_session(str(folder), session, mcp_servers=[]))
        await soon(agent.close_session(session_id=session))
    assert process.returncode == 0


async def test_a_crash_is_a_crash_and_the_next_process_takes_the_session_up(
    tmp_path: Path, folder: Path
) -> None:
    async with in_process(tmp_path) as (editor, process):
        session = await editor.start(folder)
        await editor.say(session, "my name is Pierre")
        editor.peer.call("session/prompt", _prompt(session, "!crash 3"), _ignored)
        assert (await soon(process.wait())).code == 3
        await soon(editor.ended.wait())
        assert editor.text(session).endswith("I crash now.\n")
    async with in_process(tmp_path) as (editor, _):
        await editor.ask("initialize", protocolVersion=1)
        await editor.ask("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
        assert "my name is Pierre" in editor.text(session, kind="user_message_chunk")
        said = await editor.say(session, "what did I say before?")
        assert "Pierre" in said
        assert "!crash 3" in said


def _prompt(session: str, words: str) -> dict[str, object]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": words}]}


_ENDS = {"end of input": 0, "SIGTERM": 0, "SIGINT": 130, "crash": 70}


@pytest.mark.parametrize("how", _ENDS)
async def test_it_leaves_nobody_behind(tmp_path: Path, folder: Path, server: ToolServer, how: str) -> None:
    bridge = Bridge.of(server, tool("wait", "Waits"), name="dg-1")
    command, arguments, env = bridge.endpoint.stdio()
    # A tool server that says its number first.
    arguments = ("-c", 'echo $$ > "$0"; exec "$@"', str(tmp_path / "pid"), command, *arguments)
    variables = [{"name": name, "value": value} for name, value in env.items()]
    async with in_process(tmp_path, installed=how != "crash") as (editor, process):
        session = await editor.start(
            folder, {"name": "dg-1", "command": "/bin/sh", "args": list(arguments), "env": variables}
        )
        pids = {_number(tmp_path / "pid")}
        editor.peer.call("session/prompt", _prompt(session, "Use the tool wait."), _ignored)
        await bridge.call()
        other = await editor.new(folder)
        if how != "crash":
            editor.peer.call("session/prompt", _prompt(other, "Run `echo $$; exec sleep 60`."), _ignored)
            await editor.until(lambda: _printed(editor, other))
            pids |= _printed(editor, other)
        assert alive(pids) == pids
        match how:
            case "end of input":
                editor.peer.close_writing()
            case "crash":
                editor.peer.call("session/prompt", _prompt(other, "!crash"), _ignored)
            case _:
                os.kill(process.pid, getattr(signal, how))
        assert (await soon(process.wait())).code == _ENDS[how]
        await all_gone(pids)


def _ignored(_reply: object) -> None:
    pass


def _number(file: Path) -> int:
    return int(file.read_text())


def _printed(editor: Editor, session: str) -> set[int]:
    """The numbers that a command of the agent's has printed."""
    contents = [update.get("content") for update in editor.updates(session, "tool_call_update")]
    return {int(number) for number in re.findall(r"'text': '(\d+)\\n'", str(contents))}


async def test_standard_output_carries_the_protocol_only(tmp_path: Path, folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *agent_command(tmp_path, "--log-level", "debug"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"this is no JSON\n[1]\n")
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        lines = [json.loads(await soon(process.stdout.readline())) for _ in range(3)]
        assert [line.get("error", {}).get("code") for line in lines] == [-32700, -32600, None]
        process.stdin.close()
        rest, log = await soon(process.communicate())
        assert rest == b""
        assert b"the client is gone" in log
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [(("--pace", "supersonic"), 2, "no pace"), (("--sessions",), 2, "expected one argument")],
)
async def test_a_command_line_that_makes_no_sense(
    tmp_path: Path, options: tuple[str, ...], status: int, said: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        *agent_command(tmp_path, *options), stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, error = await soon(process.communicate())
    assert process.returncode == status
    assert said in error.decode()


async def test_without_a_standard_output_there_is_nobody_to_talk_to(tmp_path: Path) -> None:
    command = " ".join(f"'{word}'" for word in agent_command(tmp_path))
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        f"exec {command} >&-",
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, error = await soon(process.communicate())
    assert (process.returncode, b"no client to talk to" in error) == (1, True)


async def test_it_starts_without_what_takes_long_to_import() -> None:
    program = "import sys, dragoman.cli.demo_agent; print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    imported, _ = await soon(process.communicate())
    assert not {"mcp", "acp", "httpx2", "jsonschema", "rich", "uvicorn"} & set(imported.decode().split())


async def test_the_doctor_has_nothing_to_say_against_it(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "dragoman", "doctor", "demo", "--state-dir", str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, cwd=tmp_path
    )
    # It starts the agent several times, and waits for what it may not do.
    told, _ = await asyncio.wait_for(process.communicate(), 60)
    examined = told.decode()
    assert "it asks before it acts, and respects a denial" in examined
    assert not re.findall(r"^(?:warn|fail) .*", examined, re.MULTILINE)
