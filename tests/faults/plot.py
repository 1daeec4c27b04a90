"""A line over time, as an SVG that reads on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["drawn", "slope"]

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 40, 36
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#777}.t{font-size:14px;fill:#888;font-weight:600}"
    ".g{stroke:#8884;stroke-width:1}.l{fill:none;stroke:#2f81f7;stroke-width:1.5}.r{fill:none;stroke:#2f81f788;stroke-width:1}"
    ".s{stroke:#d97706;stroke-width:1.5;stroke-dasharray:6 4}.w{fill:#8881}"
)


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """By least squares: how much a unit of time adds, and where it begins."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    return rise, mean_y - rise * mean_x


def drawn(title: str, points: Sequence[tuple[float, float, float]], warm: float) -> str:
    """Minutes, megabytes, and how many of these do not count. Before `warm` none do; behind it the trend is drawn."""
    last = max(x for x, _, _ in points)
    top = max(y for _, y, _ in points) * 1.15

    def at(x: float, y: float) -> str:
        across = _LEFT + (_WIDTH - _LEFT - _RIGHT) * x / last
        down = _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * y / top
        return f"{across:.1f},{down:.1f}"

    step = max(10 * round(top / 50), 10)
    grid = []
    for value in range(0, int(top) + 1, step):
        (left, down), (end, _) = at(0, value).split(","), at(last, value).split(",")
        grid.append(f'<line class="g" x1="{left}" y1="{down}" x2="{end}" y2="{down}"/>')
        grid.append(
            f'<text x="{_LEFT - 8}" y="{down}" text-anchor="end" dominant-baseline="middle">{value}</text>'
        )
    ticks = []
    for minute in range(int(last) + 1):
        across = at(minute, 0).split(",")[0]
        ticks.append(f'<text x="{across}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{minute}</text>')
    rise, begin = slope([(x, y - other) for x, y, other in points if x >= warm])
    (x1, y1), (x2, y2) = (at(x, begin + rise * x).split(",") for x in (warm, last))
    line = " ".join(at(x, y) for x, y, _ in points)
    rest = " ".join(at(x, y - other) for x, y, other in points)
    edge = float(at(warm, 0).split(",")[0])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect class="w" x="{_LEFT}" y="{_TOP}" width="{edge - _LEFT:.1f}" height="{_HEIGHT - _TOP - _BOTTOM}"/>'
        f'<text class="t" x="{_LEFT}" y="24">{title}</text>{"".join(grid)}{"".join(ticks)}'
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" text-anchor="end">minutes</text>'
        f'<text x="8" y="{_TOP - 8}">MB</text><polyline class="l" points="{line}"/>'
        f'<polyline class="r" points="{rest}"/>'
        f'<line class="s" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/></svg>\n'
    )
