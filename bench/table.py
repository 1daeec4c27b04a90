"""A figure as a table: plain for a terminal, Markdown for a document."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Column, Figure, Goal, Row

__all__ = ["markdown_of", "text_of"]

_MARKS = {"reached": "✓", "not reached": "✗", "not measured": "?"}


def text_of(figure: Figure) -> str:
    lines = [("", "", *(column.title for column in figure.columns))]
    lines += [(row.case, row.contestant, *_cells(row, figure.columns)) for row in figure.rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    told = [figure.title]
    for line, row in zip(lines, (None, *figure.rows), strict=True):
        left = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        told.append(
            "  ".join(("  " + left[0], left[1], *right)).rstrip()
            if not row or not row.note
            else _noted(left, row)
        )
    return "\n".join((*told, *(f"  {told}" for told in map(goal_text, figure.goals)), ""))


def _noted(left: list[str], row: Row) -> str:
    return f"  {left[0]}  {left[1]}  {row.note}"


def markdown_of(figure: Figure) -> str:
    return "\n".join(_markdown(figure))


def _markdown(figure: Figure) -> Iterator[str]:
    yield f"### {figure.title}\n"
    if figure.measured:
        yield f"Measured {figure.measured}.\n"
    yield f"| | | {' | '.join(column.title for column in figure.columns)} |"
    yield f"|---|---|{'---:|' * len(figure.columns)}"
    for row in figure.rows:
        cells = [row.note, *[""] * (len(figure.columns) - 1)] if row.note else _cells(row, figure.columns)
        name = f"**{row.contestant}**" if row.contestant == "dragoman" else row.contestant
        yield f"| {row.case} | {name} | {' | '.join(cells)} |"
    yield ""
    for goal in figure.goals:
        yield f"- {goal_text(goal)}"
    if figure.goals:
        yield ""


def goal_text(goal: Goal) -> str:
    mark = _MARKS[goal.verdict]
    if goal.value is None or goal.limit is None:
        return f"{mark} {goal.sentence}: not measured"
    return f"{mark} {goal.sentence}: {_number(goal.value)} {goal.unit} ({goal.sense} {_number(goal.limit)})"


def _number(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


def _cells(row: Row, columns: tuple[Column, ...]) -> list[str]:
    values = [(column, row.median(column.name)) for column in columns]
    return ["–" if value is None else f"{value:,.{column.digits}f}" for column, value in values]
