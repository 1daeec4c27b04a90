"""What the consumer's program says beside the user, told to an agent once.

A consumer has no memory of what its model was told: it sends all of its instructions with every request, many kilobytes
for one date that is another today. An agent has a session, which remembers. So all of it is told to a session that is
new; after that what is new or has changed, with what it stands in the place of, as far as that can be seen.

A text is compared in *blocks*: elements (`<editorContext>…</editorContext>`), paragraphs, and the lines of what is long.
Only how often a block stands in it counts, and what it stands behind. One that has moved is no news.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

__all__ = ["blocks", "news", "sections"]

_CHANGED = "What it told you before still holds, but for the following. A section replaces the earlier one of the same name."
_REPLACED = "It tells you this now, instead of everything that it told you before."
_OPENS = re.compile(r"<[A-Za-z]")
_CLOSES = re.compile(r"</[A-Za-z]")
# A block with more characters is compared by its lines. Most sections of an editor's instructions have fewer.
_LONG = 1_000
# Lines with fewer stand with the next ones: a bracket or a fence means nothing by itself.
_SHORT = 40
# Of what is taken back, enough to know it by.
_QUOTED = 200


def news(told: str, now: str) -> str:
    """What an agent that was told the one must hear to know the other. Empty: nothing."""
    if not told or not now or told == now:
        return now if not told else ""
    old, new = blocks(told), blocks(now)
    gone, come = _runs(old, Counter(new)), _runs(new, Counter(old))
    changes = [_change(gone.pop(behind, []), run) for behind, run in come.items()]
    changes += [_change(run, []) for run in gone.values()]
    if not changes:
        return ""
    changed = "\n\n".join([_CHANGED, *changes])
    return changed if len(changed) < len(now) else f"{_REPLACED}\n\n{now}"


def _runs(text: Sequence[str], known: Counter[str]) -> dict[tuple[str, int], list[str]]:
    """What is not known of it, by the known block that it stands behind."""
    runs: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    seen: Counter[str] = Counter()
    behind = ("", 0)
    for block in text:
        seen[block] += 1
        if seen[block] <= known[block]:
            behind = (block, seen[block])
        else:
            runs[behind].append(block)
    return runs


def _change(gone: Sequence[str], come: Sequence[str]) -> str:
    quoted = "\n".join(f"> {line}" for block in gone for line in _shortened(block).split("\n"))
    if not gone:
        return "\n\n".join(come)
    if not come:
        return f"No longer:\n\n{quoted}"
    return "\n\n".join([f"Instead of:\n\n{quoted}\n\nnow:", *come])


def _shortened(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def sections(text: str) -> Iterator[str]:
    """All that is said, by paragraphs; an element is one, if it has none in it."""
    lines: list[str] = []
    for line in text.split("\n"):
        if lines and (not line.strip() or _OPENS.match(line)):
            yield "\n".join(lines)
            lines = []
        if line.strip():
            lines.append(line)
        if _CLOSES.match(line):
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def blocks(text: str) -> tuple[str, ...]:
    """All that is said, by what is compared."""
    return tuple(
        block
        for section in sections(text)
        for block in ((section,) if len(section) <= _LONG else _by_lines(section))
    )


def _by_lines(section: str) -> Iterator[str]:
    piece = ""
    for line in section.split("\n"):
        piece = f"{piece}\n{line}" if piece else line
        if len(piece) >= _SHORT:
            yield piece
            piece = ""
    if piece:
        yield piece
