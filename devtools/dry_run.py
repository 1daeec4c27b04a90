"""Plays the tour of the demo agent with a journal, and applies rules to it: the dry runs in docs/policy.md.

    python -m devtools.dry_run [RULES]

Without a file of rules, the starter set.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from dragoman.cli import main
from dragoman.clock import SystemClock
from dragoman.demo.show import play_tour
from dragoman.frontends.terminal.screen import Screen
from dragoman.policy.starter import starter_text

__all__ = ["over_the_tour"]


def over_the_tour(rules: str) -> str:
    """What `dragoman policy test` prints for these rules and the journal of the tour."""
    with tempfile.TemporaryDirectory() as folder:
        state, file = Path(folder) / "state", Path(folder) / "dragoman.toml"
        file.write_text(rules, "utf-8")
        screen = Screen(Console(file=io.StringIO()))
        asyncio.run(play_tour(screen, SystemClock(), pace="instant", state_dir=state))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            main(["policy", "test", "--config", str(file), "--state-dir", str(state)])
    return said.getvalue().replace(str(file), "dragoman.toml")


if __name__ == "__main__":
    given = Path(sys.argv[1]).read_text("utf-8") if len(sys.argv) > 1 else starter_text()
    sys.stdout.write(over_the_tour(given))
