"""Recorded by a command, played as a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from devtools.traces.reading import connections, method_of, read_trace

from dragoman.backends.agent.toolserver.relay import TOKEN_VARIABLE

pytestmark = pytest.mark.long

# The developers' tools are not installed.
_ROOT = Path(__file__).parents[2]
_PLAYS = (sys.executable, "-m", "devtools.traces")


def _chat(folder: Path, *options: str) -> tuple[str, str]:
    """What the model says to a greeting, and what went to standard error."""
    command = (
        sys.executable,
        "-m",
        "dragoman",
        "chat",
        "-p",
        "hello",
        "--json",
        "--state-dir",
        str(folder / "state"),
    )
    ended = subprocess.run(
        [*command, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    return "".join(event["text"] for event in events if event["event"] == "text"), ended.stderr


def _play(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(_ROOT)}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_chat_is_recorded_and_the_recording_is_an_agent(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    said, _ = _chat(tmp_path, "demo", "--record", str(trace))
    assert said
    (frames,) = connections(read_trace(trace)).values()
    methods = [method_of(frame) for frame in frames if frame.direction == "c2a" and method_of(frame)]
    assert methods[:3] == ["initialize", "session/new", "session/prompt"]
    assert re.search(rf'"{TOKEN_VARIABLE}","value":"\[redacted\]"', trace.read_text())
    config = tmp_path / "played.toml"
    config.write_text(
        f'[models.played]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps([*_PLAYS, str(trace)])}\n'
        f"env = {{ PYTHONPATH = {json.dumps(str(_ROOT))} }}\n"
    )
    again, _ = _chat(tmp_path, "played", "--config", str(config))
    assert again == said


def test_a_recording_is_the_client_of_an_agent(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    _chat(tmp_path, "demo", "--record", str(trace))
    agent = (sys.executable, "-m", "dragoman", "demo-agent")
    command = [*_PLAYS, str(trace), "--against", *agent, "--state-dir", str(tmp_path / "other")]
    ended = _play(command, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    # Another question than that answer was for.
    trace.write_text(trace.read_text().replace('"hello"', '"make a plan"'))
    ended = _play(command, tmp_path)
    assert ended.returncode == 1
    assert "expected:" in ended.stderr


def test_a_file_that_is_no_trace_is_said(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("no\n")
    ended = _play([*_PLAYS, str(file)], tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith("trace.jsonl:1: this is no frame: ")
