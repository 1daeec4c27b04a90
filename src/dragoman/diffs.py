"""Unified diffs: made from two texts, read again file by file, and shortened for a person.

The user must see every change: so a line ends only at a line feed, as it does for the programs that read the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

from dragoman.visible import visible_exactly

__all__ = [
    "MATCHED_LINES",
    "Comparison",
    "FileDiff",
    "changed_lines",
    "compared",
    "file_diff",
    "files_of",
    "shortened",
]

# The path of a file, and the lines below its header.
FileDiff: TypeAlias = tuple[str, tuple[str, ...]]

# Lines that stay the same, for orientation.
_CONTEXT = 3
# Matching takes time that grows with the square of this. Beyond it the old lines are shown, then the new.
MATCHED_LINES = 2_000
# Minified files have lines of megabytes.
_LINE_CHARACTERS = 400
_NO_FILE = "/dev/null"
_LINE_END = re.compile(r"\r\n|\r|\n")
_HUNK = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sequences of lines, which may have their line ends: `start` is how many they have in common at the beginning."""

    before: Sequence[str]
    after: Sequence[str]
    start: int
    removed: Sequence[str]
    added: Sequence[str]

    @property
    def is_large(self) -> bool:
        """Too many lines differ to be matched one by one."""
        return len(self.removed) + len(self.added) > MATCHED_LINES

    def lines(self, end: str = "") -> Iterator[str]:
        """As a unified diff without file names; `end` follows the line above each hunk."""
        head, removed, added = self.start, len(self.removed), len(self.added)
        if self.is_large:
            yield _header(head, removed, head, added) + end
            yield from (f"-{line}" for line in self.removed)
            yield from (f"+{line}" for line in self.added)
            return
        start = max(head - _CONTEXT, 0)
        a = self.before[start : head + removed + _CONTEXT]
        b = self.after[start : head + added + _CONTEXT]
        for group in SequenceMatcher(None, a, b).get_grouped_opcodes(_CONTEXT):
            (_, a_first, _, b_first, _), (_, _, a_last, _, b_last) = group[0], group[-1]
            yield _header(start + a_first, a_last - a_first, start + b_first, b_last - b_first) + end
            for tag, a_from, a_to, b_from, b_to in group:
                if tag == "equal":
                    yield from (f" {line}" for line in a[a_from:a_to])
                else:
                    yield from (f"-{line}" for line in a[a_from:a_to])
                    yield from (f"+{line}" for line in b[b_from:b_to])


def compared(before: Sequence[str], after: Sequence[str]) -> Comparison:
    head = _same(before, after)
    tail = _same(before[head:][::-1], after[head:][::-1])
    return Comparison(before, after, head, before[head : len(before) - tail], after[head : len(after) - tail])


def changed_lines(old: str | None, new: str) -> list[str]:
    """The change as a unified diff without file names. No lines: nothing changes, or the new file is empty."""
    return list(compared(*_split(old or "", new)).lines())


def file_diff(path: str, old: str | None, new: str) -> str:
    """The change to one file with its header. Those of several files, one line below the other, are one diff."""
    name = _LINE_END.sub(" ", path)
    header = (f"--- {_NO_FILE if old is None else name}", f"+++ {name}")
    return "\n".join((*header, *changed_lines(old, new)))


def files_of(diff: str) -> Iterator[FileDiff]:
    """The path of each file in a unified diff, and the lines below its header."""
    path, lines = "", list[str]()
    # How many lines of each side the hunk still has: a removed line may look like a header.
    removed = added = 0
    for line in diff.removesuffix("\n").split("\n"):
        if removed > 0 or added > 0:
            removed -= line[:1] in ("-", " ", "")
            added -= line[:1] in ("+", " ", "")
        elif line.startswith("--- "):
            if path or lines:
                yield path, tuple(lines)
            path, lines = line[4:], []
            continue
        elif line.startswith("+++ "):
            path = path if line[4:] == _NO_FILE else line[4:]
            continue
        elif hunk := _HUNK.match(line):
            removed, added = (int(count or 1) for count in hunk.groups())
        lines.append(line)
    yield path, tuple(lines)


def shortened(lines: Sequence[str], limit: int) -> str:
    """At most so many lines, as a person reads them; the rest is counted."""
    shown = [visible_exactly(_cut(line)) for line in lines[:limit]]
    if len(lines) > limit:
        shown.append(f"… {len(lines) - limit} more lines")
    return "\n".join(shown)


def _split(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines of each. Where only one ends with a line feed, the other has an empty line less."""
    if all(text.count("\n") == text.count("\r\n") for text in (before, after)):
        # As the whole file has them; anywhere else a carriage return is shown.
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    old, new = (text.split("\n") if text else [] for text in (before, after))
    if old[-1:] in ([], [""]) and new[-1:] in ([], [""]):
        old, new = old[:-1], new[:-1]
    return old, new


def _cut(line: str) -> str:
    if len(line) <= _LINE_CHARACTERS:
        return line
    return f"{line[:_LINE_CHARACTERS]}… {len(line) - _LINE_CHARACTERS} more characters"


def _same(before: Sequence[str], after: Sequence[str]) -> int:
    """With how many lines in common they begin."""
    length = min(len(before), len(after))
    return next((n for n in range(length) if before[n] != after[n]), length)


def _header(before: int, removed: int, after: int, added: int) -> str:
    return f"@@ -{_range(before, removed)} +{_range(after, added)} @@"


def _range(place: int, count: int) -> str:
    """As in every unified diff: a single line goes without its count, and no line at all is said to follow another."""
    return f"{place + 1}" if count == 1 else f"{place + (count > 0)},{count}"
