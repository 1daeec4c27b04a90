"""The folder of the socket: private, short, and not left behind for ever by those who were killed."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dragoman.backends.agent.toolserver.folder import socket_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _dead() -> int:
    """The pid of a process that is no more."""
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    return ended.pid


def test_a_folder_is_private_and_says_whose_it_is(place: Path) -> None:
    folder = socket_folder("tools")
    assert folder.parent == place
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.name.startswith(f"dragoman-{os.getpid()}-")


def test_where_the_path_would_be_too_long_it_is_somewhere_else(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = place / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = socket_folder("tools")
    try:
        assert folder.parent != deep
        assert list(deep.iterdir()) == []
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "tools"))
            (folder / "tools").unlink()
    finally:
        folder.rmdir()


def test_i7_what_a_killed_process_left_is_removed_and_nothing_else(place: Path) -> None:
    left, empty, strange = (
        place / name for name in (f"dragoman-{_dead()}-x", f"dragoman-{_dead()}-y", "dragoman-z-z")
    )
    for folder in (left, empty, strange):
        folder.mkdir()
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(str(left / "tools"))
    mine = socket_folder("tools")
    assert sorted(place.iterdir()) == sorted([strange, mine])


def test_i7_a_folder_in_which_somebody_answers_is_kept_whoever_that_is(place: Path) -> None:
    """The pid of a process in another container is unknown here."""
    theirs = place / f"dragoman-{_dead()}-x"
    theirs.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(theirs / "tools"))
        listening.listen()
        socket_folder("tools")
        assert (theirs / "tools").exists()
