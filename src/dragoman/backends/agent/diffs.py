"""What changes in a file, in as many lines as a person reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from dragoman.backends.agent.acp.messages import Diff

__all__ = ["unified"]

# Lines that stay the same, for orientation.
_CONTEXT = 3
# Matching takes time that grows with the square of this. Beyond it the old lines are shown, then the new.
_MATCHED_LINES = 2_000
# Minified files have lines of megabytes.
_LINE_CHARACTERS = 400


def unified(diff: Diff, limit: int) -> str:
    """At most so many lines; the rest is counted. No file names: those are shown where they cannot pass for lines."""
    lines = list(_lines((diff.old_text or "").splitlines(), diff.new_text.splitlines()))
    shown = [
        line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]}…" for line in lines[:limit]
    ]
    if len(lines) > limit:
        shown.append(f"… {len(lines) - limit} more lines")
    return "\n".join(shown)


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    head = _same(before, after)
    tail = _same(before[head:][::-1], after[head:][::-1])
    if len(before) + len(after) - 2 * (head + tail) > _MATCHED_LINES:
        yield _header(head, head)
        yield from (f"-{line}" for line in before[head : len(before) - tail])
        yield from (f"+{line}" for line in after[head : len(after) - tail])
        return
    start = max(head - _CONTEXT, 0)
    a, b = before[start : len(before) - tail + _CONTEXT], after[start : len(after) - tail + _CONTEXT]
    for group in SequenceMatcher(None, a, b).get_grouped_opcodes(_CONTEXT):
        yield _header(start + group[0][1], start + group[0][3])
        for tag, a_from, a_to, b_from, b_to in group:
            if tag == "equal":
                yield from (f" {line}" for line in a[a_from:a_to])
            else:
                yield from (f"-{line}" for line in a[a_from:a_to])
                yield from (f"+{line}" for line in b[b_from:b_to])


def _same(before: Sequence[str], after: Sequence[str]) -> int:
    """With how many lines in common they begin."""
    length = min(len(before), len(after))
    return next((n for n in range(length) if before[n] != after[n]), length)


def _header(before: int, after: int) -> str:
    return f"@@ -{before + 1} +{after + 1} @@"
