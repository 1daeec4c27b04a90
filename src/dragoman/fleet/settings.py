"""What a node needs of the configuration to join its fleet. `config.FleetConfig` has it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

__all__ = ["FleetSettings"]


class FleetSettings(Protocol):
    @property
    def urls(self) -> tuple[str, ...]: ...

    @property
    def credentials(self) -> Path | None:
        """A file, or a folder with one for each node."""
        ...

    @property
    def tls_ca(self) -> Path | None: ...

    @property
    def name(self) -> str | None: ...
