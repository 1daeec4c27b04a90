"""Files that a person or a configuration names: only regular ones, and only so much of them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from devtools.traces.reading import TraceError, read_trace

from dragoman.agents.catalogue import CatalogueError, refresh
from dragoman.backends.scripted.load import ScriptError, load_script
from dragoman.config import ConfigError, load
from dragoman.regular_file import read_regular
from dragoman.tools.declaration import DeclarationError, load_declarations

# Only a test that fails reaches it.
_DEADLINE = 60


@pytest.fixture(params=["pipe", "device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What blocks when it is opened, or has no end when it is read."""
    if request.param == "device":
        return Path("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (load, ConfigError),
        (load_script, ScriptError),
        (load_declarations, DeclarationError),
        (read_trace, TraceError),
        (lambda path: read_regular(path, 100), OSError),
    ],
    ids=["configuration", "script", "declarations", "trace", "itself"],
)
def test_what_is_no_regular_file_is_refused_at_once(
    special: Path, read: Callable[[Path], object], error: type[Exception]
) -> None:
    with pytest.raises(error, match="not a regular file"):
        read(special)


async def test_a_registry_that_is_no_regular_file_is_refused(special: Path, tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="not a regular file"):
        await refresh(tmp_path / "agents", str(special))


def test_a_link_is_followed_and_a_file_has_a_limit(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"12345")
    link.symlink_to(file)
    assert read_regular(link, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular(link, 4)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, 4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 4)
    with pytest.raises(OSError, match="null"):
        read_regular(Path("a\0b"), 4)


@pytest.mark.long
def test_listing_models_does_not_wait_for_a_script_that_is_a_pipe(special: Path, tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text(f'[models.tape]\nkind = "script"\npath = "{special}"\n')
    command = [sys.executable, "-m", "dragoman", "--config", str(tmp_path / "dragoman.toml")]
    told = subprocess.run(
        [*command, "--state-dir", str(tmp_path / "state"), "chat", "tape", "-p", "hi"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
        check=False,
    )
    assert told.returncode != 0
    assert "not a regular file" in told.stderr
