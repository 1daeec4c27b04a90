"""What is said to a person who is at the terminal, on standard error: standard output may be a file."""

from __future__ import annotations

import sys

from dragoman.cli.errors import UsageError
from dragoman.cli.layout import say

__all__ = ["agreed", "agreed_to", "can_ask", "greet_person"]


def greet_person(program: str) -> None:
    """To somebody who has started by hand what only a program talks to, and would wait for ever."""
    if can_ask():
        say(
            f"This is for {program}, which talks JSON-RPC to it.\n"
            "Ctrl-D ends it. To talk to a model yourself: dragoman chat",
            sys.stderr,
        )


def can_ask() -> bool:
    """Whether there is somebody who sees a question and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Only a yes is a yes; whoever just presses Enter has not agreed."""
    say(f"{question} [y/N]", sys.stderr, end=" ")
    answer = ""
    try:
        answer = sys.stdin.readline()
    finally:
        if not answer.endswith("\n"):
            # Ctrl-C, or Ctrl-D: what comes next begins a line of its own.
            print(file=sys.stderr)
    return answer.strip().lower() in {"y", "yes"}


def agreed_to(question: str, *, is_sure: bool) -> bool:
    """The same for a command that has `--yes`, for whoever is sure, and for where nobody can be asked."""
    if not is_sure and not can_ask():
        raise UsageError("There is nobody to ask. Say --yes if this is what you want.")
    return is_sure or agreed(question)
