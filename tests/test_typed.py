"""`make lint` checks the types of all Python in the repository: nothing lies where mypy does not look."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from manifest import ROOT

# What mypy leaves out below a folder that it is given, unless the folder itself has such a name.
_LEFT_OUT = ("__pycache__", "node_modules", "site-packages")


def unchecked(python: list[str], folders: list[str]) -> list[str]:
    return [name for name in python if not any(_is_below(PurePosixPath(name), folder) for folder in folders)]


def _is_below(file: PurePosixPath, folder: str) -> bool:
    if not file.is_relative_to(folder):
        return False
    below = file.relative_to(folder).parts
    return not any(part.startswith(".") or part in _LEFT_OUT for part in below)


def _is_python(file: Path) -> bool:
    if file.suffix in (".py", ".pyi"):
        return True
    with file.open("rb") as opened:
        first = opened.readline(100)
    return first.startswith(b"#!") and b"python" in first


def _python() -> list[str]:
    """What is committed, and what is new and not to be ignored."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no git repository")
    names = (name for name in done.stdout.split("\0") if name and (ROOT / name).is_file())
    return [name for name in names if _is_python(ROOT / name)]


def test_all_python_is_checked_strictly() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    assert mypy["strict"]
    assert not {"exclude", "ignore_errors", "follow_imports"} & set(mypy)
    # Libraries that only their own environments have may be missing. Nothing else is left out.
    for override in mypy.get("overrides", ()):
        assert set(override) == {"module", "ignore_missing_imports"}
        assert not any(name.startswith("dragoman") for name in override["module"])
    python = _python()
    assert len(python) > 500
    assert unchecked(python, mypy["files"]) == []


def test_what_lies_elsewhere_is_noticed() -> None:
    python = [
        "src/a.py",
        "scripts/b.py",
        "tests/.hidden/c.py",
        ".ci/d.py",
        "setup.py",
        "editors/node_modules/e.py",
    ]
    assert unchecked(python, ["src", "tests", ".ci", "editors"]) == [
        "scripts/b.py",
        "tests/.hidden/c.py",
        "setup.py",
        "editors/node_modules/e.py",
    ]
