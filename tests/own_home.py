"""A home and a folder of its own for every test, and nothing of ours in its environment."""

import os
from pathlib import Path

import pytest

__all__ = ["configure", "home"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in (
        "DRAGOMAN_CONFIG",
        "DRAGOMAN_STATE_DIR",
        "DRAGOMAN_LOG",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
    ):
        # Set first, so that what a test sets is undone.
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return tmp_path


def configure(text: str) -> None:
    """A dragoman.toml in this folder that the user has named."""
    Path("dragoman.toml").write_text(text)
    os.environ["DRAGOMAN_CONFIG"] = "dragoman.toml"
