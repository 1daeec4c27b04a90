"""The clients of the matrix, from `clients.toml`, and their versions, from the pins."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

import msgspec

__all__ = ["PINS", "ROWS", "Row", "version"]

PINS = Path(__file__).with_name("pins")
_AGENTS = Path(__file__).parents[1] / "agents" / "pins"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    package: str
    runner: Literal["python", "older", "node", "llm", "aider", "codex", "opencode"]
    id: str = ""
    structured: tuple[str, ...] = ()
    # Why each turn is a new session of the agent, which gets a transcript.
    retells: str = ""
    cannot: dict[str, str] = {}


def _rows() -> dict[str, Row]:
    text = Path(__file__).with_name("clients.toml").read_bytes()
    found = msgspec.toml.decode(text, type=dict[str, Row])
    return {id_: msgspec.structs.replace(row, id=id_) for id_, row in found.items()}


ROWS = _rows()


def version(row: Row) -> str:
    """The version that is installed."""
    if row.runner in ("node", "codex", "opencode"):
        folder = PINS if row.runner == "node" else _AGENTS
        lock = json.loads((folder / row.runner / "package-lock.json").read_text())
        return str(lock["packages"][f"node_modules/{row.package}"]["version"])
    environment = "python" if row.runner == "llm" else row.runner
    pins = (PINS / f"{environment}.txt").read_text()
    [found] = re.findall(rf"^{re.escape(row.package)}==(\S+)", pins, re.MULTILINE)
    return str(found)
