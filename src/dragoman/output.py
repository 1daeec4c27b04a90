"""Standard output that cannot be written: its reader has closed it, or the disk is full."""

from __future__ import annotations

import os
import sys

__all__ = ["discard_output", "unwritable"]


def discard_output() -> None:
    """Send the rest of the output to the null device, so that Python does not complain when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def unwritable(error: OSError) -> str | None:
    """The message for the user; None if the reader of our output has closed it, as `head` does."""
    if isinstance(error, BrokenPipeError):
        return None
    return f"standard output cannot be written: {error.strerror}. What it has so far is not complete."
