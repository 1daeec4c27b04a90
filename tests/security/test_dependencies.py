"""What is installed is what was chosen: as far as a machine without a network can tell."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from manifest import ROOT

_FILES = sorted((ROOT / "requirements").glob("*.txt"))
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==[0-9][^\s;]*(?: ; [^\\]+)?((?: --hash=sha256:[0-9a-f]{64})+)")
_WORD = re.compile(r"`([A-Za-z0-9@/._-]+)`")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _entries(text: str) -> Iterator[str]:
    """A package each, with what continues it, on one line."""
    for entry in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        if entry.strip() and not entry.startswith("#"):
            yield entry.strip()


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_every_package_is_pinned_to_one_version_by_hash(path: Path) -> None:
    entries = list(_entries(path.read_text("utf-8")))
    assert entries
    assert [entry[:80] for entry in entries if not _PINNED.fullmatch(entry)] == []


def test_every_package_has_its_reason() -> None:
    explained = {_normal(name) for name in _WORD.findall((ROOT / "docs/dependencies.md").read_text("utf-8"))}
    pinned = {
        _normal(entry.partition("==")[0]) for path in _FILES for entry in _entries(path.read_text("utf-8"))
    }
    assert sorted(pinned - explained) == []


def test_every_file_of_a_lock_has_its_checksum() -> None:
    """Node's packages are for building the extension, and for its tests: each with a checksum, from nowhere but a registry."""
    locks = [*ROOT.glob("editors/vscode/package-lock.json"), *ROOT.glob("editors/vscode/*/package-lock.json")]
    assert locks
    for lock in locks:
        text = lock.read_text("utf-8")
        assert text.count('"integrity": "sha512-') == len(re.findall(r'"node_modules/[^"]+": \{', text)), lock
        assert '"git+' not in text
