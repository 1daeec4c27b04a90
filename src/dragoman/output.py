"""Standard output that takes nothing any more: nobody reads it, or there is no room for it."""

from __future__ import annotations

import os
import sys

__all__ = ["discard_output", "unwritable"]


def discard_output() -> None:
    """What is still to be written goes nowhere, or Python would complain about it when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def unwritable(error: OSError) -> str | None:
    """What to say of it. None: whoever read our output has had enough of it, and knows."""
    if isinstance(error, BrokenPipeError):
        return None
    return f"standard output cannot be written: {error.strerror}. What it has so far is not complete."
