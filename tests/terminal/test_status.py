"""The line below the prompt: what is in it, and what goes first where it does not fit."""

import pytest
from rich.cells import cell_len

from dragoman.frontends.terminal.status import status_parts, usage_in_short
from dragoman.lm import UsagePart

_USAGE = UsagePart(12_345, 678, context_used=24_000, context_size=200_000, cost=0.0321, currency="USD")


def _line(width: int, *, usage: UsagePart | None = _USAGE, accepts_edits: bool = False) -> str:
    parts = status_parts(
        width, model="Claude Code", folder="~/src/日本", usage=usage, accepts_edits=accepts_edits
    )
    return " · ".join(part.text for part in parts)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, "Claude Code · context 12% of 200k · 12k in, 678 out · 0.03 USD · ~/src/日本 · /help"),
        (80, "Claude Code · context 12% of 200k · 12k in, 678 out · 0.03 USD · ~/src/日本"),
        (65, "Claude Code · context 12% of 200k · 12k in, 678 out · 0.03 USD"),
        (60, "Claude Code · context 12% of 200k · 0.03 USD"),
        (40, "Claude Code · context 12% of 200k"),
        (5, "Claude Code"),
    ],
)
def test_the_least_important_goes_first(width: int, line: str) -> None:
    assert _line(width) == line


def test_the_mode_stays_at_any_width() -> None:
    assert _line(10, accepts_edits=True) == "accepting edits (Shift-Tab) · Claude Code"
    assert all(cell_len(_line(width)) <= width for width in range(11, 120))


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (UsagePart(), []),
        (UsagePart(context_used=999), ["context 999"]),
        (UsagePart(context_used=5, context_size=0), ["context 5"]),
        (UsagePart(input=999_960), ["1M in"]),
        (UsagePart(input=1_000, output=0), ["1k in, 0 out"]),
        (UsagePart(output=9_960), ["10k out"]),
        (UsagePart(output=1_234_567), ["1.2M out"]),
        (UsagePart(cost=0.0), ["0.00"]),
        (UsagePart(cost=0.0012, currency="EUR"), ["0.0012 EUR"]),
    ],
)
def test_only_what_the_model_reported_is_shown(usage: UsagePart, shown: list[str]) -> None:
    assert [part.text for part in usage_in_short(usage)] == shown


def test_without_a_report_nothing_is_said_of_usage() -> None:
    assert _line(200, usage=None) == "Claude Code · ~/src/日本 · /help"
