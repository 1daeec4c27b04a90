"""Splits streamed Markdown into blocks that later text cannot change.

A block that is finished is printed for good, and the terminal's scrollback owns it; only the last, unfinished one is
drawn again and again. So a long answer must be cut as early as possible, and never too early. The rules:

- a block is finished when the next one has begun, or by a blank line if its kind ends with one;
- a heading or a rule is finished with its line;
- an item of a list is finished when the next item has begun: it is a piece of its own, and keeps its number;
- a code block is cut every few lines, and knows the lines before, so that it can be highlighted in their light.

Text is read line by line, whatever pieces it arrives in: the same text always gives the same blocks. The pending block
is not read again for a line that plainly goes on with it, nor for each line of a long one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from markdown_it.token import Token

from dragoman.frontends.terminal.markdown_parser import parser

__all__ = ["Blocks", "Code", "MarkdownBlock", "Prose"]

# A paragraph or table longer than this is no longer drawn whole; it is cut at the end of a line, or here.
LONGEST_BLOCK = 16_000
# Lines of code printed at a time: few, so that they appear as they are written; more than one, because each time all
# lines before are read again to highlight them rightly.
CODE_LINES = 8
# How many of those are read again at most.
CODE_CONTEXT = 200

# A block of more lines than this is read again only when it has grown by that fraction, or what comes is a blank line or
# a fence: its end is then seen a little late, and reading it takes time in proportion to its length.
_FRACTION = 32

_FENCE = re.compile(r"^( {0,3})(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
# What a line must begin with to end a paragraph, or to make something else of it.
_INTERRUPTION = re.compile(r"\s*(?:[-+*_=|:~`#>]|\d+[.)])")
_ITEM = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)]) {1,4}(?=\S)")
_ENDS_WITH_BLANK_LINE = frozenset({"paragraph_open", "table_open", "blockquote_open"})
_ENDS_WITH_ITS_LINE = frozenset({"heading_open", "hr"})
_LISTS = frozenset({"bullet_list_open", "ordered_list_open"})


@dataclass(frozen=True, slots=True)
class Prose:
    """Anything but code at the top level, as it was written."""

    source: str
    # Whether an empty line goes before it.
    gap: bool = True
    # For an item of an ordered list: its number, whatever the source says.
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """Some lines of a code block."""

    lines: tuple[str, ...]
    language: str = ""
    before: tuple[str, ...] = ()
    gap: bool = True


MarkdownBlock: TypeAlias = Prose | Code


@dataclass(slots=True)
class _Fence:
    mark: str
    language: str
    indent: int
    lines: list[str] = field(default_factory=list)
    printed: int = 0

    def closed_by(self, line: str) -> bool:
        stripped = line.strip()
        return (
            len(stripped) >= len(self.mark)
            and set(stripped) == {self.mark[0]}
            and len(line) - len(line.lstrip(" ")) < 4  # noqa: PLR2004 - four spaces make a line content
        )

    def add(self, line: str) -> None:
        self.lines.append(line[min(self.indent, len(line) - len(line.lstrip(" "))) :])

    def unprinted(self, more: Sequence[str] = ()) -> Code:
        before = self.lines[max(0, self.printed - CODE_CONTEXT) : self.printed]
        new = (*self.lines[self.printed :], *more)
        return Code(new, self.language, tuple(before), gap=self.printed == 0)


class Blocks:
    """Reads one text."""

    def __init__(self) -> None:
        self._parser = parser()
        self._partial = ""
        self._pending: list[str] = []
        self._size = 0
        self._open = ""
        # As many lines are pending when they are read again, whatever they are.
        self._read_again_at = 0
        self._fence: _Fence | None = None
        # Of the pending block; not the usual values only while it goes on with a list whose first items are out.
        self._gap = True
        self._number: int | None = None

    def feed(self, text: str) -> list[MarkdownBlock]:
        """Take text, and return the blocks that it completes."""
        finished: list[MarkdownBlock] = []
        text, start = self._partial + text, 0
        while (end := _line_end(text, start)) is not None:
            finished += self._line(text[start:end].removesuffix("\n"))
            start = end
        self._partial = text[start:]
        return finished

    def rest(self) -> MarkdownBlock | None:
        """The unfinished block, as far as it has come."""
        if self._fence is not None:
            code = self._fence.unprinted([self._partial] if self._partial else [])
            return code if code.lines else None
        source = "\n".join([*self._pending, self._partial]).rstrip()
        return Prose(source, self._gap, self._number) if source else None

    def close(self) -> list[MarkdownBlock]:
        """End the text, and return its last blocks. Another text may follow."""
        finished = self.feed("\n") if self._partial else []
        rest = self.rest()
        self._take(self._pending)
        self._pending, self._fence = [], None
        return finished if rest is None else [*finished, rest]

    def _line(self, line: str) -> list[MarkdownBlock]:
        if self._fence is not None:
            return self._code_line(self._fence, line)
        if not line.strip() and not self._pending:
            return []
        self._pending.append(line)
        self._size += len(line)
        if self._size < LONGEST_BLOCK and self._goes_on_with(line):
            return []
        return self._cut()

    def _code_line(self, fence: _Fence, line: str) -> list[MarkdownBlock]:
        if fence.closed_by(line):
            self._fence = None
        else:
            fence.add(line)
        code = fence.unprinted()
        if self._fence is None:
            return [code] if code.lines else []
        if len(code.lines) < CODE_LINES:
            return []
        fence.printed = len(fence.lines)
        return [code]

    def _goes_on_with(self, line: str) -> bool:
        """Whether that is plain without reading the whole block again, or there is time to find out."""
        if len(self._pending) == 1:
            return False
        is_blank = not line.strip()
        match self._open:
            case "paragraph_open" if not is_blank and not _INTERRUPTION.match(line):
                return True
            case "table_open" if line.startswith("|"):
                return True
            case "blockquote_open" if line.startswith(">"):
                return True
            case "code_block" if is_blank or line.startswith("    "):
                return True
            case "bullet_list_open" | "ordered_list_open" if is_blank or self._is_inside_item(line):
                return True
            case _:
                return len(self._pending) < self._read_again_at and not is_blank and not _FENCE.match(line)

    def _is_inside_item(self, line: str) -> bool:
        """Whether a line stands at least as far to the right as the text of the item that is pending."""
        item = _ITEM.match(self._pending[0])
        return item is not None and line.startswith(" " * item.end())

    def _cut(self) -> list[MarkdownBlock]:
        """Take from the pending lines what is finished."""
        finished = self._cut_pending()
        self._read_again_at = len(self._pending) + len(self._pending) // _FRACTION
        return finished

    def _cut_pending(self) -> list[MarkdownBlock]:
        lines, tokens = self._pending, self._block_tokens()
        tops = [token for token in tokens if token.level == 0 and token.map]
        if not tops:
            return []
        starts = [_start(top) for top in tops]
        finished: list[MarkdownBlock] = [self._take(lines[start:end]) for start, end in pairwise(starts)]
        last = tops[-1]
        self._pending = lines[starts[-1] :]
        self._size = sum(map(len, self._pending))
        self._open = last.type
        if last.type == "fence" and len(self._pending) == 1:
            self._open_fence()
        elif (
            last.type in _ENDS_WITH_ITS_LINE
            or (last.type in _ENDS_WITH_BLANK_LINE and not lines[-1].strip())
            or self._size >= LONGEST_BLOCK
        ):
            finished.append(self._take(self._pending))
            self._pending = []
        elif last.type in _LISTS:
            items = [_start(token) for token in tokens if token.level == 1 and token.map]
            finished += self._take_items(lines, [item for item in items if item >= starts[-1]], last)
        return finished

    def _take(self, lines: Sequence[str]) -> Prose:
        taken = Prose("\n".join(lines).rstrip(), self._gap, self._number)
        self._gap, self._number = True, None
        return taken

    def _take_items(self, lines: Sequence[str], starts: Sequence[int], of: Token) -> list[MarkdownBlock]:
        """All items but the last, which may go on."""
        if self._number is None and of.type == "ordered_list_open":
            self._number = int(of.attrs.get("start", 1))
        finished: list[MarkdownBlock] = []
        for start, end in pairwise(starts):
            number = self._number
            finished.append(self._take(lines[start:end]))
            self._gap = not lines[end - 1].strip()
            self._number = None if number is None else number + 1
        self._pending = list(lines[starts[-1] :])
        return finished

    def _open_fence(self) -> None:
        opening = _FENCE.match(self._pending[0])
        if opening is None:
            return
        indent, mark, info = opening.groups()
        self._fence = _Fence(mark, (info.split() or [""])[0], len(indent))
        self._pending = []

    def _block_tokens(self) -> list[Token]:
        tokens: list[Token] = []
        self._parser.block.parse("\n".join(self._pending), self._parser, {}, tokens)
        return tokens


def _line_end(text: str, start: int) -> int | None:
    found = text.find("\n", start, start + LONGEST_BLOCK)
    if found >= 0:
        return found + 1
    return start + LONGEST_BLOCK if len(text) - start >= LONGEST_BLOCK else None


def _start(token: Token) -> int:
    return token.map[0] if token.map else 0
