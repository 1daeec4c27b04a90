"""What `dragoman doctor` has found: a line, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragoman.logs import one_line

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    level: Literal["ok", "warn", "fail"]
    what: str
    # What to do about it; empty when there is nothing to do.
    next_step: str = ""

    def __str__(self) -> str:
        lines = [f"{self.level:<5} {one_line(self.what)}"]
        lines += [f"      → {one_line(line)}" for line in self.next_step.splitlines()]
        return "\n".join(lines)
