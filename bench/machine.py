"""Where and when a run was, and what was compared: figures mean nothing without it."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

__all__ = ["Surroundings", "surroundings"]

_PINS = Path(__file__).parent / "pins"


class Surroundings(msgspec.Struct, frozen=True):
    date: str
    processor: str
    cores: int
    memory_gb: int
    system: str
    python: str
    # How busy the machine was when it began, in processes that wanted to run.
    load: float
    versions: dict[str, str]

    @property
    def sentence(self) -> str:
        return (
            f"{self.date}, {self.cores} cores of {self.processor}, {self.memory_gb} GB, {self.system}, "
            f"Python {self.python}; load {self.load:.1f} when it began"
        )


def surroundings() -> Surroundings:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Surroundings(
        datetime.now(UTC).date().isoformat(),
        _processor(),
        len(os.sched_getaffinity(0)),
        round(pages / 1e9),
        f"{platform.system()} {platform.release().partition('-')[0]}",
        platform.python_version(),
        os.getloadavg()[0],
        _versions(),
    )


def _processor() -> str:
    named = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return named[1].strip() if named else platform.machine()


def _versions() -> dict[str, str]:
    ours = ("dragoman", "msgspec", "uvloop", "uvicorn", "starlette", "mcp", "agent-client-protocol")
    found = {name: version(name) for name in ours}
    litellm = re.search(r"^litellm==(\S+)", (_PINS / "litellm.txt").read_text(), re.MULTILINE)
    lock = msgspec.json.decode((_PINS / "acp2api" / "package.json").read_bytes())
    return {**found, "litellm": litellm[1] if litellm else "", "acp2api": lock["dependencies"]["acp2api"]}
