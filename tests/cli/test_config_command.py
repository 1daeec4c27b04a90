"""`dragoman config`: which files apply, what they set, and editing one."""

import json
import os
import stat
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.config import load
from own_home import configure
from terminal_screen import Terminal

_OWN = """\
[models.gateway]
kind = "responses"
base_url = "https://me:hunter2@gateway.example/v1"
model = "some/model"
api_key = "sk-plain-key"
headers = { X-Org = "org-secret", X-Key = "$GATEWAY_KEY" }

[serve]
port = 9000
api_keys = ["first-key", "$SECOND"]

[[policy]]
decision = "deny"
kind = "edit"
paths = [".git/**"]
"""
_FOUND = """\
[models.tape]
kind = "script"
path = "tape.jsonl"
[tools]
eligible = { fetch_page = false }
urls = { "https://internal.example/*" = false }
[loop]
turns = 3
"""


@pytest.fixture
def own(home: Path) -> Path:
    file = home / ".config/dragoman/dragoman.toml"
    file.parent.mkdir(parents=True)
    file.write_text(_OWN)
    return file


def _shown(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, object]]:
    capsys.readouterr()
    assert main(["config", "show", "--json", *words]) == 0
    return {row["key"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}


# Path.


def test_the_files_that_apply_in_order(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = Path.cwd() / "dragoman.toml"
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{own}\n    your own\n"
    here.write_text(_FOUND)
    assert main(["config", "path"]) == 0
    own_line, _, found_line, about = capsys.readouterr().out.splitlines()
    assert (own_line, found_line) == (str(own), str(here))
    assert "only found in this folder, and not trusted" in about
    assert main(["trust", "--yes"]) == 0
    capsys.readouterr()
    assert main(["config", "path", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        {"file": str(own), "role": "own", "exists": True, "read": True, "trusted": None},
        {"file": str(here), "role": "found", "exists": True, "read": True, "trusted": True},
    ]


def test_a_named_file_replaces_the_others(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("dragoman.toml").write_text(_FOUND)
    Path("other.toml").write_text("")
    assert main(["config", "path", "--config", "other.toml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{Path.cwd()}/other.toml",
        "    named by --config",
        str(own),
        "    not read, because --config names another file",
        f"{Path.cwd()}/dragoman.toml",
        "    not read, because --config names another file",
    ]


def test_without_any_file_the_place_for_one_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out == (
        f"{home}/.config/dragoman/dragoman.toml\n    your own; there is none yet\n"
    )


# Show.


def test_settings_have_their_source_and_secrets_are_hidden(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("dragoman.toml").write_text(_FOUND)
    found = _shown(capsys)
    assert {key: (row["value"], row["file"], row["line"]) for key, row in found.items()} == {
        "models.gateway.kind": ("responses", str(own), 2),
        "models.gateway.base_url": ("https://(hidden)@gateway.example/v1", str(own), 3),
        "models.gateway.model": ("some/model", str(own), 4),
        "models.gateway.api_key": ("(hidden)", str(own), 5),
        "models.gateway.headers.X-Org": ("(hidden)", str(own), 6),
        "models.gateway.headers.X-Key": ("$GATEWAY_KEY", str(own), 6),
        "models.tape.kind": ("script", "dragoman.toml", 2),
        "models.tape.path": (str(Path.cwd() / "tape.jsonl"), "dragoman.toml", 3),
        "tools.eligible.fetch_page": (False, "dragoman.toml", 5),
        'tools.urls."https://internal.example/*"': (False, "dragoman.toml", 6),
        "serve.port": (9000, str(own), 9),
        "serve.api_keys": (["(hidden)", "$SECOND"], str(own), 10),
        "policy 1": ("deny edit of .git/**", str(own), 12),
    }
    assert [key for key, row in found.items() if row["waiting"]] == ["models.tape.kind", "models.tape.path"]
    for words in (["show"], ["show", "--all"], ["show", "--all", "--json"]):
        capsys.readouterr()
        assert main(["config", *words]) == 0
        shown = capsys.readouterr()
        for secret in ("hunter2", "sk-plain-key", "org-secret", "first-key"):
            assert secret not in shown.out + shown.err


@pytest.mark.usefixtures("own")
def test_all_adds_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    found = _shown(capsys, "--all")
    assert (found["loop.turns"]["value"], found["loop.turns"]["by"]) == (50, "default")
    assert found["models.demo.command"]["by"] == "built in"
    assert found["serve.port"]["by"] is None
    assert main(["config"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    count = sum(row["file"] is None for row in found.values())
    assert last == f"{count} settings have their defaults: dragoman config show --all"


def test_options_of_another_action_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "path", "--all"]) == 2
    assert main(["config", "edit", "--json"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "dragoman: config path: --all is for show.",
        "dragoman: config edit: --json is for path and show.",
    ]


# Edit.


def _editor(home: Path, *texts: str) -> str:
    """An editor that leaves the first of these texts, then the next."""
    program = home / "my editor"
    for number, text in enumerate(texts):
        (home / f"text-{number}").write_text(text)
    lines = ("#!/bin/sh", f"cd '{home}'", 'n=$(ls | grep -c "^ran-")', 'touch "ran-$n"', 'cp "text-$n" "$1"')
    program.write_text("\n".join(lines) + "\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"'{program}'"


def test_a_new_file_is_edited_and_checked(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", _editor(home, "[loop]\nturns = 7\n"))
    file = home / ".config/dragoman/dragoman.toml"
    assert main(["config", "edit"]) == 0
    assert capsys.readouterr().out == f"{file} is saved, and has no mistakes.\n"
    assert load(file).loop.turns == 7


def test_a_broken_edit_is_kept_and_reported_with_its_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("[loop]\nturns = 3\n")
    monkeypatch.setenv("VISUAL", _editor(home, "[loop]\nturn = 3\n"))
    monkeypatch.setenv("EDITOR", "false")
    assert main(["config", "edit"]) == 2
    told = capsys.readouterr().err
    assert f'{Path.cwd()}/dragoman.toml:2: unknown key "turn" in [loop]. Did you mean "turns"?' in told
    assert "is saved as you left it" in told
    assert Path("dragoman.toml").read_text() == "[loop]\nturn = 3\n"


def test_in_a_terminal_a_broken_edit_can_be_edited_again(home: Path) -> None:
    editor = _editor(home, "[loop\n", "[loop]\nturns = 5\n")
    environment = {"HOME": str(home), "EDITOR": editor}
    with Terminal("-m", "dragoman", "config", "edit", cwd=Path.cwd(), environment=environment) as terminal:
        terminal.wait_for(r"^Edit it again\? \[Y/n\] *$")
        assert "not valid TOML" in terminal.text
        terminal.enter("")
        assert terminal.wait_end() == 0
        assert "has no mistakes" in terminal.text
    assert load(home / ".config/dragoman/dragoman.toml").loop.turns == 5


def test_an_edit_that_changes_nothing_says_so(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    assert main(["config", "edit"]) == 0
    assert capsys.readouterr().out == f"{own} is unchanged.\n"


def test_a_missing_editor_and_one_that_fails_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert main(["config", "edit"]) == 1
    assert "The editor no-such-editor cannot be started" in capsys.readouterr().err
    monkeypatch.setenv("EDITOR", "false")
    assert main(["config", "edit"]) == 1
    assert "The editor false ended with status 1" in capsys.readouterr().err
    monkeypatch.delenv("EDITOR")
    monkeypatch.setenv("PATH", os.devnull)
    assert main(["config", "edit"]) == 1
    assert "There is no editor. Set EDITOR" in capsys.readouterr().err
