"""The process that searches: takes an order on its command line, prints what it finds, line by line, and ends.

Run as `python -P -m dragoman.tools.builtin.searcher '{"query": …}'`. Every line is written as it is found, so that
what was found is there when the time is over.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dragoman.globs import Glob, GlobError
from dragoman.permissions.sensitive import Places
from dragoman.tools.builtin.tree import Walk, few
from dragoman.tools.builtin.workspace import (
    TooLarge,
    Workspace,
    WorkspaceError,
    WorkspacePath,
    explained,
    is_binary,
)

__all__ = [
    "EXCERPT",
    "MAX_FILE_BYTES",
    "MAX_MATCHES",
    "MAX_OUTPUT",
    "MAX_PATTERN_LENGTH",
    "UNUSABLE",
    "Order",
    "main",
    "search",
]

MAX_MATCHES = 1_000
MAX_PATTERN_LENGTH = 1_000
# Source files are far smaller. Larger ones are left out, and counted.
MAX_FILE_BYTES = 5 * 1024 * 1024
# How much of a line is shown around what was found in it.
EXCERPT = 300

# Together: what a model can be asked to read.
MAX_OUTPUT = 100_000

# The exit status that says: what was printed is why the order cannot be carried out.
UNUSABLE = 2


@dataclass(frozen=True, slots=True)
class Order:
    folders: list[str]
    query: str
    is_regex: bool
    ignore_case: bool
    path: str
    glob: str
    max_results: int


def search(order: Order) -> Iterator[str]:
    """The lines found, then notes on what was left out."""
    top = Workspace.of(order.folders).place(order.path)
    walk = Walk(top, Glob(order.glob))
    pattern = re.compile(
        order.query if order.is_regex else re.escape(order.query), re.IGNORECASE if order.ignore_case else 0
    )
    found, shown = 0, 0
    too_large: list[str] = []
    secret: list[str] = []
    places = [top] if top.path.is_file() else _open(walk, Places(tuple(order.folders)), secret)
    for line in _found_in(places, pattern, too_large):
        if found == order.max_results or shown + len(line) > MAX_OUTPUT:
            yield f"[There are more. Narrow the search, or ask for up to {MAX_MATCHES:,} results.]"
            break
        found += 1
        shown += len(line)
        yield line
    if not found:
        yield "Nothing was found."
    if secret:
        yield f"[Not searched, because they may hold secrets: {few(secret)}. Name one as the path to search it.]"
    if too_large:
        yield f"[Left out, being larger than {MAX_FILE_BYTES:,} bytes: {few(too_large)}.]"
    yield from (f"[{notice}]" for notice in walk.notices())


def _open(walk: Walk, around: Places, secret: list[str]) -> Iterator[WorkspacePath]:
    """The files of a walk, without those that may hold secrets: each of them needs an approval by name."""
    for entry in walk:
        if entry.is_folder:
            continue
        if around.why_reading(str(entry.place.path)) is None:
            yield entry.place
        else:
            secret.append(entry.place.label)


def _found_in(
    places: Iterable[WorkspacePath], pattern: re.Pattern[str], too_large: list[str]
) -> Iterator[str]:
    for place in places:
        try:
            data = place.read(MAX_FILE_BYTES)
        except TooLarge:
            too_large.append(place.label)
            continue
        except (OSError, WorkspaceError):
            # A link, a socket, a file that has just gone or is not ours to read: nothing to search.
            continue
        if is_binary(data):
            continue
        for number, line in enumerate(data.decode(errors="replace").split("\n"), start=1):
            match = pattern.search(line)
            if match is not None:
                yield f"{place.label}:{number}: {_excerpt(line, match.start())}"


def _excerpt(line: str, position: int) -> str:
    line = line.removesuffix("\r")
    if len(line) <= EXCERPT:
        return line
    start = max(0, position - EXCERPT // 2)
    end = start + EXCERPT
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def main(text: str, write: Callable[[str], None]) -> int:
    order = Order(**json.loads(text))
    try:
        for line in search(order):
            write(line)
    except OSError as error:
        write(explained(error, order.path))
    except (re.error, OverflowError, RecursionError) as error:
        write(f"The regular expression cannot be used: {error}.")
    except (GlobError, WorkspaceError) as error:
        write(str(error))
    else:
        return 0
    return UNUSABLE


def _print(line: str) -> None:
    sys.stdout.buffer.write(f"{line}\n".encode())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], _print))
