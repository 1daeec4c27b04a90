"""The settings of a run."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["LoopSettings", "OnDenial"]

# skip-rest: after a denial nothing else of that answer is asked about or run. ask-each: every call has its own question.
OnDenial: TypeAlias = Literal["skip-rest", "ask-each"]


class LoopSettings(msgspec.Struct, frozen=True):
    # How often the model may answer before the run ends.
    turns: int = 50
    on_denial: OnDenial = "skip-rest"
    # How long the user may take to decide. A lunch, not a holiday.
    deadline_seconds: float = 240 * 60.0
    # How often a transient failure of the model is tried again, and how long to wait: 1 s, 2 s, 4 s … to the most.
    retries: int = 3
    backoff_seconds: float = 1.0
    backoff_most_seconds: float = 16.0
    # How long a tool that was cancelled may take to stop before it is abandoned.
    cancel_grace_seconds: float = 10.0
