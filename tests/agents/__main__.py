"""All rows of the matrix, side by side: `make test-agents`. And the document that tells of them: `make agents-table`.

An agent's scenarios share its processes, so each row is a pytest of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from agents import document, install
from agents.rows import ROWS
from agents.running import JOURNALS
from agents.table import Table

_MATRIX = Path(__file__).with_name("matrix.py")
_ROOT = _MATRIX.parents[2]
# What takes longest begins first.
_LONGEST = ("opencode", "qwen")


async def _row(name: str, folder: Path, turn: asyncio.Semaphore, more: list[str]) -> bool:
    """Whether it went well. What pytest has to say of it is shown when it has not."""
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--agent", name, "--table", str(folder / name))
    async with turn:
        print(f"{name} ...", flush=True)
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            str(_MATRIX),
            *more,
            cwd=_ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
    lines = said.decode(errors="replace").rstrip()
    shown = lines if process.returncode else lines.rpartition("\n")[2]
    print(f"{name}, {time.monotonic() - began:.0f} s: {shown}", flush=True)
    return process.returncode == 0


async def _install(names: list[str]) -> None:
    """Ahead of the rows that wait for their turn. What goes wrong here, the row itself will say."""
    for name in names:
        with suppress(Exception):
            await asyncio.to_thread(ROWS[name].installed)


async def _run(names: list[str], jobs: int, more: list[str]) -> int:
    turn = asyncio.Semaphore(jobs)
    with TemporaryDirectory() as folder:
        rows = (_row(name, Path(folder), turn, more) for name in names)
        went, _ = await asyncio.gather(asyncio.gather(*rows), _install(names))
        table = Table()
        for name in names:
            written = Path(folder) / name
            if written.exists():
                table.add(json.loads(written.read_text()))
    print(f"\n{table.as_text()}" if table.cells else "no row has run")
    if all(went) and set(names) == set(ROWS) and not more:
        install.cache().mkdir(parents=True, exist_ok=True)
        _last().write_text(json.dumps(table.as_json(), indent=1) + "\n")
    return 0 if all(went) else 1


def _last() -> Path:
    """What the last complete run found."""
    return install.cache() / "table.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="agents", description=__doc__)
    parser.add_argument("agent", nargs="*", help=f"of {', '.join(ROWS)}; all, if none is named")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument(
        "--document", action="store_true", help="write docs/agents.md from the last complete run"
    )
    parser.add_argument("-k", help="only these scenarios, as pytest has it")
    parser.add_argument("--journals", type=Path, help="keep the journals of the rows in this folder")
    arguments = parser.parse_args()
    if arguments.journals is not None:
        os.environ[JOURNALS] = str(arguments.journals.absolute())
    if unknown := set(arguments.agent) - set(ROWS):
        parser.error(f"there is no row for {', '.join(sorted(unknown))}")
    if arguments.document:
        sys.exit(document.write(_ROOT / "docs" / "agents.md", _last()))
    names = sorted(arguments.agent or ROWS, key=lambda name: (name not in _LONGEST, name))
    sys.exit(asyncio.run(_run(names, arguments.jobs, ["-k", arguments.k] if arguments.k else [])))


if __name__ == "__main__":
    main()
