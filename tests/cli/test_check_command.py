"""`dragoman check`: a table of the rules, and a status that says whether they were kept."""

from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.lm import RULES


def _script(*lines: str) -> None:
    Path("tape.jsonl").write_text('{"pace": 100000}\n' + "\n".join(lines) + "\n")
    Path("dragoman.toml").write_text('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')


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
