"""A finding of `dragoman doctor`: a line, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragoman.cli.layout import filled
from dragoman.logs import one_line

__all__ = ["Finding"]

_BELOW = " " * len("fail  ")


@dataclass(frozen=True, slots=True)
class Finding:
    level: Literal["ok", "warn", "fail"]
    what: str
    # What to do about it; empty when there is nothing to do.
    next_step: str = ""

    def laid_out(self, width: int) -> str:
        lines = filled(one_line(self.what), width, _BELOW, f"{self.level:<{len(_BELOW)}}")
        for step in self.next_step.splitlines():
            lines += filled(one_line(step), width, f"{_BELOW}  ", f"{_BELOW}→ ")
        return "\n".join(lines)
