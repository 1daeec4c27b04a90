"""Lays out texts for the terminal they are shown in: never wider than it is; help not wider than a page is read well."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from argparse import Action, HelpFormatter
from collections.abc import Iterable
from typing import TextIO

__all__ = ["Layout", "filled", "laid_out", "say", "width_of"]

# What help has always been written for.
_WIDEST = 80
# An entry of a list: what it is about, two spaces, what there is to say.
_ENTRY = re.compile(r"(?P<head> +\S.*?  +)(?P<text>\S.*)")
# Beside less than this, a text stands below what it is about.
_NARROWEST_COLUMN = 20


class Layout(HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        # The library leaves two columns free; this text should have the same width.
        self._width = min(self._width, _WIDEST - 2)

    def _format_usage(
        self, usage: str | None, actions: Iterable[Action], groups: object, prefix: str | None
    ) -> str:
        """The usage line. It does not name the options: they stand below, each with what it is for."""
        del groups, prefix
        taken = [
            self._format_args(action, self._get_default_metavar_for_positional(action))
            for action in actions
            if not action.option_strings
        ]
        line = usage or " ".join([self._prog, *taken, "[options]"])
        return "\n".join(filled(f"usage: {line}", self._width, " " * len("usage: "))) + "\n\n"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        del indent
        return laid_out(text, width)


def laid_out(text: str, width: int) -> str:
    """Lay out a text: paragraphs are refilled; indented lines stay lines, and are continued below their text."""
    return "\n\n".join(_block(block, width) for block in text.strip("\n").split("\n\n"))


def _block(block: str, width: int) -> str:
    lines: list[str] = []
    paragraph: list[str] = []
    for line in block.splitlines():
        # A heading stays by itself, too.
        if line.startswith(" ") or line.endswith(":"):
            lines += filled(" ".join(paragraph), width)
            paragraph.clear()
            lines += _entry(line, width)
        else:
            paragraph.append(line)
    return "\n".join([*lines, *filled(" ".join(paragraph), width)])


def _entry(line: str, width: int) -> list[str]:
    entry = _ENTRY.fullmatch(line)
    if entry is None:
        return filled(line, width, " " * (len(line) - len(line.lstrip()) + 2))
    head, text = entry["head"], entry["text"]
    if width - len(head) >= _NARROWEST_COLUMN:
        return filled(line, width, " " * len(head))
    indent = " " * 6
    return [head.rstrip(), *filled(text, width, indent, indent)]


def filled(text: str, width: int, below: str = "", first: str = "") -> list[str]:
    """One paragraph as lines: `first` begins the first, `below` the others."""
    # Options, paths and file names stay whole, so that the user can copy them.
    return textwrap.wrap(
        text,
        max(width, _NARROWEST_COLUMN - len(below)),
        initial_indent=first,
        subsequent_indent=below,
        break_on_hyphens=False,
        break_long_words=False,
    )


def say(text: str, output: TextIO | None = None, *, end: str = "\n") -> None:
    """Print sentences, to standard output if nothing else is named: its lines stay lines, and break between words."""
    output = output or sys.stdout
    width = width_of(output)
    print("\n".join(_fitted(line, width) for line in text.split("\n")), end=end, file=output, flush=True)


def _fitted(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return "\n".join(filled(line.lstrip(), width, indent, indent))


def width_of(output: TextIO) -> int:
    """The width of the terminal behind a stream; without a terminal, no limit."""
    return shutil.get_terminal_size().columns if output.isatty() else sys.maxsize
