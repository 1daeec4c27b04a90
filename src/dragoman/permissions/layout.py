"""Text that a person decides about, laid out so that nothing in it is out of sight.

Three things hide text in a dialog: characters that leave no mark, white space that pushes the rest away, and length.
Here each leaves a mark. Characters without a mark become their number (`visible`). Runs of white space become dots, or
a count in brackets. A text that is too long is shown from both ends, with the number of characters between them. Lines
are broken at a fixed width, and each break shows. The marks themselves, where they stand in a text, are shown by their
number: so no text can imitate them.
"""

from __future__ import annotations

import re
import unicodedata

from dragoman.visible import visible_exactly

__all__ = [
    "LINE_WIDTH",
    "broken",
    "from_both_ends",
    "in_short",
    "on_one_line",
    "shown_exactly",
]

# What fits into the narrowest dialog, an editor's chat in its side bar, without being cut.
LINE_WIDTH = 72
_BREAK = "↩"
_DOT = "·"
_MARKS = str.maketrans({mark: f"<U+{ord(mark):04X}>" for mark in f"{_BREAK}{_DOT}⟨⟩␊⇥"})
# Fewer empty lines than this are layout; fewer blanks are indentation, or dots.
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")
_MOST_DOTS = 8
_MOST_INDENTATION = 40
_MOST_TABS = 4
_RUN = re.compile(r"[ \t]{2,}|\t| (?=\n|\Z)")


def shown_exactly(text: str, *, dots: bool = True) -> str:
    """`text` with a mark for everything that would leave none. Without `dots` short runs of blanks stay, as in code."""
    text = text.replace("<U+", "<U+003C>U+").translate(_MARKS)
    text = _EMPTY_LINES.sub(_empty_lines, visible_exactly(text))
    return _RUN.sub(lambda run: _blanks(run, text, dots=dots), text)


def _blanks(run: re.Match[str], text: str, *, dots: bool) -> str:
    blanks = run[0]
    begins = run.start() == 0 or text[run.start() - 1] == "\n"
    ends = run.end() == len(text) or text[run.end()] == "\n"
    if "\t" in blanks:
        # Each tab takes four columns, and shows.
        return (
            "⇥   " * len(blanks) if set(blanks) == {"\t"} and len(blanks) <= _MOST_TABS else _counted(blanks)
        )
    if begins and not ends:
        return blanks if len(blanks) <= _MOST_INDENTATION else _counted(blanks)
    if len(blanks) > _MOST_DOTS:
        return _counted(blanks)
    # At the end of a line a blank would not be seen at all.
    return _DOT * len(blanks) if dots or ends else blanks


def _counted(blanks: str) -> str:
    kind = "space" if set(blanks) == {" "} else "tab" if set(blanks) == {"\t"} else "blank"
    return f"⟨{len(blanks):,} {kind}{'' if len(blanks) == 1 else 's'}⟩"


def _empty_lines(run: re.Match[str]) -> str:
    return f"\n⟨{run[0].count(chr(10)) - 1:,} empty lines⟩\n"


def broken(text: str, width: int = LINE_WIDTH, *, at_spaces: bool = False) -> str:
    """Every line broken at `width` columns; a mark at the end of a line says that it goes on below.

    `at_spaces` is for sentences: a line breaks between words, unless a word is longer than a line.
    """
    return "\n".join(
        piece for line in text.split("\n") for piece in _pieces(line, width, at_spaces=at_spaces)
    )


def _pieces(line: str, width: int, *, at_spaces: bool) -> list[str]:
    if len(line) <= width and (line.isascii() or len(line) * 2 <= width):
        return [line]
    pieces: list[str] = []
    begin = columns = 0
    for place, character in enumerate(line):
        wide = _columns(character)
        if columns + wide > width:
            end = (at_spaces and line.rfind(" ", begin, place) + 1) or place
            pieces.append(line[begin:end] + _BREAK)
            begin, columns = end, sum(map(_columns, line[end:place]))
        columns += wide
    return [*pieces, line[begin:]]


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def from_both_ends(text: str, limit: int) -> tuple[str, str, int]:
    """The beginning and the end of a text, and how many characters stand between them. 0: the beginning is all."""
    if len(text) <= limit:
        return text, "", 0
    head = limit - limit // 2
    return text[:head], text[-(limit // 2) :], len(text) - limit


def on_one_line(text: str) -> str:
    """The same on one line: a line feed is shown by its picture."""
    return "␊".join(map(shown_exactly, text.split("\n")))


def in_short(text: str, limit: int) -> str:
    """On one line, at most so many characters of it."""
    head, tail, left_out = from_both_ends(text, limit)
    if not left_out:
        return on_one_line(head)
    return f"{on_one_line(head)} ⟨{left_out:,} characters left out⟩ {on_one_line(tail)}"
