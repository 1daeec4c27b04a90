"""`dragoman serve` with its state folder on a disk that is really full. Only root can mount such a disk."""

import json
import os
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from http_server.kit import DEADLINE

pytestmark = pytest.mark.long

_CONFIG = '[models.tape]\nkind = "script"\npath = "tape.jsonl"\n'
_TAPE = '{"do": [{"say": "Yes."}]}\n'
# Room for the database and a few responses.
_DISK = "size=512k"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", _DISK, "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(disk: Path) -> Path:
    """Until nothing more fits."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 1_024):
            pass
    return filler


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[int, Path]]:
    """A port, and where the log is."""
    (folder / "dragoman.toml").write_text(_CONFIG)
    (folder / "tape.jsonl").write_text(_TAPE)
    log = folder / "log"
    options = [
        "--config",
        str(folder / "dragoman.toml"),
        "--state-dir",
        str(folder / "state"),
        "--log-file",
        str(log),
    ]
    command = [sys.executable, "-m", "dragoman", *options, "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        yield int(line.split()[-1].removesuffix("/v1").rpartition(":")[2]), log
    finally:
        process.terminate()
        assert process.wait(DEADLINE) == 0
        process.stderr.close()


def _asked(port: int, words: str, previous: str | None = None) -> dict[str, Any]:
    body = json.dumps({"model": "tape", "input": words, "previous_response_id": previous}).encode()
    asking = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/responses", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asking, timeout=DEADLINE) as answer:  # noqa: S310 - the address is ours
        value: dict[str, Any] = json.load(answer)
    return value


def _said(response: dict[str, Any]) -> str:
    return str(response["output"][0]["content"][0]["text"])


def test_a_server_on_a_full_disk_answers_and_keeps_again_when_there_is_room(
    disk: Path, tmp_path: Path
) -> None:
    words = "x" * 20_000
    with _serving(tmp_path) as (port, log):
        before = _asked(port, "before")
        filler = _fill(disk)
        for _ in range(3):
            assert _said(_asked(port, words, before["id"])) == "Yes."
        assert "The disk is full. Make room, then try again." in log.read_text()
        filler.unlink()
        after = _asked(port, words, before["id"])
        assert _said(_asked(port, "and on", after["id"])) == "Yes."
    with closing(sqlite3.connect(disk / "dragoman.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        kept = {id_ for (id_,) in database.execute("SELECT id FROM responses")}
    assert {before["id"], after["id"]} <= kept


def test_a_server_that_starts_on_a_full_disk_answers(disk: Path, tmp_path: Path) -> None:
    filler = _fill(disk)
    with _serving(tmp_path) as (port, log):
        assert _said(_asked(port, "now")) == "Yes."
        assert str(disk / "dragoman.db") in log.read_text()
    filler.unlink()
    with _serving(tmp_path) as (port, _):
        first = _asked(port, "again")
        assert _said(_asked(port, "and on", first["id"])) == "Yes."
