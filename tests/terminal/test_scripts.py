"""One prompt, for scripts: with and without a terminal, as text and as JSON lines."""

import json
import re
import subprocess
import sys

import pytest

from terminal_screen import DEADLINE, Folder

pytestmark = pytest.mark.long

_ECHO = {"do": [{"say": "# You said\n**${prompt}**."}]}
_WRITE = {"call": "write_file", "input": {"path": "new.txt", "content": "hello\n"}}
_REACT = {"when": {"round": 1}, "do": [{"say": "After all."}]}


def test_the_answer_is_on_standard_output_and_nothing_else(folder: Folder) -> None:
    folder.script(
        _REACT, {"do": [{"think": "hm"}, {"say": "Let me look."}, {"call": "list_files", "input": {}}]}
    )
    result = folder.run("-p", "hello")
    assert result.returncode == 0
    assert result.stdout == "Let me look.\n\nAfter all.\n"
    assert "✓ Listing" in result.stderr
    assert "\x1b" not in result.stdout + result.stderr


def test_the_prompt_may_come_from_standard_input(folder: Folder) -> None:
    folder.script(_ECHO)
    assert folder.run("-p", "-", given="from a pipe").stdout == "# You said\n**from a pipe**.\n"
    assert folder.run(given="just piped").stdout == "# You said\n**just piped**.\n"


def test_nobody_to_ask_is_no_persons_denial_and_says_how_to_allow(folder: Folder) -> None:
    folder.script(_REACT, {"do": [_WRITE]})
    result = folder.run("-p", "write it")
    assert result.returncode == 1
    assert result.stdout == ""
    assert "not done: Make new.txt? (write_file)" in result.stderr
    assert "⊘ Make new.txt · denied · the user could not be asked" in result.stderr
    assert "dragoman policy" in result.stderr
    assert not (folder.path / "new.txt").exists()


def test_auto_approval_needs_nobody(folder: Folder) -> None:
    folder.script(_REACT, {"do": [_WRITE]}, settings="[tools]\nauto_approve = true")
    result = folder.run("-p", "write it")
    assert result.returncode == 0, result.stderr
    assert (folder.path / "new.txt").read_text() == "hello\n"


def test_a_failure_is_an_exit_code_and_a_sentence(folder: Folder) -> None:
    folder.script({"do": [{"fail": "blocked", "message": "Not that.", "hint": "Ask for something else."}]})
    result = folder.run("-p", "hello")
    assert result.returncode == 1
    assert result.stdout == ""
    assert "✗ Not that. Ask for something else." in result.stderr


def test_json_prints_every_event_and_nothing_else(folder: Folder) -> None:
    folder.script(_REACT, {"do": [{"call": "list_files", "input": {}}]})
    result = folder.run("-p", "hello", "--json")
    assert result.returncode == 0
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events] == [
        "turn_started", "tool_used", "decided", "tool_started", "tool_finished", "message", "message", "turn_ended",
        "turn_started", "text", "text", "message", "turn_ended", "ended",
    ]  # fmt: skip
    assert events[-1] == {"event": "ended", "reason": "completed"}


def test_json_takes_decisions_from_standard_input(folder: Folder) -> None:
    folder.script(_REACT, {"do": [{**_WRITE, "callId": "dg_1"}]})
    allowed = folder.run("-p", "write it", "--json", given='{"callId": "dg_1", "decision": "allow"}\n')
    assert allowed.returncode == 0, allowed.stderr
    assert '"event":"asked","callId":"dg_1"' in allowed.stdout
    assert (folder.path / "new.txt").read_text() == "hello\n"


def test_json_without_an_answer_is_nobodys_denial(folder: Folder) -> None:
    folder.script(_REACT, {"do": [{**_WRITE, "callId": "dg_1"}]})
    result = folder.run("-p", "write it", "--json")
    assert result.returncode == 1
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert events[-1] == {"event": "ended", "reason": "tool_denied"}
    [told] = [event["result"]["content"][0]["value"] for event in events if event["event"] == "tool_finished"]
    assert "approval could not be asked for" in told
    assert "by user" not in told
    assert not (folder.path / "new.txt").exists()


def test_one_prompt_in_a_terminal_is_laid_out_and_asks(folder: Folder) -> None:
    folder.script({"when": {"round": 1}, "do": [{"say": "All **done**."}]}, {"do": [_WRITE]})
    terminal = folder.chat("-p", "write it")
    terminal.wait_for("Esc deny")
    terminal.type("y")
    assert terminal.wait_end() == 0
    # A busy machine takes long enough for the time to be shown.
    laid_out = r"→ allowed once\n✓ Writing new\.txt(?: · \d+\.\d s)?\n\n  All done\."
    assert re.search(f"{laid_out}$", terminal.text)


def test_nobody_to_ask_is_said_above_the_live_lines(folder: Folder) -> None:
    folder.script(_REACT, {"do": [{"think": "Let me write a file."}, {"wait": 0.3}, _WRITE]})
    no_input = (
        "import os; os.dup2(os.open(os.devnull, os.O_RDONLY), 0); from dragoman.cli import entry; entry()"
    )
    terminal = folder.terminal(
        "-c",
        no_input,
        "--config",
        "dragoman.toml",
        "chat",
        "-p",
        "write it",
        "--state-dir",
        "state",
        columns=50,
    )
    assert terminal.wait_end() == 1
    lines = terminal.text.splitlines()
    first = next(n for n, line in enumerate(lines) if "not done" in line)
    assert lines[first] == "dragoman: not done: Make new.txt? (write_file)."
    said = "\n".join(lines[first:]).partition("⊘")[0]
    assert "There is no terminal to ask at. To allow it without asking, approve it" in " ".join(said.split())
    assert "thinking" not in terminal.text


def test_interrupting_one_prompt(folder: Folder) -> None:
    folder.script({"do": [{"say": "It began "}, {"wait": "forever"}]})
    terminal = folder.chat("-p", "go")
    terminal.wait_for("It began")
    terminal.type("\x03")
    assert terminal.wait_end() == 130
    assert terminal.text == "  It began\n\n⊘ Cancelled."


def test_a_question_is_asked_beside_an_answer_that_goes_to_a_file(folder: Folder) -> None:
    folder.script(_REACT, {"do": [_WRITE]})
    into_file = "import os; os.dup2(os.open('out', os.O_WRONLY | os.O_CREAT), 1); from dragoman.cli import entry; entry()"
    terminal = folder.terminal(
        "-c", into_file, "--config", "dragoman.toml", "chat", "-p", "write it", "--state-dir", "state"
    )
    terminal.wait_for("Esc deny")
    terminal.type("n")
    terminal.wait_for("Why not")
    terminal.enter("not now")
    assert terminal.wait_end() == 1
    assert "⊘ Make new.txt · denied · not now" in terminal.text
    assert "After all" not in terminal.text
    assert (folder.path / "out").read_text() == "After all.\n"


def test_somebody_who_reads_only_the_beginning(folder: Folder) -> None:
    # More than a pipe holds: whoever does not read it stops it.
    folder.script({"do": [{"say": "first\n"}, {"say": f"{'x' * 999} " * 200}]})
    head = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE); "
    head += "p.stdout.readline(); p.stdout.close(); sys.exit(p.wait())"
    command = [sys.executable, "-c", head, sys.executable, *folder.command("-p", "go")]
    result = subprocess.run(
        command,
        cwd=folder.path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (result.returncode, result.stderr) == (1, "")


def test_a_prompt_with_nothing_in_it_is_not_sent(folder: Folder) -> None:
    folder.script(_ECHO)
    for arguments in (("-p", " "), ("-p", "-"), ("-p", "", "--json")):
        result = folder.run(*arguments, given="\n")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("dragoman: The prompt ")
        assert result.stderr.endswith("is empty.\n")
    result = folder.run(given="\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "dragoman: There is no terminal to type at, and no prompt on standard input."
    )
    assert result.stderr.endswith("give a prompt: dragoman chat -p PROMPT\n")


def test_a_misspelt_tool_is_told_before_it_is_relied_on(folder: Folder) -> None:
    folder.script(_ECHO, settings="[tools]\neligible = { run_comand = false }")
    result = folder.run("-p", "hello")
    assert result.returncode == 0
    assert '"run_comand" under eligible in [tools] is no tool. Did you mean "run_command"?' in result.stderr
