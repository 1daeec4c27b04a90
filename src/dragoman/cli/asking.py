"""Questions and hints to the user at the terminal, on standard error: standard output may be a file."""

from __future__ import annotations

import sys

from dragoman.cli.errors import UsageError
from dragoman.cli.layout import say

__all__ = ["agreed", "agreed_to", "answer_to", "can_ask", "greet_person"]


def greet_person(program: str) -> None:
    """Explain to a user who has started the command by hand that it waits for a program."""
    if can_ask():
        say(
            f"This is for {program}, which talks JSON-RPC to it.\n"
            "Ctrl-D ends it. To talk to a model yourself: dragoman chat",
            sys.stderr,
        )


def can_ask() -> bool:
    """Whether a user at a terminal can see a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str, *, enter_agrees: bool = False) -> bool:
    """Ask the user a yes-or-no question. Anything but a yes is a no, and so is Enter unless `enter_agrees`."""
    answer = answer_to(f"{question} {'[Y/n]' if enter_agrees else '[y/N]'}")
    return enter_agrees if answer == "" else (answer or "").lower() in {"y", "yes"}


def answer_to(question: str) -> str | None:
    """Ask the user a question, and return the answer without spaces around it: empty after Enter, None after Ctrl-D."""
    say(question, sys.stderr, end=" ")
    answer = ""
    try:
        answer = sys.stdin.readline()
    finally:
        if not answer.endswith("\n"):
            # Ctrl-C, or Ctrl-D: what comes next begins a line of its own.
            print(file=sys.stderr)
    return answer.strip() if answer else None


def agreed_to(question: str, *, is_sure: bool) -> bool:
    """Ask the user, unless `--yes` was given. `UsageError` if there is no terminal to ask at."""
    if not is_sure and not can_ask():
        raise UsageError("There is no terminal to ask at. Say --yes if this is what you want.")
    return is_sure or agreed(question)
