"""How fast the demo goes."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["DEFAULT_PACE", "PACES", "Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    name: str
    # How many times as fast as the script says.
    speed: float


DEFAULT_PACE = "natural"
PACES = {
    DEFAULT_PACE: Pace("As one reads", 1.0),
    "fast": Pace("Four times as fast", 4.0),
    "instant": Pace("Without waiting", math.inf),
}
