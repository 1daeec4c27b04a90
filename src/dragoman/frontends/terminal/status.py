"""The line below the prompt: the mode, the model, what the model reported of its usage, and the folder.

Where the terminal is too narrow for all of it, the least important goes first. The mode and the model always stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from dragoman.frontends.terminal.steps import cost_in_words
from dragoman.lm import UsagePart

__all__ = ["ACCEPTING", "StatusPart", "status_parts", "usage_in_short"]

ACCEPTING = "accepting edits (Shift-Tab)"
_SEPARATOR = " · "
_THOUSAND = 1_000
_MILLION = 1_000_000
# From here on, tenths say nothing.
_TENS = 10


@dataclass(frozen=True, slots=True)
class StatusPart:
    """One part of the line. `kind` selects its style."""

    kind: str
    text: str
    # The least important part has the highest number. Those with 0 always stay.
    goes: int = 0


def status_parts(
    width: int, *, model: str, folder: str, usage: UsagePart | None, accepts_edits: bool
) -> Sequence[StatusPart]:
    """The parts that fit, in their order."""
    parts = [
        *([StatusPart("mode", ACCEPTING)] if accepts_edits else []),
        StatusPart("model", model),
        *(usage_in_short(usage) if usage is not None else ()),
        StatusPart("folder", folder, 4),
        StatusPart("help", "/help", 5),
    ]
    while _width(parts) > width and (least := max(parts, key=lambda part: part.goes)).goes:
        parts.remove(least)
    return parts


def usage_in_short(usage: UsagePart) -> Sequence[StatusPart]:
    """Context, cost and tokens, as far as the model reported them."""
    parts: list[StatusPart] = []
    if usage.context_used is not None and usage.context_size:
        share = f"{usage.context_used / usage.context_size:.0%}"
        parts.append(StatusPart("usage", f"context {share} of {_count(usage.context_size)}", 1))
    elif usage.context_used is not None:
        parts.append(StatusPart("usage", f"context {_count(usage.context_used)}", 1))
    tokens = [
        f"{_count(number)} {way}"
        for number, way in ((usage.input, "in"), (usage.output, "out"))
        if number is not None
    ]
    if tokens:
        parts.append(StatusPart("usage", f"{', '.join(tokens)}", 3))
    if usage.cost is not None:
        parts.append(StatusPart("usage", cost_in_words(usage), 2))
    return parts


def _count(number: int) -> str:
    """A number of tokens in at most five characters: 950, 1.2k, 24k, 1.5M."""
    for unit, name in ((_MILLION, "M"), (_THOUSAND, "k")):
        # 999,600 is a million, not a thousand thousands.
        if number >= unit - unit // 2_000:
            size = number / unit
            text = f"{size:.1f}".removesuffix(".0") if size < _TENS else f"{size:.0f}"
            return f"{text}{name}"
    return str(number)


def _width(parts: Sequence[StatusPart]) -> int:
    return sum(cell_len(part.text) for part in parts) + len(_SEPARATOR) * (len(parts) - 1)
