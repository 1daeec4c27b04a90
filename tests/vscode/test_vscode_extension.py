"""The extension's own tests, which need Node and no editor: its types, its protocol, its conversions, its tool loop."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.frontends.vscode.protocol import ACTIVITY_OPTION
from dragoman.lm.parts import ACTIVITY
from dragoman.permissions.action import PERMISSION_TOOLS

_EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
_MANIFEST = json.loads((_EXTENSION / "package.json").read_text())
# A type check and a handful of processes, on a busy machine.
_DEADLINE_SECONDS = 120


def _node(*arguments: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine")
    assert (_EXTENSION / "node_modules" / "esbuild").exists(), "`make test` installs what the extension needs"
    done = subprocess.run(
        [node, *arguments],
        cwd=_EXTENSION,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_its_types_are_right() -> None:
    _node("node_modules/typescript/bin/tsc", "--noEmit")


def test_its_own_tests_pass(tmp_path: Path) -> None:
    _node("build.mjs", "test", str(tmp_path))
    bundles = sorted(map(str, tmp_path.glob("*.test.js")))
    assert bundles
    _node("--test", "--test-reporter=spec", *bundles)


def test_it_has_the_permission_tools_and_the_version_of_the_backend() -> None:
    tools = _MANIFEST["contributes"]["languageModelTools"]
    assert [tool["name"] for tool in tools] == list(PERMISSION_TOOLS.values())
    # In no list of tools before VS Code has a model of ours, and in every list from then on, also while there is no
    # backend: without a tool to ask with, an agent would be refused.
    assert {tool["when"] for tool in tools} == {"dragoman.asks"}
    assert _MANIFEST["version"] == __version__


def test_it_has_the_names_of_the_backend_for_activities() -> None:
    wire = (_EXTENSION / "src" / "wire.ts").read_text()
    assert f"export const ACTIVITY = '{ACTIVITY}';" in wire
    assert f"export const ACTIVITY_OPTION = '{ACTIVITY_OPTION}';" in wire


def test_no_click_approves_more_than_one_action() -> None:
    defaults = _MANIFEST["contributes"]["configurationDefaults"]["chat.tools.eligibleForAutoApproval"]
    names = [tool["toolReferenceName"] for tool in _MANIFEST["contributes"]["languageModelTools"]]
    assert len(names) == 7
    assert defaults == {f"dragoman.dragoman/{name}": False for name in names}


def test_a_permission_tool_takes_only_the_nonce() -> None:
    for tool in _MANIFEST["contributes"]["languageModelTools"]:
        assert tool["inputSchema"]["properties"] == {"nonce": {"type": "string"}}


def test_its_page_has_pictures_that_are_packaged_and_says_that_there_is_no_telemetry() -> None:
    page = (_EXTENSION / "README.md").read_text()
    pictures = re.findall(r"!\[[^\]]+\]\(media/pictures/(\w+)\.png\)", page)
    packaging = (_EXTENSION / "package.mjs").read_text()
    packaged = dict(re.findall(r"(\w+): '([\w-]+\.png)'", packaging))
    assert set(pictures) == set(packaged)
    assert all((_EXTENSION.parents[1] / "docs" / "images" / name).exists() for name in packaged.values())
    assert "no telemetry" in page
    assert "!CHANGELOG.md" in (_EXTENSION / ".vscodeignore").read_text()
    assert _MANIFEST["galleryBanner"]["theme"] == "dark"


def test_its_lock_file_names_versions_and_no_registry() -> None:
    for lock in (_EXTENSION / "package-lock.json", _EXTENSION / "packaging" / "package-lock.json"):
        packages = json.loads(lock.read_text())["packages"]
        assert all("resolved" not in package for package in packages.values())
        assert all("integrity" in package for name, package in packages.items() if name)
