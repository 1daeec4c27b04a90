"""The Markdown dialect of the terminal: CommonMark with tables and strike-through, and nothing that hides text.

Links by reference and HTML are shown as they are written: a reference can only be resolved by later text, and both would
hide something. So is text that is nested very deep in quotes and lists, which the parser would skip. A row with more
cells than its table has columns shows them in its last column, where Markdown would drop them.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_block.table import escapedSplit

__all__ = ["parser"]

# Sixteen lists inside each other, or so many quotes: as deep as a line of eighty columns has any room for.
_DEEPEST = 32
# Where the parser itself would stop and skip. It must not get there: a list is two levels at once, a paragraph one more.
_NEVER_REACHED = _DEEPEST + 8


@cache
def parser() -> MarkdownIt:
    markdown = (
        MarkdownIt("commonmark", {"html": False, "maxNesting": _NEVER_REACHED})
        .enable(["table", "strikethrough"])
        # Without text_join, what an entity stands for is known to come from one.
        .disable(["reference", "html_block", "html_inline", "text_join"])
    )
    markdown.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    markdown.block.ruler.before("table", "too_deep", _too_deep)
    return markdown


def _too_deep(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - markdown-it calls it so
    """Take everything that is left of the container as it is written."""
    if silent or state.level < _DEEPEST:
        return False
    line = start
    # A line further to the left is no longer part of the list.
    while line < end and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent):
        line += 1
    token = state.push("code_block", "code", 0)
    token.content = state.getLines(start, line, state.blkIndent, keepLastLF=True)
    token.map = [start, line]
    state.line = line
    return True


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - as above
    before = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    new = state.tokens[before:]
    columns = sum(token.type == "th_open" for token in new)
    row: list[str] = []
    cells = 0
    for token in new:
        if token.type == "tr_open" and token.map:
            row, cells = _cells(state, token.map[0]), 0
        elif token.type == "inline":
            cells += 1
            if cells == columns:
                token.content = " | ".join([token.content, *(cell.strip() for cell in row[columns:])])
    return True


def _cells(state: StateBlock, line: int) -> list[str]:
    text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]
    cells = escapedSplit(text.strip())
    first, last = not cells[0].strip(), len(cells) > 1 and not cells[-1].strip()
    return cells[first : len(cells) - last]
