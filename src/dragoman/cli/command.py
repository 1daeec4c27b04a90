"""A command: what it is for, and what it takes."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CliCommand"]


@dataclass(frozen=True, slots=True)
class CliCommand:
    name: str
    # In the list of commands.
    summary: str
    # In its own help.
    description: str
    examples: str
    add_arguments: Callable[[ArgumentParser], object]

    @property
    def module(self) -> str:
        """Where its function `run` is. Imported when the command is used, so that no command pays for another."""
        return f"dragoman.cli.{self.name.replace('-', '_')}"
