"""A command that is no agent, or an incomplete one: the error shows the command and its output."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.acp.content import TextBlock
from dragoman.acp.launch import launch
from dragoman.lm import LanguageModelError


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("echo", "hi\nyou"), "It said: hi\nyou. "),
        (("sh", "-c", "echo 'usage: me --acp' >&2; echo out"), "It said: usage: me --acp. "),
        (("true",), ""),
    ],
)
async def test_a_command_that_does_not_speak_acp(command: tuple[str, ...], said: str, tmp_path: Path) -> None:
    agent = await launch("Fake", command, os.environ, str(tmp_path), lambda: None)
    try:
        with pytest.raises(LanguageModelError):
            await agent.link.initialize()
        assert agent.gone.cancelled()
        error = await agent.explain_exit()
    finally:
        await agent.stop()
    assert error.message == "Fake ended unexpectedly: it exited with code 0."
    question = f"Its command may lack an argument (for many agents: --acp): {agent.link.command}"
    assert error.hint == f"{said}{question}\nTry again to restart it."


# Prints every message to its standard error, and kills itself at the named request.
_TALKER = """
import json, os, signal, sys
for line in sys.stdin:
    message = json.loads(line)
    print("\\x1b[31mheard\\x1b[0m", line.strip(), file=sys.stderr, flush=True)
    if message["method"] == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    result = {"protocolVersion": 1, "sessionId": "s"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
_SECRET = "my mother's maiden name"


async def _ended(until: str, folder: Path, *, taken_up: bool = False) -> tuple[str, str]:
    """An agent that is killed at that request: its message and hint."""
    command = (sys.executable, "-c", _TALKER, until)
    agent = await launch("Fake", command, os.environ, str(folder), lambda: None)
    gone = asyncio.Event()
    agent.gone.on_cancel(gone.set)
    try:
        with suppress(LanguageModelError):
            await agent.link.initialize()
            if taken_up:
                await agent.link.load_session(_SECRET, (str(folder),), ())
            await agent.link.set_mode("s", "plan")
            agent.link.prompt("s", (TextBlock(_SECRET),), lambda _end: None)
        await gone.wait()
        error = await agent.explain_exit()
    finally:
        await agent.stop()
    return error.message, str(error.hint)


async def test_f2_an_agent_that_ends_before_its_first_prompt_is_quoted(tmp_path: Path) -> None:
    message, hint = await _ended("session/set_mode", tmp_path)
    assert message == "Fake ended unexpectedly: it was ended by SIGKILL."
    assert "It said: " in hint
    assert "plan" in hint
    # What a terminal would obey is not in it.
    assert "heard {" in hint


@pytest.mark.parametrize("taken_up", [False, True], ids=["a prompt", "a session that it had"])
async def test_f3_f5_what_an_agent_printed_after_it_heard_of_a_conversation_goes_to_the_log_only(
    taken_up: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "dragoman")
    until = "session/set_mode" if taken_up else "session/prompt"
    message, hint = await _ended(until, tmp_path, taken_up=taken_up)
    assert message == "Fake ended unexpectedly: it was ended by SIGKILL."
    assert _SECRET not in hint
    assert "heard" not in hint
    assert "--log-level info" in hint
    assert "dragoman doctor" in hint
    [line] = [line for line in caplog.messages if _SECRET in line]
    assert line.startswith("Fake printed: ")


async def test_what_an_agent_printed_is_not_in_the_log_unless_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "dragoman")
    await _ended("session/prompt", tmp_path)
    assert _SECRET not in caplog.text
