"""The programs in `examples/`, each run as its first lines say, against a real Dragoman."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

_EXAMPLES = Path(__file__).parents[2] / "examples"
# Longer than anything here takes on a machine that is busy; nothing waits for it.
_LIMIT = 120
_DRAGOMAN = [sys.executable, "-m", "dragoman", "--config", str(_EXAMPLES / "dragoman.toml")]
_TESTED = {"README.md", "allow_edits.sh", "client.py", "dragoman.toml", "editor.py", "tape.jsonl", "tool.py"}


def _run(
    *command: str, stdin: str = "", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
        env={**os.environ, "DRAGOMAN": shlex.join(_DRAGOMAN), **(environment or {})},
    )


def _python(example: str, *arguments: str, **given: str) -> subprocess.CompletedProcess[str]:
    stdin = given.pop("stdin", "")
    return _run(sys.executable, str(_EXAMPLES / example), *arguments, stdin=stdin, environment=given)


def test_every_example_is_run_here() -> None:
    assert {path.name for path in _EXAMPLES.iterdir() if path.is_file()} == _TESTED


def test_a_tool_is_approved() -> None:
    done = _python("tool.py", stdin="y\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "[book_table: ok]\nDone: a table for 4, at eight\nThe run is completed." in done.stdout


def test_a_tool_is_refused_with_a_reason() -> None:
    done = _python("tool.py", stdin="too far\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "[book_table: denied]\nNo table, then. You said: too far\n" in done.stdout


def test_a_scripted_model_reads_a_file() -> None:
    Path("README.md").write_text("# Notes\n")
    done = _run(*_DRAGOMAN, "chat", "tape", "-p", "What is in the readme?")
    assert (done.returncode, done.stdout) == (0, "Let me look.\n\nIt says:\n\n> # Notes\n\n")


def test_a_scripted_model_fails_on_cue_and_is_asked_again() -> None:
    done = _run(*_DRAGOMAN, "chat", "tape", "-p", "fail once")
    assert (done.returncode, done.stdout) == (0, "Mended.\n")
    assert "The tape is torn" in done.stderr


def test_a_shell_script_allows_an_edit() -> None:
    done = _run("sh", str(_EXAMPLES / "allow_edits.sh"), "quick", "write `hello` into `hello.txt`")
    assert (done.returncode, done.stderr) == (0, "allowed: dragoman-agent-action-edit\n")
    assert Path("hello.txt").read_text() == "hello\n"


def test_a_shell_script_denies_a_command() -> None:
    done = _run("sh", str(_EXAMPLES / "allow_edits.sh"), "quick", "run `touch made`")
    assert (done.returncode, done.stderr) == (1, "denied: dragoman-agent-action-execute\n")
    assert "only edits are allowed here" in done.stdout
    assert not Path("made").exists()


@pytest.mark.parametrize(("answer", "made"), [("y\n", ["made"]), ("n\n", []), ("", [])])
def test_an_editor_asks_before_a_command_runs(answer: str, made: list[str]) -> None:
    done = _python("editor.py", "quick", "run `touch made`", stdin=answer)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Quick demo agent wants to run a command\nCommand:\n```sh\ntouch made\n\n```" in done.stdout
    assert [path.name for path in Path().iterdir()] == made


@pytest.fixture
def address() -> Iterator[str]:
    """Where a server of ours listens."""
    with subprocess.Popen([*_DRAGOMAN, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            line = server.stderr.readline()
            found = re.search(r"http://\S+/v1", line)
            assert found is not None, line
            yield found[0]
        finally:
            server.terminate()
            server.wait(_LIMIT)


@pytest.mark.parametrize(("answer", "made"), [("y\n", ["made"]), ("n\n", [])])
def test_an_openai_client_asks_before_a_command_runs(address: str, answer: str, made: list[str]) -> None:
    done = _python("client.py", "run `touch made`", stdin=answer, OPENAI_BASE_URL=address)
    assert (done.returncode, done.stderr) == (0, "")
    assert "```sh\ntouch made\n```" in done.stdout
    assert [path.name for path in Path().iterdir()] == made
