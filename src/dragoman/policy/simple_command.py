"""A simple command: a program with its arguments, and what the shell does around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dragoman.policy.words import Word

__all__ = ["Folders", "Redirect", "SimpleCommand"]

# The folders that a command may run in; None: not known.
Folders: TypeAlias = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that the shell opens for a command. /dev/null and copies of descriptors are left out."""

    path: Word
    is_write: bool


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    # The program and its arguments. Empty: only redirects.
    words: tuple[Word, ...]
    # Variables that are set for it.
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    folders: Folders = None
    # More arguments may follow, which are not known: those that xargs adds.
    has_more: bool = False
    # It only runs another command, which follows in the list.
    is_wrapper: bool = False

    def __str__(self) -> str:
        return " ".join(word.text for word in self.words)
