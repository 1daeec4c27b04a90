"""Agents that are an archive with a program in it, one for each platform."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import stat
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from dragoman.agents.download import DownloadError, download
from dragoman.agents.entry import BinaryTarget, CatalogueEntry
from dragoman.agents.failure import InstallError, of_system
from dragoman.agents.installed import Installation

__all__ = ["install", "target_of"]

# The largest agent there is has a tenth of it.
_MAX_BYTES = 4 * 1024**3
_SILENCE_SECONDS = 60.0
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_UNPACKED = "files"


def target_of(entry: CatalogueEntry) -> BinaryTarget | None:
    """The archive for this machine."""
    machine = platform.machine().lower()
    return entry.distribution.binary.get(f"{sys.platform}-{_MACHINES.get(machine, machine)}")


async def install(
    entry: CatalogueEntry, target: BinaryTarget, folder: Path, on_bytes: Callable[[int, int | None], object]
) -> Installation:
    """Download an archive and unpack it. `on_bytes` receives the bytes so far, and the total if it is known."""
    fetched = folder / "archive"
    try:
        digest = await _fetch(target.archive, fetched, on_bytes)
        if target.sha256 not in (None, digest):
            raise InstallError(
                f"{target.archive} is not the file that was announced: its SHA-256 is {digest}, and not {target.sha256}."
                " Try again; if it stays so, do not use it."
            )
        program = await asyncio.to_thread(_unpack, fetched, target, folder / _UNPACKED)
    except OSError as error:
        raise of_system(error, f"{entry.name} cannot be installed") from error
    return Installation(
        entry.id,
        entry.version,
        "binary",
        (f"./{program.relative_to(folder)}", *target.args),
        target.env,
        None if target.sha256 is None else f"sha256:{digest}",
    )


async def _fetch(address: str, to: Path, on_bytes: Callable[[int, int | None], object]) -> str:
    digest = hashlib.sha256()
    taken = 0
    total: int | None = None

    def sized(size: int | None) -> None:
        nonlocal total
        total = size

    with to.open("wb") as file:

        def write(chunk: bytes) -> None:
            nonlocal taken
            taken += len(chunk)
            digest.update(chunk)
            file.write(chunk)
            on_bytes(taken, total)

        try:
            await download(address, write, limit=_MAX_BYTES, seconds=_SILENCE_SECONDS, on_size=sized)
        except DownloadError as error:
            raise InstallError(str(error)) from error
    return digest.hexdigest()


def _unpack(archive: Path, target: BinaryTarget, to: Path) -> Path:
    """Unpack an archive into `to`, and return its program. Takes only regular files and folders."""
    to.mkdir()
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, to)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                tar.extractall(to, filter="data")
        else:
            # A program as it is.
            archive.replace(to / PurePosixPath(target.cmd).name)
    except OSError:
        raise
    except Exception as error:
        # A damaged archive can fail in any way inside the libraries that unpack: of zlib, of lzma, of the format.
        raise InstallError(f"{target.archive} cannot be unpacked: {error}. Try again.") from error
    archive.unlink(missing_ok=True)
    program = to / PurePosixPath(target.cmd)
    if not program.resolve().is_relative_to(to.resolve()) or not program.is_file():
        raise InstallError(f"{target.archive} has no {target.cmd} in it.")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def _unzip(archive: Path, to: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            # `extract` takes care of names that lead outside, and makes a file of what was a link.
            path = Path(opened.extract(info, to))
            mode = info.external_attr >> 16
            if path.is_file() and mode & stat.S_IXUSR:
                path.chmod(path.stat().st_mode | stat.S_IXUSR)
