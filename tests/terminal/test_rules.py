"""Rules made of answers, in a real terminal and with the demo agent."""

import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from terminal_screen import DEADLINE, READY, Folder, Terminal

pytestmark = pytest.mark.long

_WRITE = "y write it, and allow this once"


def _own_file(folder: Folder) -> Path:
    return folder.path / ".config" / "dragoman" / "dragoman.toml"


def _rules(file: Path) -> list[dict[str, object]]:
    rules: list[dict[str, object]] = tomllib.loads(file.read_text()).get("policy", [])
    return rules


def _asked(folder: Folder, prompt: str, *arguments: str, columns: int = 80) -> Terminal:
    """A chat with the demo agent at a question."""
    chat = folder.chat("demo", *arguments, columns=columns)
    chat.enter(prompt)
    chat.wait_for("r make a rule")
    return chat


def _shown(chat: Terminal) -> str:
    """The text of the rule on the screen, without white space and the marks of lines that go on."""
    shown = chat.text.partition("dragoman.toml:\n\n")[2].partition("\n\n")[0]
    return "".join(shown.replace("↪", "").split())


def test_d6_a_rule_made_of_an_answer_is_written_and_holds_at_once(folder: Folder) -> None:
    chat = _asked(folder, "run `echo one`")
    chat.type("r")
    chat.wait_for("^  1 always allow exactly `echo one` here")
    chat.wait_for("Esc back to the question")
    chat.type("1")
    chat.wait_for(_WRITE)
    file = _own_file(folder)
    assert not file.exists()
    assert "This goes to the end of ~/.config/dragoman/dragoman.toml:" in chat.text
    chat.type("y")
    chat.wait_for(r"→ allowed once, and from now on by the rule at\s+~/\.config/dragoman/dragoman\.toml:1$")
    chat.wait_for(READY)
    assert _shown(chat) == "".join(file.read_text().split())
    [rule] = _rules(file)
    assert (rule["decision"], rule["command"], rule["agent"]) == ("allow", ["echo", "one"], "demo")
    assert rule["workspace"] == str(folder.path)

    # The rule decides from now on, about this and about nothing else.
    chat.enter("run `echo one`")
    # On one line, which says which rule it was.
    chat.wait_for(r"^✓ Demo agent may run: echo one · allowed by the rule at …/dragoman\.toml:1$")
    chat.wait_for(READY)
    chat.enter("run `echo two`")
    chat.wait_for("r make a rule")
    chat.type("\x1b")
    chat.wait_for(READY)
    assert chat.text.count("? Demo agent wants to run a command") == 2


def test_d6_the_decision_is_recorded_as_a_persons_with_the_rule(folder: Folder) -> None:
    chat = _asked(folder, "run `echo one`")
    chat.type("r")
    chat.wait_for("^  1 always")
    chat.type("1")
    chat.wait_for(_WRITE)
    chat.type("y")
    chat.wait_for("allowed once, and")
    chat.wait_for(READY)
    chat.type("\x04")
    assert chat.wait_end() == 0
    command = ("approvals", "history", "--json", "--state-dir", str(folder.path / "state"))
    history = subprocess.check_output(
        [sys.executable, "-m", "dragoman", *command], text=True, timeout=DEADLINE
    )
    [decision] = map(json.loads, history.splitlines())
    assert decision["by"] == "person"
    assert (decision["allowed"], decision["level"]) == (True, "once")
    assert decision["newRule"] == f"{_own_file(folder)}:1"


def test_a_rule_goes_behind_what_the_file_has_and_leaves_the_found_file_alone(folder: Folder) -> None:
    file = _own_file(folder)
    file.parent.mkdir(parents=True)
    file.write_text('# Mine.\n[models.tape]\nkind = "script"\npath = "x.jsonl"\n')
    (folder.path / "dragoman.toml").write_text("# Found.\n")
    chat = folder.terminal("-m", "dragoman", "chat", "demo", "--state-dir", str(folder.path / "state"))
    chat.wait_for(READY)
    chat.enter("run `echo one`")
    chat.wait_for("r make a rule")
    chat.type("r")
    chat.wait_for("^  1 always")
    chat.type("1")
    chat.wait_for(_WRITE)
    chat.type("y")
    chat.wait_for(r"dragoman\.toml:6")
    text = file.read_text()
    assert text.startswith('# Mine.\n[models.tape]\nkind = "script"\npath = "x.jsonl"\n\n[[policy]]\n')
    assert (folder.path / "dragoman.toml").read_text() == "# Found.\n"


def test_a_file_that_cannot_be_written_is_told_and_the_question_stays_open(folder: Folder) -> None:
    # A file stands where the folder should be: not even root can write below it.
    (folder.path / ".config").write_text("")
    chat = _asked(folder, "run `echo one`")
    chat.type("r")
    chat.wait_for("^  1 always")
    chat.type("1")
    chat.wait_for(_WRITE)
    chat.type("y")
    chat.wait_for("✗ The rule was not written.")
    chat.wait_for("The question is still open|still open")
    chat.wait_for("y once")
    chat.type("\x1b")
    chat.wait_for("⊘ Demo agent wants to run: echo one · denied")


def test_leaving_leads_back_to_the_question_and_nothing_is_written(folder: Folder) -> None:
    chat = _asked(folder, "run `echo one`")
    chat.type("r")
    chat.wait_for("^  1 always")
    chat.type("x")
    chat.wait_for("Press the number of a rule.")
    chat.type("1")
    chat.wait_for(_WRITE)
    chat.type("\x1b")
    chat.wait_for("y once")
    chat.wait_gone(_WRITE)
    chat.type("\x1b")
    chat.wait_for("denied")
    assert not _own_file(folder).exists()


def test_one_prompt_offers_no_rule(folder: Folder) -> None:
    chat = folder.chat("demo", "-p", "run `echo one`")
    chat.wait_for("Esc deny")
    chat.type("\x1b")
    assert chat.wait_end() == 1
    assert "make a rule" not in chat.text


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_the_rule_is_all_on_the_screen_whatever_its_width(folder: Folder, columns: int) -> None:
    chat = _asked(folder, "run `echo one`", columns=columns)
    chat.type("r")
    chat.wait_for("^  1 always")
    chat.type("1")
    chat.wait_for("y write it")
    shown = _shown(chat)
    chat.type("y")
    chat.wait_for("allowed once, and")
    chat.wait_for(READY)
    assert shown == "".join(_own_file(folder).read_text().split())
    assert max(map(len, chat.text.splitlines())) <= columns


def test_d6_a_rule_for_a_tool_of_the_terminal(folder: Folder) -> None:
    folder.script(
        {"when": {"round": 1}, "do": [{"say": "Round over."}]},
        {"do": [{"call": "run_command", "input": {"command": "echo run"}}]},
    )
    chat = folder.chat(columns=200)
    chat.enter("go")
    chat.wait_for("r make a rule")
    chat.type("r")
    chat.wait_for("^  1 always allow exactly `echo run` here")
    chat.type("1")
    chat.wait_for(_WRITE)
    # The file that was named on the command line is the user's own.
    assert "This goes to the end of ~/dragoman.toml:" in chat.text
    chat.type("y")
    chat.wait_for(r"→ allowed once, and from now on by the rule at ~/dragoman\.toml:\d+")
    chat.wait_for("Round over.")
    chat.enter("go")
    chat.wait_for("Round over.", times=2)
    assert re.search(r"✓ Running echo run · allowed by the rule at .*dragoman\.toml:\d+", chat.text)
    [rule] = _rules(folder.path / "dragoman.toml")
    assert (rule["kind"], rule["command"], rule["agent"]) == ("execute", ["echo", "run"], "tape")
    chat.enter("/policy")
    chat.wait_for("allow +`echo run`")
    chat.enter("/policy explain echo run; echo walk")
    chat.wait_for("^  ask: echo run; echo walk")
    chat.wait_for(r"^    echo walk  \(no rule\)")


def _list(chat: Terminal) -> None:
    before = chat.text.count("❯ /policy")
    chat.enter("/policy")
    chat.wait_for("❯ /policy", times=before + 1)
    chat.wait_for(READY)


def _until_listed(chat: Terminal, pattern: str) -> None:
    """Until `/policy` lists a rule. The chat looks at the file about once a second."""
    deadline = time.monotonic() + DEADLINE
    while not re.search(pattern, chat.text.rpartition("❯ /policy")[2], re.MULTILINE):
        assert time.monotonic() < deadline, chat.text
        _list(chat)


def test_d6_a_rule_counts_in_an_open_chat_and_removing_it_takes_it_back(folder: Folder) -> None:
    other = folder.chat("demo", columns=120)
    chat = _asked(folder, "run `echo one`")
    chat.type("r")
    chat.wait_for("^  1 always")
    chat.type("1")
    chat.wait_for(_WRITE)
    chat.type("y")
    chat.wait_for("allowed once, and")
    chat.wait_for(READY)

    _until_listed(other, "allow +`echo one`")
    other.enter("run `echo one`")
    other.wait_for(r"✓ Demo agent may run: echo one · allowed by the rule at …/dragoman\.toml:1$")
    other.wait_for(READY)

    # A mistake in the file: one line says so, and the rules stay.
    file = _own_file(folder)
    rule = file.read_text()
    file.write_text('[[policy]]\ndecision = "perhaps"\n')
    _until_listed(other, r"^dragoman: the rules stay as they were\.")
    assert "dragoman/dragoman.toml:2:" in "".join(other.text.split())
    _list(other)
    assert re.search("allow +`echo one`", other.text.rpartition("❯ /policy")[2])

    file.write_text(rule.replace('decision = "allow"', 'decision = "deny"'))
    for each in (chat, other):
        _until_listed(each, "deny +`echo one`")
        each.enter("run `echo one`")
        each.wait_for(r"rule at \S+dragoman\.toml:1")
        each.wait_for(READY)
    file.unlink()
    _until_listed(chat, "There are no rules")
    chat.enter("run `echo one`")
    chat.wait_for("r make a rule", times=1)
