"""What every store raises."""

from __future__ import annotations

__all__ = ["DamagedEntry", "JournalStoreError"]


class JournalStoreError(Exception):
    """The store cannot be used now: what is wrong, and what to do about it."""


class DamagedEntry(JournalStoreError):
    """What is stored cannot be read, now or later."""
