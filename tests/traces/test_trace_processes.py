"""Recorded by a command, played as a process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.traces.frames import connections, read_trace

pytestmark = pytest.mark.long

_PLAYS = (sys.executable, "-m", "dragoman.traces")


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


def test_a_chat_is_recorded_and_the_recording_is_an_agent(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    said, _ = _chat(tmp_path, "demo", "--record", str(trace))
    assert said
    (frames,) = connections(read_trace(trace)).values()
    methods = [frame.method for frame in frames if frame.direction == "c2a" and frame.method]
    assert methods[:3] == ["initialize", "session/new", "session/prompt"]
    assert re.search(r'"Authorization","value":"\[redacted\]"', trace.read_text())
    assert "Bearer" not in trace.read_text()
    config = tmp_path / "played.toml"
    config.write_text(
        f'[models.played]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps([*_PLAYS, str(trace)])}\n'
    )
    again, _ = _chat(tmp_path, "played", "--config", str(config))
    assert again == said


def test_a_recording_is_the_client_of_an_agent(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    _chat(tmp_path, "demo", "--record", str(trace))
    agent = (sys.executable, "-m", "dragoman", "demo-agent")
    command = [*_PLAYS, str(trace), "--against", *agent, "--state-dir", str(tmp_path / "other")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    # Another question than that answer was for.
    trace.write_text(trace.read_text().replace('"hello"', '"make a plan"'))
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "expected:" in ended.stderr


def test_a_file_that_is_no_trace_is_said(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("no\n")
    ended = subprocess.run([*_PLAYS, str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("trace.jsonl:1: this is no frame: ")
