"""The part of a document that is made from results: all that stands between two markers."""

from __future__ import annotations

from bench.figures import Figure
from bench.machine import Surroundings
from bench.table import markdown_of

__all__ = ["BEGIN", "END", "replaced", "written"]

BEGIN = "<!-- made by `make bench`: -->"
END = "<!-- up to here -->"


def written(document: str, figures: tuple[Figure, ...], where: Surroundings) -> str:
    """The document with these results in place of earlier ones."""
    versions = ", ".join(f"{name} {of}" for name, of in where.versions.items())
    told = "\n".join(markdown_of(figure) for figure in figures)
    return replaced(document, f"Measured {where.sentence}. {versions}.\n\n{told}")


def replaced(document: str, text: str) -> str:
    """The document with this text between its markers."""
    before, begins, rest = document.partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not begins or not ends:
        raise ValueError("the document has no place for results")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"
