"""Archives with an agent in them: what is taken out, and what is not."""

import asyncio
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import msgspec
import pytest

from agents_command import packages
from dragoman.agents import archive, npm, pip
from dragoman.agents.entry import CatalogueEntry
from dragoman.agents.failure import InstallError
from dragoman.agents.installed import Installation, ready


def install(path: Path, folder: Path, command: str = "./bin/agent") -> Installation:
    distribution = packages.binary(path, {}, packages.sha256(path))
    [target] = distribution["binary"].values()
    target["cmd"] = command
    entry = msgspec.convert(packages.entry("1.0.0", distribution), CatalogueEntry)
    found = archive.target_of(entry)
    assert found is not None
    folder.mkdir()
    told: list[tuple[int, int | None]] = []
    work = archive.install(entry, found, folder, lambda *numbers: told.append(numbers))
    installation = asyncio.run(work)
    assert told[-1] == (path.stat().st_size, path.stat().st_size)
    return ready(installation, folder)


def test_a_zip_keeps_what_is_a_program(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for name, mode in (("bin/agent", 0o755), ("bin/helper", 0o755), ("README", 0o644)):
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            zipped.writestr(info, "x")
    program = Path(install(path, tmp_path / "to").command[0])
    assert program.stat().st_mode & stat.S_IXUSR
    assert program.with_name("helper").stat().st_mode & stat.S_IXUSR
    assert not program.parents[1].joinpath("README").stat().st_mode & stat.S_IXUSR
    # What it was made from is not kept.
    assert [each.name for each in (tmp_path / "to").iterdir()] == ["files"]


def test_a_program_may_be_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    path.write_text("#!/bin/sh\n")
    program = Path(install(path, tmp_path / "to", "./agent").command[0])
    assert program.read_text() == "#!/bin/sh\n"
    assert program.stat().st_mode & stat.S_IXUSR


def _link(name: str, to: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, to
    return info


@pytest.mark.parametrize(
    "info", [tarfile.TarInfo("../outside"), tarfile.TarInfo("/tmp/outside"), _link("bin", "/")]
)
def test_nothing_is_written_outside(info: tarfile.TarInfo, tmp_path: Path) -> None:
    path = tmp_path / "agent.tar"
    with tarfile.open(path, "w") as tar:
        tar.addfile(info, io.BytesIO())
    with pytest.raises(InstallError):
        install(path, tmp_path / "to")
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "to" / "outside").exists()


@pytest.mark.parametrize(
    "damage",
    [
        # What is packed; and how it says that it is: with a password, in a way that nobody knows.
        pytest.param((39, b"\xff" * 4), id="content"),
        pytest.param((6, b"\x01"), id="password"),
        pytest.param((8, b"\x63"), id="method"),
    ],
)
def test_a_damaged_archive_is_told_as_such(damage: tuple[int, bytes], tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("bin/agent", "x" * 100)
    at, wrong = damage
    data = bytearray(path.read_bytes())
    data[at : at + len(wrong)] = wrong
    if at < 10:
        # The same is said in the directory at the end.
        at += data.index(b"PK\x01\x02") + 2
        data[at : at + len(wrong)] = wrong
    path.write_bytes(data)
    with pytest.raises(InstallError, match="cannot be unpacked"):
        install(path, tmp_path / "to")


@pytest.mark.parametrize("command", ["../../agent.tar.gz", "/bin/sh", "./bin/other"])
def test_a_program_outside_of_the_archive_is_none(command: str, tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="in it"):
        install(packages.archive(tmp_path, "1.0.0"), tmp_path / "to", command)


@pytest.mark.parametrize(
    ("package", "other"),
    [("@scope/name@1.0.0", "@scope/name@2.0.0"), ("name@1.0.0", "name@2.0.0"), ("name", "name@2.0.0")],
)
def test_another_version_of_an_npm_package(package: str, other: str) -> None:
    assert npm.with_version(package, "2.0.0") == other


def test_packages_that_have_no_versions() -> None:
    with pytest.raises(InstallError, match="comes in no other version"):
        npm.with_version("/some/where.tgz", "2.0.0")
    with pytest.raises(InstallError, match="no name of a package"):
        pip.with_version("--index-url=x", "2.0.0")
    assert pip.with_version("name[extra]==1.0", "2.0") == "name[extra]@2.0"
