"""What real agents sent, one of each form that each of them uses. Folders are replaced by `/WS` and the like."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["INITIALIZED", "PERMISSIONS", "UPDATES", "Recorded"]

_DATA = Path(__file__).parent / "data"


class Recorded(msgspec.Struct, frozen=True, rename={"source": "from"}):
    # The agent and the scenario it was recorded in.
    source: str
    params: JsonObject = {}
    result: JsonObject = {}

    @property
    def agent(self) -> str:
        return self.source.partition("-")[0]

    @property
    def data(self) -> bytes:
        return encode(self.params or self.result)


def _read(name: str) -> tuple[Recorded, ...]:
    lines = (_DATA / f"{name}.jsonl").read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=Recorded) for line in lines)


UPDATES = _read("updates")
PERMISSIONS = _read("permissions")
INITIALIZED = _read("initialized")
