"""All clients in all scenarios: `make test-clients`. And the document that tells of them: `make clients-table`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from clients import document, install
from clients.rows import ROWS

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
# Each part is a pytest of its own, with servers of its own: one core for each, and about the same time.
_PARTS = {
    "libraries for Python, aider": ("python", "older", "aider"),
    "libraries for JavaScript, other programs": ("node", "llm", "codex", "opencode"),
}


async def _part(title: str, files: list[str], more: list[str]) -> bool:
    """Whether it went well. What pytest has to say is shown when it has not."""
    began = time.monotonic()
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, *more)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
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
    print(f"{title}, {time.monotonic() - began:.0f} s: {shown}", flush=True)
    return process.returncode == 0


async def _run(names: list[str], more: list[str]) -> int:
    parts = []
    for title, runners in _PARTS.items():
        rows = [name for name in names if ROWS[name].runner in runners]
        if rows:
            parts.append(_part(title, [str(_HERE / "matrix.py")], ["--clients", ",".join(rows), *more]))
    if len(names) == len(ROWS):
        parts.append(_part("recipes of docs/http.md", [str(_HERE / "recipes.py")], more))
    return 0 if all(await asyncio.gather(*parts)) else 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="clients", description=__doc__)
    parser.add_argument("client", nargs="*", help=f"of {', '.join(ROWS)}; all, if none is named")
    parser.add_argument("--document", action="store_true", help="write docs/clients.md")
    parser.add_argument("-k", help="only these scenarios, as pytest has it")
    arguments = parser.parse_args()
    if unknown := set(arguments.client) - set(ROWS):
        parser.error(f"there is no client {', '.join(sorted(unknown))}")
    if arguments.document:
        sys.exit(document.write(_ROOT / "docs" / "clients.md"))
    install.prepare()
    more = ["-k", arguments.k] if arguments.k else []
    sys.exit(asyncio.run(_run(arguments.client or list(ROWS), more)))


if __name__ == "__main__":
    main()
