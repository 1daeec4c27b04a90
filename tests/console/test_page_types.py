"""The page's types, and its modules that need no browser. The types are checked with the extension's TypeScript."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_PAGE = _ROOT / "src" / "dragoman" / "frontends" / "console" / "page"
_TYPESCRIPT = _ROOT / "editors" / "vscode" / "node_modules" / "typescript" / "bin" / "tsc"
# The service worker has other globals than the page.
_PROJECTS = ("tsconfig.json", "tsconfig.worker.json")
# A type check on a busy machine.
_DEADLINE_SECONDS = 120


def _node(*arguments: str | Path) -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine")
    done = subprocess.run(
        [node, *map(str, arguments)],
        cwd=_HERE,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def _tsc(*arguments: str) -> str:
    if shutil.which("node") is not None:
        assert _TYPESCRIPT.exists(), "`make test` installs what the extension needs"
    return _node(_TYPESCRIPT, *arguments)


@pytest.mark.parametrize("project", _PROJECTS)
def test_its_types_are_right(project: str) -> None:
    _tsc("--project", project)


def test_every_module_is_checked() -> None:
    lists = [_tsc("--project", project, "--listFilesOnly") for project in _PROJECTS]
    checked = {Path(line).name for each in lists for line in each.splitlines()}
    assert {path.name for path in _PAGE.glob("*.js")} <= checked


def test_its_modules_do_what_they_should(tmp_path: Path) -> None:
    # Node takes a file for a module of ECMAScript by its folder's package.json, which the page does not have.
    page = tmp_path / "src" / "dragoman" / "frontends" / "console" / "page"
    shutil.copytree(_PAGE, page)
    (page / "package.json").write_text('{"type": "module"}')
    tests = tmp_path / "tests" / "console"
    tests.mkdir(parents=True)
    shutil.copy(_HERE / "page_modules.test.mjs", tests)
    _node("--test", tests / "page_modules.test.mjs")
