"""What is wrong with a configuration, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from dragoman.config.positions import KeyPath
from dragoman.logs import one_line

__all__ = ["Complaint", "ConfigError", "Problem", "dotted", "header", "quoted"]

# What is wrong, and with which key. Its place in the file makes it a problem.
Complaint: TypeAlias = tuple[KeyPath, str]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    # A file with a line, as editors and terminals make a link of it.
    where: str
    # What is wrong there and what to write instead, in whole sentences.
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


class ConfigError(Exception):
    """A configuration that cannot be used: everything that is wrong with it, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def quoted(text: str) -> str:
    """`text` in double quotes, as it could stand in the file."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{one_line(escaped)}"'


def dotted(path: KeyPath) -> str:
    """A key as it could stand in the header of a table."""
    return ".".join(str(key) if _BARE_KEY.fullmatch(str(key)) else quoted(str(key)) for key in path)


def header(path: KeyPath) -> str:
    """The header of a table, as it could stand in the file: `[serve]`, or `[[policy]]` for one of several."""
    return f"[[{dotted(path[:-1])}]]" if isinstance(path[-1], int) else f"[{dotted(path)}]"
