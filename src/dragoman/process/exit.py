"""How a process ended."""

from __future__ import annotations

import signal as signals

import msgspec

__all__ = ["Exit"]


class Exit(msgspec.Struct, frozen=True):
    """How a process ended: by an exit code or a signal. Neither is known if the supervisor was killed first."""

    code: int | None = None
    signal: int | None = None

    @property
    def succeeded(self) -> bool:
        return self.code == 0

    def __str__(self) -> str:
        if self.code is not None:
            return f"exited with code {self.code}"
        if self.signal is None:
            return "ended in an unknown way"
        try:
            name = signals.Signals(self.signal).name
        except ValueError:
            # Real-time signals have numbers only.
            name = f"signal {self.signal}"
        return f"was ended by {name}"
