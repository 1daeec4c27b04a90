"""The plot in README: bars, drawn as SVG by hand.

Each panel has a scale of its own, logarithmic where the contestants are orders of magnitude apart. It is drawn for a
light and for a dark page: the colours follow the reader's.
"""

from __future__ import annotations

import math
from html import escape

from bench.contestants import OURS
from bench.figures import Figure
from bench.machine import Surroundings

__all__ = ["drawn"]

_WIDTH, _LABEL, _VALUE = 860, 150, 90
_BAR, _GAP, _HEAD, _MARGIN = 18, 7, 44, 20
# The figure, a case of it, a value of that, what the panel is called, its unit; and whether its scale is logarithmic.
_PANELS = (
    ("streaming", "stdio", "cpu", "CPU per streamed part, stdio", "µs", True),
    ("streaming", "http", "cpu", "CPU per streamed part, HTTP", "µs", True),
    ("latency", "http, 20 streams", "p50", "Latency of a part, 20 streams over HTTP, median", "ms", True),
    ("memory", "http", "base", "Memory when started", "MB", False),
)
# Rows that explain others.
_LEFT_OUT = ("nothing between", "floor on uvloop")
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px }
  .note { fill: #59636e; font-size: 11px }
  .bar { fill: #b6c0cc } .ours { fill: #2f6fde }
  .name-ours { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note { fill: #9198a1 } .bar { fill: #4a5460 } .ours { fill: #5b9bff }
  }
"""


def drawn(figures: tuple[Figure, ...], where: Surroundings) -> str:
    by_name = {figure.name: figure for figure in figures}
    top, pieces = _MARGIN, []
    for name, case, column, title, unit, logarithmic in _PANELS:
        figure = by_name.get(name)
        bars = _bars(figure, case, column) if figure else []
        if not bars:
            continue
        pieces.append(_text(_MARGIN, top + 14, title, "title"))
        pieces.append(_text(_WIDTH - _MARGIN, top + 14, f"{unit}, less is better", "note", anchor="end"))
        top += _HEAD - _BAR
        values = [value for _, value in bars]
        for label, value in bars:
            length = _length(value, values, logarithmic=logarithmic)
            ours = label == OURS
            pieces.append(
                _text(_MARGIN + _LABEL - 10, top + 13, label, "name-ours" if ours else "", anchor="end")
            )
            pieces.append(
                f'<rect x="{_MARGIN + _LABEL}" y="{top}" width="{length:.1f}" height="{_BAR}" rx="3" '
                f'class="{"ours" if ours else "bar"}"/>'
            )
            pieces.append(
                _text(_MARGIN + _LABEL + length + 8, top + 13, _number(value), "name-ours" if ours else "")
            )
            top += _BAR + _GAP
        top += _MARGIN
    pieces.append(_text(_MARGIN, top + 4, f"Measured {where.sentence}.", "note"))
    note = "Bars of CPU and latency are on a logarithmic scale. The floor relays and does nothing else."
    pieces.append(_text(_MARGIN, top + 20, note, "note"))
    height = top + 20 + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="What Dragoman costs, beside others">\n<style>{_STYLE}</style>\n'
        + "\n".join(pieces)
        + "\n</svg>\n"
    )


def _bars(figure: Figure, case: str, column: str) -> list[tuple[str, float]]:
    found = [(row.contestant, row.median(column)) for row in figure.rows if row.case == case]
    return [(name, value) for name, value in found if value is not None and name not in _LEFT_OUT]


def _length(value: float, values: list[float], *, logarithmic: bool) -> float:
    room = _WIDTH - 2 * _MARGIN - _LABEL - _VALUE
    if not logarithmic:
        return room * value / max(values)
    # It begins at half of the least, so that the shortest bar can be seen.
    least = min(values) / 2
    return room * math.log(value / least) / math.log(max(values) / least)


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


def _text(x: float, y: float, text: str, kind: str, *, anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'
