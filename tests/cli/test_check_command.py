"""`dragoman check`: a table of the rules, and a status that says whether they were kept."""

import io
import json
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.lm import RULES
from own_home import configure


def _script(*lines: str) -> None:
    Path("tape.jsonl").write_text('{"pace": 100000}\n' + "\n".join(lines) + "\n")
    configure('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')


def test_a_model_that_keeps_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    _script('{"do": [{"think": "hm"}, {"say": "You said: ${prompt}"}]}')
    assert main(["check", "tape"]) == 0
    shown = capsys.readouterr().out
    for rule in RULES.values():
        assert rule.id in shown
        assert rule.title in shown


def test_a_model_that_breaks_one_is_seen_without_the_guard(capsys: pytest.CaptureFixture[str]) -> None:
    _script('{"do": [{"say": "Let me see. "}, {"call": "a_tool_that_nobody_offered"}]}')
    assert main(["check", "tape"]) == 1
    assert "a_tool_that_nobody_offered" in capsys.readouterr().out


@pytest.mark.long
def test_the_demo_agent_gives_every_rule_of_a_call_its_occasion(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["dragoman", "demo-agent", "--pace", "instant", "--sessions", str(home / "sessions")]
    Path("mine.toml").write_text(
        f'[models.agent]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps(command)}\n'
    )
    assert main(["check", "agent", "--config", "mine.toml"]) == 0
    shown = capsys.readouterr()
    lines = {line.split()[0]: line for line in shown.out.splitlines() if line.startswith(("S", "T"))}
    assert not [line for name, line in lines.items() if name not in ("S12", "T14") and " pass " not in line]
    assert shown.err == "", "nothing is logged, and nobody watches the progress"


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_whoever_watches_sees_which_probe_is_put(monkeypatch: pytest.MonkeyPatch) -> None:
    _script('{"do": [{"say": "You said: ${prompt}"}]}')
    screen = _Screen()
    monkeypatch.setattr("sys.stderr", screen)
    assert main(["check", "tape"]) == 0
    steps = screen.getvalue().split("\r\x1b[K")
    assert steps[0] == steps[-1] == ""
    assert steps[1].endswith(" plain prompt")
    count = len(steps) - 2
    assert [step.split()[0] for step in steps[1:-1]] == [f"{n}/{count}" for n in range(1, count + 1)]


def test_progress_is_not_wider_than_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    _script('{"do": [{"say": "You said: ${prompt}"}]}')
    screen = _Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "12")
    assert main(["check", "tape"]) == 0
    assert max(map(len, screen.getvalue().split("\r\x1b[K"))) == 11
