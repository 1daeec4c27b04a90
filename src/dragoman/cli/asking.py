"""A question with yes or no, on standard error: standard output may be a file."""

from __future__ import annotations

import sys

__all__ = ["agreed", "can_ask"]


def can_ask() -> bool:
    """Whether there is somebody who sees a question and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Only a yes is a yes; whoever just presses Enter has not agreed."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
