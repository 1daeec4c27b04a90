"""The units for systemd in `examples/systemd`, read, and checked by systemd where it is installed."""

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from dragoman.cli.parser import parse

_FOLDER = Path(__file__).parents[2] / "examples" / "systemd"
_UNITS = sorted(_FOLDER.glob("*.service"))
# The longest drain of a worker, and of a gateway unless it is configured, in seconds.
_LONGEST = {"worker": 600, "serve": 30}


def _unit(file: Path) -> ConfigParser:
    unit = ConfigParser(interpolation=None)
    # Options of systemd have capitals.
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(file.read_text("utf-8"))
    return unit


def test_there_is_a_unit_for_each_role() -> None:
    assert [file.name for file in _UNITS] == ["dragoman-serve.service", "dragoman-worker.service"]


@pytest.mark.parametrize("file", _UNITS, ids=lambda file: file.stem)
def test_a_unit_starts_a_command_that_exists_and_waits_for_its_drain(file: Path) -> None:
    service = _unit(file)["Service"]
    command, _ = parse(service["ExecStart"].split()[1:], {})
    assert command is not None
    assert int(service["TimeoutStopSec"]) > _LONGEST[command.name]
    # SIGTERM to the main process: agents that got it, too, would end in the middle of their turns.
    assert (service["Type"], service["KillMode"], service["KillSignal"]) == ("exec", "mixed", "SIGTERM")
    assert service["NoNewPrivileges"] == "yes"
    credential = service["LoadCredential"].partition(":")[0]
    assert f"/run/credentials/{file.name}/{credential}" in file.read_text("utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this system has no systemd")
@pytest.mark.parametrize("file", _UNITS, ids=lambda file: file.stem)
def test_systemd_understands_a_unit(file: Path, tmp_path: Path) -> None:
    program = shutil.which("true")
    text = file.read_text("utf-8").replace("/opt/dragoman/bin/dragoman", str(program))
    copy = tmp_path / file.name
    copy.write_text(text.replace("User=dragoman", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
