"""Agents that are packages of PyPI: each in an environment of its own.

pip takes packages from the index in the user's own settings, and only wheels, which run no code when installed.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from dragoman.agents import programs
from dragoman.agents.entry import CatalogueEntry, Needs, Package
from dragoman.agents.failure import InstallError
from dragoman.agents.installed import Installation

__all__ = ["install", "missing", "with_version"]

_REPORT = "pip-report.json"
_ENVIRONMENT = "venv"
_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-input", "--only-binary=:all:")
# `name`, `name[extra]`, either with a version: behind ==, or as uv also takes it, behind an @.
_SPEC = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<extras>\[[^\]]*\])?(?:(?:==|@)(?P<version>[A-Za-z0-9.+!-]+))?"
)
_LATEST = "latest"


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    version: str


class _Archive(msgspec.Struct, frozen=True):
    hashes: dict[str, str] = {}


class _Download(msgspec.Struct, frozen=True):
    archive_info: _Archive = _Archive()


class _Item(msgspec.Struct, frozen=True):
    metadata: _Metadata
    requested: bool = False
    download_info: _Download = _Download()


class _Report(msgspec.Struct, frozen=True):
    install: tuple[_Item, ...] = ()


def with_version(package: str, version: str) -> str:
    parts = _parts(package)
    return f"{parts['name']}{parts['extras'] or ''}@{version}"


async def missing(needs: Needs) -> str | None:
    """The program that the machine lacks for this package, in a sentence."""
    try:
        await programs.python(needs.python)
    except InstallError:
        return (
            f"it needs Python {needs.python} or newer, and none is found. Install it (python{needs.python})."
        )
    return None


async def install(entry: CatalogueEntry, package: Package, folder: Path) -> Installation:
    interpreter = await programs.python(entry.facts.needs.python)
    environment = folder / _ENVIRONMENT
    await programs.run((interpreter, "-m", "venv", "--without-pip", str(environment)), folder)
    pip = await _pip(interpreter, str(environment / "bin" / "python"), folder)
    report = folder / _REPORT
    await programs.run(
        (*pip, "install", *_OPTIONS, f"--report={report}", _requirement(package.package)), folder
    )
    item = _requested(report)
    sha256 = item.download_info.archive_info.hashes.get("sha256")
    return Installation(
        entry.id,
        item.metadata.version,
        "uvx",
        (f"./{_script(environment, _parts(package.package)['name']).relative_to(folder)}", *package.args),
        package.env,
        f"sha256:{sha256}" if sha256 else None,
    )


async def _pip(interpreter: str, own: str, folder: Path) -> tuple[str, ...]:
    """The interpreter's own pip, where it has one that can work for another; else one is put into the environment."""
    outside = (interpreter, "-m", "pip", "--python", own)
    try:
        await programs.run((*outside, "--version"), folder)
    except InstallError:
        await programs.run((own, "-m", "ensurepip"), folder)
        return own, "-m", "pip"
    return outside


def _parts(package: str) -> re.Match[str]:
    parts = _SPEC.fullmatch(package)
    if parts is None:
        raise InstallError(f"The catalogue has {package}, which is no name of a package.")
    return parts


def _requirement(package: str) -> str:
    parts = _parts(package)
    name = f"{parts['name']}{parts['extras'] or ''}"
    return name if parts["version"] in (None, _LATEST) else f"{name}=={parts['version']}"


def _requested(report: Path) -> _Item:
    try:
        items = msgspec.json.decode(report.read_bytes(), type=_Report).install
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InstallError(f"What pip has installed cannot be read: {error}.") from error
    for item in items:
        if item.requested:
            return item
    raise InstallError("pip has installed nothing.")


def _script(environment: Path, package: str) -> Path:
    """The package's program, as uvx chooses it: the one named like the package."""
    programs_ = environment / "bin"
    for name in (package, package.replace("_", "-"), package.replace("-", "_")):
        if (programs_ / name).is_file():
            return programs_ / name
    raise InstallError(f"{package} has no program of that name, which an agent must have.")
