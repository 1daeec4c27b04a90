"""Agents that are packages of npm.

npm takes packages from the registry in the user's own settings. It verifies each against its published hash, and runs
no scripts, except those of the agent's own package if the catalogue says that they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from dragoman.agents import programs
from dragoman.agents.entry import CatalogueEntry, Needs, Package
from dragoman.agents.failure import InstallError
from dragoman.agents.installed import Installation

__all__ = ["install", "missing", "with_version"]

_T = TypeVar("_T")

_OPTIONS = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
# `name`, `@scope/name`, either with a version behind an @.
_SPEC = re.compile(r"(?P<name>(?:@[^@/]+/)?[^@/]+)(?:@(?P<version>[^/]+))?")
# How much of a file shows what runs it.
_HEAD_BYTES = 200


class _Manifest(msgspec.Struct, frozen=True):
    version: str = ""
    bin: str | dict[str, str] = {}
    dependencies: dict[str, str] = {}


class _Locked(msgspec.Struct, frozen=True):
    integrity: str | None = None


class _Lock(msgspec.Struct, frozen=True):
    packages: dict[str, _Locked] = {}


class _Installed(NamedTuple):
    name: str
    folder: Path
    manifest: _Manifest
    integrity: str | None


def with_version(package: str, version: str) -> str:
    parts = _SPEC.fullmatch(package)
    if parts is None:
        raise InstallError(f"The catalogue has {package}, which comes in no other version.")
    return f"{parts['name']}@{version}"


async def missing(needs: Needs) -> str | None:
    """The program that the machine lacks for this package, in a sentence."""
    program = programs.node(needs.node)
    programs.npm()
    major, minor = await programs.version_of(program)
    if needs.node is not None and major < needs.node:
        return f"it needs Node {needs.node} or newer, and {program} is {major}.{minor}."
    return None


async def install(
    entry: CatalogueEntry, package: Package, folder: Path, env: Mapping[str, str]
) -> Installation:
    """Install a package. Its scripts get the environment `env`; npm itself gets all of ours."""
    npm, node = programs.npm(), programs.node(entry.facts.needs.node)
    (folder / "package.json").write_text('{"private": true}\n')
    await programs.run(
        (npm, "install", "--ignore-scripts", "--save-exact", *_OPTIONS, "--", package.package), folder
    )
    found = _found(folder)
    if entry.facts.scripts:
        await programs.run((npm, "rebuild", *_OPTIONS, "--", found.name), folder, env)
    program = _program(found, folder)
    words = f"./{program.relative_to(folder)}"
    return Installation(
        entry.id,
        found.manifest.version,
        "npx",
        ((node, words) if _is_for_node(program) else (words,)) + package.args,
        package.env,
        found.integrity,
    )


def _found(folder: Path) -> _Installed:
    """The package that npm has installed."""
    try:
        [name] = _read(folder / "package.json", _Manifest).dependencies
        place = folder / "node_modules" / name
        manifest = _read(place / "package.json", _Manifest)
        locked = _read(folder / "package-lock.json", _Lock).packages.get(f"node_modules/{name}", _Locked())
    except (OSError, ValueError, RecursionError) as error:
        # Also what msgspec raises.
        raise InstallError(f"What npm has installed cannot be read: {error}.") from error
    return _Installed(name, place, manifest, locked.integrity)


def _read(path: Path, kind: type[_T]) -> _T:
    return msgspec.json.decode(path.read_bytes(), type=kind)


def _program(found: _Installed, folder: Path) -> Path:
    program = found.folder / _named_program(found)
    if not program.resolve().is_relative_to(folder.resolve()) or not program.is_file():
        raise InstallError(f"{found.name} has no program {program.name}, which its package names.")
    return program


def _named_program(found: _Installed) -> str:
    """The package's program, as npx chooses it: the only one, else the one named like the package."""
    programs_ = found.manifest.bin
    if isinstance(programs_, str):
        return programs_
    if len(set(programs_.values())) == 1:
        return next(iter(programs_.values()))
    own = found.name.rpartition("/")[2]
    if own not in programs_:
        raise InstallError(f"{found.name} names no program that could be the agent.")
    return programs_[own]


def _is_for_node(program: Path) -> bool:
    with program.open("rb") as file:
        first, _, _ = file.read(_HEAD_BYTES).partition(b"\n")
    return (first.startswith(b"#!") and b"node" in first) or program.suffix in {".js", ".mjs", ".cjs"}
