"""Another user of the machine: what can be seen from outside, whatever the umask is."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.backends.agent.toolserver.folder import socket_folder
from dragoman.config import Agreed, Found
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
        Agreed(state).add(Found(Source(tmp_path / "dragoman.toml", ""), {}))
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
