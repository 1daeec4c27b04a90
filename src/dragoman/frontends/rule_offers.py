"""Rules that a person can make of an answer: what is offered for an action, and writing it to the user's own file.

The file is the one that the user has named, or that in their configuration folder; never one that was only found.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CannotAddRule", "RuleOffer"]


class CannotAddRule(Exception):
    """A rule cannot be written. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class RuleOffer:
    """One or more rules that would allow an action from now on."""

    # For a person to choose by: "always allow `git log` with any arguments here".
    words: str
    # The text that would be added to the file.
    toml: str
