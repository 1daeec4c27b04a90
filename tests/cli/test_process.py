"""The program itself, as a shell starts it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.config import state_folder
from own_home import configure
from terminal_screen import Terminal

pytestmark = pytest.mark.long

# Longer than anything here takes on a machine that is busy; nothing waits for it.
_LIMIT = 60

_SCRIPT = '{"do": [{"say": "Hello to you, too."}]}\n'
_SILENT = '{"do": [{"wait": "forever"}]}\n'


def _run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )


@pytest.fixture
def tape() -> None:
    Path("tape.jsonl").write_text(_SCRIPT)
    configure('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')


@pytest.mark.usefixtures("tape")
def test_one_prompt_and_its_answer() -> None:
    done = _run("chat", "-p", "hello")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "Hello to you, too.", "")


def test_nothing_heavy_is_imported_before_a_command_needs_it() -> None:
    heavy = ("rich", "prompt_toolkit", "jsonschema", "httpx2", "sqlite3", "msgspec", "asyncio")
    program = f"import sys, dragoman.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=_LIMIT, check=True
    )
    assert done.stdout == "[]\n"


def test_configuration_and_models_import_nothing_that_only_some_commands_need() -> None:
    heavy = ("rich", "prompt_toolkit", "jsonschema", "httpx2", "sqlite3", "dragoman.tools")
    program = f"import sys, dragoman.cli.run; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=_LIMIT, check=True
    )
    assert done.stdout == "[]\n"


def test_a_reader_that_has_had_enough_is_no_reason_to_complain() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", "doctor"],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=_LIMIT,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("line", ["--help", "doctor", "agents", "chat -p hello", "chat -p hello --json"])
@pytest.mark.usefixtures("tape")
def test_output_for_which_there_is_no_room_is_told(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", *line.split()],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "dragoman: standard output cannot be written: No space left on device. What it has so far is not complete.\n",
    )


@pytest.mark.parametrize(
    ("line", "closed", "status", "told"),
    [
        ("", ">&-", 0, ""),
        ("chat -p hello", "<&-", 0, ""),
        ("chat -p hello", "<&- >&-", 0, ""),
        ("doctor", "2>&-", 0, ""),
        ("chat", "<&-", 2, "dragoman: There is no terminal to type at"),
    ],
)
@pytest.mark.usefixtures("tape")
def test_what_is_closed_is_no_reason_either(line: str, closed: str, status: int, told: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-m", "dragoman", *line.split()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    assert done.returncode == status
    assert done.stderr.startswith(told)
    assert bool(done.stderr) == bool(told)


def test_a_folder_that_is_gone_is_told() -> None:
    folder = Path("gone")
    folder.mkdir()
    done = subprocess.run(
        [
            "sh",
            "-c",
            'cd gone && rmdir ../gone && "$@"',
            "sh",
            sys.executable,
            "-m",
            "dragoman",
            "chat",
            "-p",
            "hi",
        ],
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "dragoman: the folder you are in is no longer there. Go to another one.\n",
    )


def test_characters_that_the_terminal_cannot_show_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    configure('[models.claude]\nkind = "acp"\nagent = "claude"\n')
    done = _run("doctor")
    assert done.returncode == 0
    assert '      ? "claude" names the agent' in done.stdout


def test_an_interrupt_ends_quietly_with_130() -> None:
    Path("silent.jsonl").write_text(_SILENT)
    configure('[models.silent]\nkind = "script"\npath = "silent.jsonl"\n')
    with subprocess.Popen(
        [sys.executable, "-m", "dragoman", "doctor", "silent"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any("silent (" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=_LIMIT)
    assert (process.returncode, errors.removeprefix("asking silent …\n")) == (130, "")


@pytest.mark.parametrize("command", ["vscode", "demo-agent"])
def test_whoever_starts_by_hand_what_is_for_a_program_is_told(command: str, home: Path) -> None:
    with Terminal("-m", "dragoman", command, cwd=home, from_scratch=True) as terminal:
        terminal.wait_for("Ctrl-D ends it")
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert "dragoman chat" in terminal.text


# The program, interrupted by itself when a module is about to be loaded.
_INTERRUPTED_AT = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
module = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupting())
from dragoman.cli import entry
entry()
"""


@pytest.mark.parametrize("module", ["dragoman.cli.parser", "dragoman.cli.doctor"])
def test_an_interrupt_while_the_program_is_being_loaded_ends_quietly_too(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_AT, module, "doctor"],
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_demo_agent_keeps_its_files_in_the_state_folder_that_was_named(tmp_path: Path) -> None:
    state = tmp_path / "elsewhere"
    done = _run("--state-dir", str(state), "chat", "demo", "-p", "hello")
    assert (done.returncode, done.stderr) == (0, "")
    assert list((state / "demo-agent").iterdir())
    assert not (state_folder(None) / "demo-agent").exists()
