"""Everything in folders whose names have spaces, quotes and letters of other scripts: us, the home, the workspace, the agent."""

import json
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fake_agent.steps import COMMAND, prompt

pytestmark = pytest.mark.long

# Longer than anything here takes on a machine that is busy; nothing waits for it.
_LIMIT = 60


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How Dragoman is started from such a folder, with such a folder for everything that it looks at."""
    place = tmp_path / "a folder's ünusual 名前"
    for name in ("höme", "wörk space"):
        (place / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(place / "höme"))
    monkeypatch.chdir(place / "wörk space")
    # The environment we run in, by another way: every process that we start is started by that name.
    (place / "env").symlink_to(sys.prefix)
    python = place / "env/bin" / Path(sys.executable).name
    agent = place / "my agent"
    options = json.dumps({"folder": str(place / "höme"), "http": False})
    agent.write_text(f"#!/bin/sh\nexec {shlex.join([str(python), COMMAND[1], options])}\n")
    agent.chmod(0o700)
    Path("tärgets.toml").write_text(
        f'[models.mine]\nkind = "acp"\nagent = "demo"\ncommand = [{json.dumps(str(agent))}]\n'
        '[models.tape]\nkind = "script"\npath = "ä täpe.jsonl"\n'
    )
    Path("ä täpe.jsonl").write_text('{"do": [{"say": "Played."}]}\n')
    return [
        str(python),
        "-m",
        "dragoman",
        "--config",
        "tärgets.toml",
        "--state-dir",
        str(place / "the stäte"),
    ]


def _run(program: list[str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *arguments], input=stdin, capture_output=True, text=True, timeout=_LIMIT, check=False
    )


def test_a_chat_whose_agent_calls_tools_through_the_shim(program: list[str]) -> None:
    Path("some dätä.txt").write_text("one, two, üç\n")
    read = prompt(["call", "read_file", {"path": "some dätä.txt"}])
    done = _run(program, "chat", "mine", "-p", read)
    assert done.returncode == 0, done.stderr
    assert "one, two, üç" in done.stdout
    assert _run(program, "chat", "tape", "-p", "play").stdout == "Played.\n"


def test_the_demo_and_its_tour(program: list[str]) -> None:
    done = _run(program, "demo")
    assert done.returncode == 0, done.stderr
    assert "every phrase has its translation" in done.stdout


def test_the_editor(program: list[str]) -> None:
    client = {"name": "test", "version": "1"}
    folders = {"workspaceFolders": [str(Path.cwd())], "features": {"thinking": True, "data": True}}
    question = {"role": "user", "content": [{"type": "text", "value": "hello"}]}
    requests = (
        ("initialize", {"protocolVersion": 1, "client": client, **folders}),
        ("lm/provideLanguageModelChatResponse", {"modelId": "mine", "messages": [question], "options": {}}),
    )
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        for id_, (method, params) in enumerate(requests)
    ]
    with subprocess.Popen(
        [*program, "vscode"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(*lines, sep="\n", file=process.stdin, flush=True)
        said = []
        for line in process.stdout:
            said.append(json.loads(line))
            if said[-1].get("id") == 1:
                break
        _, errors = process.communicate(timeout=_LIMIT)
    parts = [each["params"]["part"] for each in said if each.get("method") == "lm/responsePart"]
    assert "hello" in "".join(part["value"] for part in parts if part["type"] == "text")
    assert (process.returncode, errors) == (0, "")


def test_the_server(program: list[str]) -> None:
    command = [*program, "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().rpartition(" ")[2].strip()
        with urllib.request.urlopen(f"{address}/models", timeout=_LIMIT) as answer:  # noqa: S310 - our own
            models = json.load(answer)["data"]
        process.send_signal(signal.SIGINT)
        assert process.wait(_LIMIT) == 130
    assert [model["id"] for model in models] == ["mine", "tape", "demo"]


def test_doctor_finds_everything_in_its_place(program: list[str]) -> None:
    done = _run(program, "doctor", "mine", "-v")
    assert done.returncode == 0, done.stdout
    assert f"({program[0]})" in done.stdout
    assert "the stäte/dragoman.db" in done.stdout
    assert "fail" not in done.stdout
