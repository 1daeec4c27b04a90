"""Checks of command lines: what an agent would run, as rules read it."""

from __future__ import annotations

from dragoman.policy.command_line import CommandLine, read_line, read_vector
from policy.plain_words import compare_words

__all__ = ["command_lines"]

_FOLDER = "/workspace"


def command_lines(data: bytes) -> None:
    """A line is read, or is not understood. What is understood has programs that are known for certain."""
    line = data.decode("utf-8", "replace")
    _check(read_line(line, _FOLDER))
    _check(read_vector(line.split(" "), _FOLDER))
    compare_words(line)
    seen = read_line(f"{line}\n\nforbidden", _FOLDER)
    # Nothing before it hides a command; a backslash takes away one of the line breaks.
    assert seen.unsure or any(command.words[0].text == "forbidden" for command in seen.commands)


def _check(seen: CommandLine) -> None:
    if not seen.unsure:
        assert all(command.words and command.words[0].is_exact for command in seen.commands)
        # A wrapper is followed by what it runs.
        assert not seen.commands or not seen.commands[-1].is_wrapper
