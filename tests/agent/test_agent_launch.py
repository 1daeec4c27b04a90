"""A command that is no agent, or not all of one: whoever wrote it learns what it is and what it said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.backends.agent.acp.launch import launch
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
    question = f"Is its command complete (for many agents: --acp)? It is: {agent.link.command}"
    assert error.hint == f"{said}{question}\nTry again to start it anew."
