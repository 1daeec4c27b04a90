"""`dragoman fleet` as an operator runs it: real processes, a real server."""

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.fleet.nkeys import Credentials
from nats_servers import nats_server

pytestmark = pytest.mark.long

# Longer than anything here takes on a machine that is busy; nothing waits for it.
_LIMIT = 120


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state"


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=_LIMIT,
        check=False,
    )


@contextmanager
def _up(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`dragoman fleet up`, and what it has printed when it is ready."""
    with subprocess.Popen(
        [sys.executable, "-m", "dragoman", "fleet", "up", "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = ""
        try:
            while "Ctrl-C ends NATS" not in printed:
                line = process.stdout.readline()
                assert line, process.stderr.read() if process.stderr else ""
                printed += line
            yield process, printed
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(_LIMIT)


def test_up_repeats_the_configuration_that_it_was_given(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my fleet.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    with _up("--config", "my fleet.toml") as (_, printed):
        assert f"\n  dragoman worker --name worker-1 --config '{tmp_path}/my fleet.toml'\n" in printed
        assert f"\n  dragoman serve --name gateway-1 --config '{tmp_path}/my fleet.toml'\n" in printed
    assert state.exists()


def test_up_prints_the_table_and_the_next_commands_and_ends_with_a_signal(state: Path) -> None:
    with _up() as (process, printed):
        assert re.search(r'\[fleet\]\nurl = "nats://127\.0\.0\.1:\d+"\ncredentials = ', printed)
        assert "\n  dragoman worker --name worker-1\n" in printed
        assert "\n  dragoman serve --name gateway-1\n" in printed
        for file in (
            "keys",
            "accounts.conf",
            "admin.creds",
            "worker-1.creds",
            "gateway-1.creds",
            "nats.conf",
        ):
            assert stat.S_IMODE((state / "fleet" / file).stat().st_mode) == 0o600
        assert stat.S_IMODE((state / "fleet").stat().st_mode) == 0o700
        found = json.loads(_run("fleet", "status", "--json").stdout)
        assert {each["name"] for each in found["streams"]} >= {"DRAGOMAN_JOURNALS", "DRAGOMAN_AUDIT"}
        assert found["missing"] == []
        shown = _run("fleet")
        assert "No node runs." in shown.stdout
        assert "this counts deleted ones, too" in shown.stdout
        again = _run("fleet", "up")
        assert (again.returncode, "already" in again.stderr) == (1, True)
        nobody = _run("fleet", "drain", "nobody")
        assert (nobody.returncode, nobody.stderr) == (
            1,
            "dragoman: there is no worker nobody. There are none.\n",
        )
        without_cluster = _run("fleet", "init")
        assert "--replicas 1" in without_cluster.stderr
        assert _run("fleet", "init", "--replicas", "1").returncode == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(_LIMIT) == 130
    gone = _run("fleet", "status")
    assert (gone.returncode, "cannot be reached" in gone.stderr) == (1, True)


def test_a_second_up_uses_the_same_keys_and_data(state: Path) -> None:
    with _up():
        before = (state / "fleet" / "keys").read_text()
        creds = (state / "fleet" / "worker-1.creds").read_text()
    with _up() as (process, _):
        assert (state / "fleet" / "keys").read_text() == before
        assert (state / "fleet" / "worker-1.creds").read_text() == creds
        process.terminate()
        assert process.wait(_LIMIT) == 0


def test_nothing_is_left_of_the_server_when_the_command_is_killed(state: Path) -> None:
    with _up() as (process, printed):
        found = re.search(r"nats://127\.0\.0\.1:(\d+)", printed)
        assert found is not None
        process.kill()
        process.wait(_LIMIT)
        # The supervisor ends the server, and with it the lock on its data.
        with _up():
            pass
    assert (state / "fleet" / "url").exists()


def test_credentials_are_made_once_for_each_name(state: Path) -> None:
    done = _run("fleet", "credentials", "worker", "one", "two")
    assert done.returncode == 0
    files = [state / "fleet" / f"{name}.creds" for name in ("one", "two")]
    assert done.stdout.splitlines()[:2] == [str(file) for file in files]
    assert "accounts.conf" in done.stdout
    assert "a NEW fleet" in done.stdout
    first = files[0].read_text()
    assert (Credentials.read(first).name, Credentials.read(first).role) == ("one", "worker")
    assert _run("fleet", "credentials", "worker", "one").stdout.splitlines() == [str(files[0])]
    assert files[0].read_text() == first
    boss = _run("fleet", "credentials", "boss", "one")
    assert boss.returncode == 2
    assert 'no role "boss". The roles are admin, worker, gateway.' in boss.stderr
    assert _run("fleet", "credentials", "worker", "a.b").returncode == 2


def test_credentials_of_another_role_are_not_overwritten(state: Path) -> None:
    assert _run("fleet", "credentials", "worker", "one").returncode == 0
    file = state / "fleet" / "one.creds"
    before = file.read_text()
    done = _run("fleet", "credentials", "gateway", "one")
    assert done.returncode == 1
    assert f"{file} has the credentials of a node with the role worker" in done.stderr
    assert f"rm {file}" in done.stderr
    assert file.read_text() == before
    file.unlink()
    assert _run("fleet", "credentials", "gateway", "one").returncode == 0
    assert Credentials.read(file.read_text()).role == "gateway"


def test_without_a_fleet_the_commands_say_what_to_do() -> None:
    for words in (("fleet",), ("worker",)):
        done = _run(*words)
        assert done.returncode == 2
        assert "there is no fleet" in done.stderr
        assert "dragoman fleet up" in done.stderr


async def test_a_node_says_at_its_start_that_the_streams_are_missing(tmp_path: Path) -> None:
    config = tmp_path / "fleet.toml"
    async with nats_server(tmp_path) as url:
        config.write_text(f'[fleet]\nurl = "{url}"\n[models.m]\nkind = "script"\npath = "m.jsonl"\n')
        (tmp_path / "m.jsonl").write_text('{"do": [{"say": "hi"}]}\n')
        for command in ("worker", "serve"):
            done = await asyncio.to_thread(_run, command, "--config", str(config))
            assert done.returncode == 1, done.stderr
            assert "NATS has no stream DRAGOMAN_" in done.stderr
            assert "dragoman fleet init" in done.stderr


def test_a_worker_without_its_shared_folder_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        config = tmp_path / "fleet.toml"
        config.write_text(f'[fleet]\nurl = "nats://127.0.0.1:1"\nshared = "{tmp_path / name}"\n')
        done = _run("worker", "--config", str(config))
        assert done.returncode == 1, done.stderr
        assert f"{tmp_path / name} is no folder here" in done.stderr
        assert "mount it first" in done.stderr


def test_without_the_extra_the_command_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['nats'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'nats' else real(name, *a)\n"
        "from dragoman.cli import main; sys.exit(main(['fleet', 'up']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
        env=os.environ,
    )
    assert (done.returncode, "pip install 'dragoman[fleet]'" in done.stderr) == (1, True), done.stderr
