"""A home and a folder of its own for every test, and nothing of ours in its environment."""

from pathlib import Path

import pytest

__all__ = ["home"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in (
        "DRAGOMAN_CONFIG",
        "DRAGOMAN_STATE_DIR",
        "DRAGOMAN_LOG",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return tmp_path
