"""The page's types, checked with the extension's TypeScript: it needs Node and no browser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_TYPESCRIPT = _HERE.parents[1] / "editors" / "vscode" / "node_modules" / "typescript" / "bin" / "tsc"
# A type check on a busy machine.
_DEADLINE_SECONDS = 120


def _tsc(*arguments: str) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine")
    assert _TYPESCRIPT.exists(), "`make test` installs what the extension needs"
    return subprocess.run(
        [node, str(_TYPESCRIPT), *arguments],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_SECONDS,
        check=False,
    )


# The service worker has other globals than the page.
@pytest.mark.parametrize("project", ["tsconfig.json", "tsconfig.worker.json"])
def test_its_types_are_right(project: str) -> None:
    done = _tsc("--project", str(_HERE / project))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_every_module_is_checked() -> None:
    pages = _HERE.parents[1] / "src" / "dragoman" / "frontends" / "console" / "page"
    projects = ("tsconfig.json", "tsconfig.worker.json")
    listed = {
        Path(line).name
        for project in projects
        for line in _tsc("--project", str(_HERE / project), "--listFilesOnly").stdout.splitlines()
    }
    assert {path.name for path in pages.glob("*.js")} <= listed
