"""The first set of rules, and the test command of a workspace. `dragoman policy init` shows and writes them."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from dragoman.policy.rule import PolicyRule
from dragoman.regular_file import read_regular

__all__ = [
    "missing_starter_rules",
    "starter_rules",
    "starter_text",
    "workspace_test_command",
    "workspace_test_rule",
]

_FILE = Path(__file__).with_name("starter.toml")
# Files that name a test command are short.
_MOST_BYTES = 1_000_000
# A table with the comments above it: all lines up to the next table and its comments.
_HEADER = r"(?:#.*\n)*\[\[policy\]\]\n"
_TABLE = re.compile(rf"^{_HEADER}(?:(?!{_HEADER}).*\n)*", re.MULTILINE)
_TEST_TARGET = re.compile(rb"^test\s*:(?!=)", re.MULTILINE)


def starter_text() -> str:
    """The starter set as it is written to the user's file."""
    return _FILE.read_text(encoding="utf-8")


def missing_starter_rules(rules: tuple[PolicyRule, ...]) -> str:
    """The part of the starter set that is not among these rules, as it is written to the user's file."""
    tables = _TABLE.findall(starter_text())
    return "\n".join(table.strip("\n") + "\n" for table in tables if not set(_rules(table)) <= set(rules))


@cache
def starter_rules() -> tuple[PolicyRule, ...]:
    return _rules(starter_text())


def _rules(text: str) -> tuple[PolicyRule, ...]:
    return msgspec.convert(tomllib.loads(text)["policy"], tuple[PolicyRule, ...])


def workspace_test_rule(folder: Path, command: tuple[str, ...]) -> PolicyRule:
    """Allow exactly this command in this workspace."""
    return PolicyRule(decision="allow", workspace=str(folder), command=command)


def workspace_test_command(folder: Path) -> tuple[str, ...] | None:
    """The command that runs the tests of a workspace, as its files say."""
    if any(_TEST_TARGET.search(_read(folder / name)) for name in ("GNUmakefile", "makefile", "Makefile")):
        return ("make", "test")
    if _has_test_script(_read(folder / "package.json")):
        return ("npm", "test")
    if b"pytest" in _read(folder / "pyproject.toml") or (folder / "pytest.ini").is_file():
        return ("pytest",)
    if (folder / "Cargo.toml").is_file():
        return ("cargo", "test")
    if (folder / "go.mod").is_file():
        return ("go", "test", "./...")
    return None


def _has_test_script(package: bytes) -> bool:
    try:
        match json.loads(package or b"null"):
            case {"scripts": {"test": str()}}:
                return True
            case _:
                return False
    except ValueError:
        return False


def _read(file: Path) -> bytes:
    try:
        return read_regular(file, _MOST_BYTES)
    except OSError:
        return b""
