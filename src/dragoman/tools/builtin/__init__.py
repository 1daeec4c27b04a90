"""The tools that come with the terminal: files of the workspace, commands, and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.tools.definition import DefinedTool

__all__ = ["builtin_tools"]


def builtin_tools() -> tuple[DefinedTool, ...]:
    """A set of them for one session: each remembers what it has shown to the person there."""
    # Not at the top: some modules of this package run as processes of their own, and must not be imported before.
    from dragoman.tools.builtin.command import run_command  # noqa: PLC0415
    from dragoman.tools.builtin.edit import write_file  # noqa: PLC0415
    from dragoman.tools.builtin.fetch import fetch_url  # noqa: PLC0415
    from dragoman.tools.builtin.files import list_files, read_file  # noqa: PLC0415
    from dragoman.tools.builtin.search import search_files  # noqa: PLC0415

    return (read_file(), list_files(), search_files(), write_file(), run_command(), fetch_url())
