"""One prompt under rules, with the demo agent and no terminal."""

import json
from pathlib import Path

import pytest

from terminal_screen import Folder

pytestmark = pytest.mark.long

_RULES = """\
[[policy]]
decision = "deny"
command = ["echo", "one"]
reason = "Not this."

[[policy]]
decision = "ask"
command = ["echo", "two"]
reason = "Loud."

[[policy]]
decision = "allow"
command = ["echo", "three"]
"""


@pytest.fixture
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "rules.toml"
    file.write_text(_RULES)
    return file


def test_d5_an_agents_action_that_a_rule_denies_fails_the_run_and_is_no_persons_word(
    folder: Folder, rules: Path
) -> None:
    done = folder.run("demo", "--config", str(rules), "-p", "run `echo one`")
    assert done.returncode == 1
    why = f"The rule at {rules}:1 denies it: Not this."
    assert f"denied: Error: Tool execution was denied. The user was not asked. {why}" in done.stdout
    assert "user message" not in done.stdout + done.stderr
    # The notice and the agent's own words; the failed step does not repeat them.
    assert (done.stdout + done.stderr).count("asked") == 2
    assert "\\" not in done.stdout


@pytest.mark.parametrize(
    ("word", "allowed", "why"),
    [
        ("one", False, "The rule at {}:1 denies it: Not this."),
        ("three", True, "allowed by the rule at {}:11"),
    ],
)
def test_d5_json_says_which_rule_decided_about_an_agents_action(
    folder: Folder, rules: Path, word: str, why: str, *, allowed: bool
) -> None:
    done = folder.run("demo", "--config", str(rules), "--json", "-p", f"run `echo {word}`")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    [decided] = [event for event in events if event["event"] == "decided"]
    assert (decided["allowed"], decided["by"], decided["why"]) == (allowed, "rule", why.format(rules))
    assert decided["doing"] == f"Demo agent may run: echo {word}"
    assert done.returncode == (0 if allowed else 1)


def test_d5_json_has_one_decision_for_each_question(folder: Folder, rules: Path) -> None:
    done = folder.run("demo", "--config", str(rules), "--json", "-p", "run `echo two`")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    [decided] = [event for event in events if event["event"] == "decided"]
    assert (decided["allowed"], decided["by"]) == (False, "unasked")


def test_d5_what_needs_a_person_is_refused_with_the_rule_or_with_how_to_allow_it(
    folder: Folder, rules: Path
) -> None:
    asked = folder.run("demo", "--config", str(rules), "-p", "run `echo two`")
    assert f"The rule at {rules}:6 asks about this every time: Loud." in asked.stderr
    other = folder.run("demo", "--config", str(rules), "-p", "run `echo four`")
    assert "add a rule to your own configuration: `dragoman policy suggest`" in other.stderr
    assert (asked.returncode, other.returncode) == (1, 1)
