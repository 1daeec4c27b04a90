"""The diff that the user sees before a file is written, and how much of it is missing.

Where everything fits, everything is shown. Where it does not, long lines lose their middle first, then the whole loses
lines from its middle. Each gap says how large it is, and the end says how much is missing altogether. A gap of lines
stands on a line that no content can imitate: every line of content begins with a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.diffs import compared
from dragoman.lm import gfm
from dragoman.tools.builtin.files import lines_of, text_or_none
from dragoman.visible import visible_exactly

__all__ = [
    "LINE_HEAD",
    "LINE_TAIL",
    "MAX_DIFF_CHARACTERS",
    "MAX_HIDDEN",
    "Difference",
    "difference",
]

# More than a user reads.
MAX_DIFF_CHARACTERS = 30_000
# Of a line that has to be shortened: enough to see what it is, and what was put at its end.
LINE_HEAD = 1_500
LINE_TAIL = 500
# Data may be longer than what is shown. Beyond this, an approval would cover too much that the user has not seen.
MAX_HIDDEN = 100_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A change as Markdown, how many characters of it are not in there, and the unified diff in it."""

    message: str
    hidden: int = 0
    diff: str = ""


def difference(label: str, old: bytes | None, new: str) -> Difference:
    """The change from the old text to the new one; `label` is the name of the file, safe to show."""
    if old == new.encode():
        return Difference("Nothing in it would change.")
    header = f"--- {'/dev/null' if old is None else f'a/{label}'}\n+++ b/{label}\n"
    if old is None and not new:
        return Difference("It would be empty.", diff=header)
    notes: list[str] = []
    lost = 0
    before = text_or_none(old or b"")
    if before is None:
        lost = len(old or b"")
        notes.append(f"What it replaces, {lost:,} bytes, is not text in UTF-8 and is not shown.")
    change = compared(lines_of(before or ""), lines_of(new))
    if change.is_large:
        notes.append(
            f"Too many lines to compare one by one: from line {change.start + 1:,} on, {len(change.removed):,} lines are"
            f" removed and {len(change.added):,} added."
        )
        fitted = _fitted_apart(
            [_ended(f"-{line}") for line in change.removed], [_ended(f"+{line}") for line in change.added]
        )
    else:
        fitted = _fitted([_ended(line) for line in change.lines("\n")], MAX_DIFF_CHARACTERS)
    diff = visible_exactly(header + fitted.text)
    notes.append(gfm.fence(diff, "diff"))
    if fitted.hidden:
        notes.append(f"{fitted.hidden:,} of the {fitted.total:,} characters of this are not shown.")
    # What it replaces without showing it is not in the diff, so that is no diff of the change.
    return Difference("\n\n".join(notes), fitted.hidden + lost, "" if lost else diff)


@dataclass(frozen=True, slots=True)
class _Fitted:
    text: str
    hidden: int
    total: int


def _fitted_apart(removed: Sequence[str], added: Sequence[str]) -> _Fitted:
    """Fit the removed and the added lines separately, if one would leave no room for the other."""
    first = _fitted(removed, MAX_DIFF_CHARACTERS // 2)
    second = _fitted(added, MAX_DIFF_CHARACTERS - len(first.text))
    return _Fitted(first.text + second.text, first.hidden + second.hidden, first.total + second.total)


def _fitted(lines: Sequence[str], room: int) -> _Fitted:
    """The beginning and the end of `lines`, in about as many characters as there is room for."""
    total = sum(map(len, lines))
    if total <= room:
        return _Fitted("".join(lines), 0, total)
    short = [_shortened(line) for line in lines]
    head = _how_many(short, room // 2)
    tail = _how_many(short[: head - 1 if head else None : -1], room // 2)
    end = len(lines) - tail
    displayed = sum(len(line.whole) - line.hidden for line in (*short[:head], *short[end:]))
    gap = ""
    if head < end:
        left_out = sum(map(len, lines[head:end]))
        gap = f"[… {end - head:,} lines with {left_out:,} characters are not shown here …]\n"
    shown = "".join(line.text for line in short[:head]) + gap + "".join(line.text for line in short[end:])
    return _Fitted(shown, total - displayed, total)


@dataclass(frozen=True, slots=True)
class _Line:
    whole: str
    text: str
    hidden: int = 0


def _shortened(line: str) -> _Line:
    hidden = len(line) - LINE_HEAD - LINE_TAIL
    if hidden <= 0:
        return _Line(line, line)
    gap = f"[… {hidden:,} characters are not shown here …]"
    return _Line(line, f"{line[:LINE_HEAD]}{gap}{line[-LINE_TAIL:]}", hidden)


def _how_many(lines: Sequence[_Line], room: int) -> int:
    """How many of the first lines there is room for."""
    for number, line in enumerate(lines):
        room -= len(line.text)
        if room < 0:
            return number
    return len(lines)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
