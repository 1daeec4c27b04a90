"""Another user of the machine: what can be seen from outside, whatever the umask is."""

import asyncio
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bridge.consumer import Bridge, soon
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.toolserver.folder import socket_folder
from dragoman.config import Found, TrustedFiles
from dragoman.config.source import Source
from dragoman.logs import open_private
from dragoman.process import Ledger, ProcessIdentity, SupervisedProcess
from dragoman.store import Database
from http_server.kit import KEY, Held, scripted, site_of

# Beyond all pids that systems give.
_NOBODY = 2**30


@pytest.fixture(autouse=True)
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _open_to_others(folder: Path) -> list[str]:
    """What in a folder others can reach: what lies in a private one they cannot."""
    if not stat.S_IMODE(folder.stat().st_mode) & 0o077:
        return []
    return [
        str(path)
        for path in (folder, *folder.rglob("*"))
        if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


def _arguments_of_all() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        # One may end while it is looked at.
        with suppress(OSError):
            yield path.read_bytes()


def test_everything_in_the_state_folder_is_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Database.open(state):
        Ledger(state / "run").record(ProcessIdentity.own(), ["agent", "--key", "secret"])
        TrustedFiles(state).add(Found(Source(tmp_path / "dragoman.toml", ""), {}))
        assert _open_to_others(state) == []
        assert stat.S_IMODE((state / "run").stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in (state / "run").iterdir()} == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in state.glob("dragoman.db*")} == {0o600}


def test_a_log_or_a_recording_is_private_from_its_first_byte(tmp_path: Path) -> None:
    os.close(open_private(tmp_path / "log"))
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


@pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="nobody tells arguments of processes here"
)
async def test_a_key_of_an_agent_is_in_no_arguments() -> None:
    process = await SupervisedProcess.start(("/bin/cat",), env={"AGENT_KEY": "sk-very-secret-key"})
    try:
        lines = list(_arguments_of_all())
    finally:
        await process.stop(0)
    assert any(line.startswith(b"/bin/cat\0") for line in lines)
    assert not any(b"sk-very-secret-key" in line for line in lines)


def test_a_link_left_in_the_shared_temporary_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What killed processes left is cleaned up by its name, which anybody can give to anything."""
    theirs, mine = tmp_path / "shared", tmp_path / "mine"
    theirs.mkdir()
    mine.mkdir()
    (mine / "thesis").write_text("all of it")
    (theirs / f"dragoman-{_NOBODY}-link").symlink_to(mine)
    (theirs / f"dragoman-{_NOBODY}-folder").mkdir()
    (theirs / f"dragoman-{_NOBODY}-folder" / "deep").symlink_to(mine)
    monkeypatch.setattr(tempfile, "tempdir", str(theirs))
    made = socket_folder("tools")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert (mine / "thesis").read_text() == "all of it"
    assert not (theirs / f"dragoman-{_NOBODY}-folder").exists()
    made.rmdir()


async def test_the_key_of_a_client_is_not_in_the_state(tmp_path: Path) -> None:
    for site in site_of(Held(m=scripted("Yes.")), store=tmp_path / "state", keys=(KEY,)):
        answered = await site.create(input="Hello.")
        assert answered.status == 200
        kept = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
        assert answered.json["id"].encode() in kept
        assert KEY.encode() not in kept


_NOBODY_UID = 65_534
# What another user of the machine would try with a state folder and a process of ours.
_SPY = """
import json, os, socket, sys, urllib.error, urllib.request
parent, state, sockets, url, pids = json.loads(sys.argv[1])
found = []
for folder, _, files in os.walk(parent):
    found += [os.path.join(folder, name) for name in files]
for path in (state, os.path.join(state, "dragoman.db"), os.path.join(state, "run"), *sockets):
    try:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            open(path, "rb").read()
        found.append(path)
    except OSError:
        pass
for path in sockets:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        found.append("connected to " + path)
    except OSError:
        pass
try:
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}'
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=20).read()
    found.append("served at " + url)
except urllib.error.HTTPError:
    pass
for pid in pids:
    for name in ("environ", "mem", "fd"):
        try:
            path = f"/proc/{pid}/{name}"
            os.listdir(path) if name == "fd" else open(path, "rb").read(1)
            found.append(path)
        except OSError:
            pass
    sys.stderr.write(open(f"/proc/{pid}/cmdline").read())
print(json.dumps(found))
"""


@pytest.mark.long
async def test_another_user_finds_nothing_of_an_agent_that_runs(bridge: Bridge) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if python is None:
        pytest.skip("the system has no Python that every user may start")
    with tempfile.TemporaryDirectory() as name:
        # As homes often are: anybody may enter, and see what is there.
        os.chmod(name, 0o755)  # noqa: PTH101, S103 - it is the point
        # What is open to all is found, so that it shows that the rest is not.
        os.close(os.open(f"{name}/public", os.O_CREAT | os.O_WRONLY, 0o644))
        state = Path(name) / "state"
        with Database.open(state) as database:
            bridge.store_in(database)
            ledger = Ledger(state / "run" / "processes")
            chat = bridge.chat(configured={"ledger": ledger})
            assert "a secret prompt" in (await chat.say("a secret prompt")).text
            model = bridge.model
            assert model is not None
            agent = model._model
            assert isinstance(agent, AgentModel)
            [conversation] = agent._registry._here.values()
            endpoint = conversation._session.endpoint if conversation._session is not None else None
            assert endpoint is not None
            url, headers = endpoint.http()
            pids = [os.getpid(), *bridge.pids]
            given = json.dumps([name, str(state), [str(endpoint.addresses.socket)], url, pids])
            spying = await asyncio.create_subprocess_exec(
                *(python, "-I", "-S", "-c", _SPY, given),
                user=_NOBODY_UID,
                group=_NOBODY_UID,
                extra_groups=[],
                cwd="/",
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            found, arguments = await soon(spying.communicate())
            assert spying.returncode == 0, arguments
            assert json.loads(found) == [f"{name}/public"]
            assert not any(value.encode() in arguments for value in (endpoint.token, *headers.values()))
            await bridge.close()
