"""A state folder that Dragoman 0.1 left (`data/state-0.1.sql`) is read and continued by today's program."""

import json
import os
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

_DUMP = Path(__file__).parent / "data" / "state-0.1.sql"
_LAST = "resp_60bbb497f72808b874dd285a386a98e6"
_CONVERSATION = "nrfisieeu7nywkzg"
_DEADLINE = 60


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The state folder, as if it had been left a moment ago by an agent that worked in `work`."""
    work, state = tmp_path / "work", tmp_path / "state"
    work.mkdir()
    state.mkdir()
    script = _DUMP.read_text("utf-8").replace("@WORKSPACE@", str(work))
    with closing(sqlite3.connect(state / "dragoman.db")) as database:
        database.executescript(script.replace("@NOW@", datetime.now(UTC).isoformat()))
    return state


def _command(state: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "dragoman", "--state-dir", str(state), *arguments]


def _environment(state: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(state.parent / "home")}


def _printed(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(state, *arguments),
        cwd=state.parent / "work",
        env=_environment(state),
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
        check=True,
    )


@pytest.fixture
def server(left: Path) -> Iterator[str]:
    with subprocess.Popen(
        _command(left, "serve", "--port", "0"),
        cwd=left.parent / "work",
        env=_environment(left),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = iter(process.stderr.readline, "")
        yield next(line.split()[-1] for line in said if "http://" in line)
        process.terminate()
        process.stderr.read()


def _sent(url: str, body: dict[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})  # noqa: S310 - on loopback
    with urllib.request.urlopen(request, timeout=_DEADLINE) as response:  # noqa: S310 - on loopback
        return json.load(response), response.headers.get("x-dragoman-conversation", "")


@pytest.mark.long
def test_a_response_of_0_1_is_found_and_its_conversation_goes_on(server: str) -> None:
    stored, _ = _sent(f"{server}/responses/{_LAST}")
    assert "heron" in stored["output"][0]["content"][0]["text"]
    answer, where = _sent(
        f"{server}/responses", {"model": "demo", "input": "What did I say?", "previous_response_id": _LAST}
    )
    assert where.startswith(_CONVERSATION)
    assert "Remember the word heron" in answer["output"][-1]["content"][0]["text"]


def test_conversations_of_0_1_are_listed(left: Path) -> None:
    listed = _printed(left, "conversations", "list").stdout
    assert _CONVERSATION in listed
    assert "Remember the word heron, please." in listed


def test_an_approval_of_0_1_that_covers_more_than_was_shown_ends_with_a_notice(left: Path) -> None:
    shown = _printed(left, "approvals", "list")
    assert "echo hello" not in shown.stdout
    assert "1 approval of an agent's action is no longer valid" in shown.stderr
    assert "no longer valid" not in _printed(left, "approvals", "list").stderr
