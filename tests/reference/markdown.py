"""The little Markdown that the pages need."""

from collections.abc import Iterable, Sequence

__all__ = ["WRITTEN", "code", "page", "table"]

WRITTEN = "Written by `make reference`; not by hand."


def page(*blocks: str) -> str:
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Nothing where there are no rows."""
    lines = [_row(row) for row in rows]
    return "\n".join([_row(head), "|" + "---|" * len(head), *lines]) if lines else ""


def code(text: str) -> str:
    return f"`{text}`"


def _row(cells: Sequence[str]) -> str:
    """A border inside a cell is escaped, in code as well: so GitHub reads it."""
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |".replace("|  |", "| |").replace("|  |", "| |")
