"""`dragoman models`: every model with what is known of it, and nothing started."""

import json
from pathlib import Path

import pytest

from dragoman.cli import main

_OWN = """\
[models.gateway]
kind = "responses"
base_url = "http://127.0.0.1:9/v1"
model = "some/model"
api_key = "$NOT_SET"
[models.claude]
kind = "acp"
agent = "claude"
permission = "deny"
[models.local]
kind = "responses"
base_url = "http://127.0.0.1:9/v1"
model = "m"
[models.mine]
kind = "acp"
command = ["sh", "-c", "touch started"]
name = "My agent"
"""
_FOUND = '[models.tape]\nkind = "script"\npath = "none.jsonl"\n'


@pytest.fixture
def own(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NOT_SET", raising=False)
    file = home / ".config/dragoman/dragoman.toml"
    file.parent.mkdir(parents=True)
    file.write_text(_OWN)
    Path("dragoman.toml").write_text(_FOUND)
    return file


def test_the_table_has_every_model_and_the_place_that_defines_it(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models"]) == 0
    headings, *rows = capsys.readouterr().out.splitlines()
    assert headings.split() == ["ID", "NAME", "KIND", "STATE", "PERMISSION", "DEFINED", "IN"]
    assert [row.split() for row in rows] == [
        ["gateway", "gateway", "responses", "variable", "not", "set", f"{own}:1"],
        ["claude", "claude", "acp", "not", "installed", "deny", f"{own}:6"],
        ["local", "local", "responses", "configured", f"{own}:10"],
        ["mine", "My", "agent", "acp", "installed", "ask", f"{own}:14"],
        ["demo", "Demo", "agent", "acp", "built", "in", "ask", "built", "in"],
        ["tape", "tape", "script", "not", "trusted", "dragoman.toml:1"],
    ]
    assert not Path("started").exists()


@pytest.mark.usefixtures("own")
def test_as_json_it_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    found = {row["id"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert [id_ for id_, row in found.items() if row["usable"]] == ["local", "mine", "demo"]
    assert [id_ for id_, row in found.items() if row["default"]] == ["gateway"]
    assert (found["demo"]["file"], found["demo"]["line"]) == (None, None)
    assert "NOT_SET is not set" in found["gateway"]["steps"][0]
    assert "dragoman agents add claude" in found["claude"]["steps"][0]
    assert found["tape"]["steps"][0].endswith("dragoman trust")
