"""What is measured, as values: samples, their medians, ratios between them, and whether a goal is reached.

Figures are compared within one run only, a repeat of one with the same repeat of the other: on a machine that is
sometimes slow, both are slow at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal

import msgspec

__all__ = ["Column", "Figure", "Goal", "Row", "percentile", "ratio"]


class Column(msgspec.Struct, frozen=True):
    name: str
    title: str
    digits: int = 1


class Row(msgspec.Struct, frozen=True):
    case: str
    contestant: str
    # Of each repeat.
    samples: dict[str, tuple[float, ...]] = {}
    # Why there are none.
    note: str = ""

    def median(self, name: str) -> float | None:
        values = self.samples.get(name, ())
        return median(values) if values else None


class Goal(msgspec.Struct, frozen=True):
    sentence: str
    # None: it could not be measured.
    value: float | None
    limit: float | None
    sense: Literal["at most", "at least"] = "at most"
    unit: str = "×"

    @property
    def verdict(self) -> Literal["reached", "not reached", "not measured"]:
        if self.value is None or self.limit is None:
            return "not measured"
        within = self.value <= self.limit if self.sense == "at most" else self.value >= self.limit
        return "reached" if within else "not reached"


class Figure(msgspec.Struct, frozen=True):
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    goals: tuple[Goal, ...] = ()
    # Where and when, if not with the others.
    measured: str = ""

    def row(self, case: str, contestant: str) -> Row | None:
        return next((row for row in self.rows if (row.case, row.contestant) == (case, contestant)), None)

    def ratio(self, name: str, case: str, of: str, to: str) -> float | None:
        """How many times as much one is of the other."""
        one, other = self.row(case, of), self.row(case, to)
        if one is None or other is None:
            return None
        return ratio(one.samples.get(name, ()), other.samples.get(name, ()))


def ratio(of: Sequence[float], to: Sequence[float]) -> float | None:
    """The median over the repeats of both; of their medians, where one was repeated more often."""
    if not of or not to:
        return None
    if len(of) != len(to):
        return _quotient(median(of), median(to))
    quotients = [_quotient(one, other) for one, other in zip(of, to, strict=True)]
    return median([each for each in quotients if each is not None] or [0.0])


def _quotient(one: float, other: float) -> float | None:
    return one / other if other else None


def percentile(values: Iterable[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there are no values")
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]
