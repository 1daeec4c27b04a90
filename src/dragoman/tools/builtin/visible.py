"""Text of others as a person must see it in order to decide."""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str) -> str:
    """`text` with everything that hides, moves or reverses other text written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )
