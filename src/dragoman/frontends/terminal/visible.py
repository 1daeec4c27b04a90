"""Text from outside, made safe to print.

Models, tools and files can hold anything, and a terminal obeys what it is sent: it moves the cursor, rewrites its
title, answers queries as if somebody had typed. So whatever is printed passes through here first. A line feed and a
tab remain what they are; every other character that acts instead of showing is replaced by one that shows it: control
characters by their pictures (`␛`), the rest by their number (`<U+202E>`). Nothing is dropped: what a person decides
about is what there is.
"""

from __future__ import annotations

__all__ = ["VisibleText", "visible", "visible_line"]

_DELETE = 0x7F
_LINE_FEED_OR_TAB = frozenset({0x09, 0x0A})

_ACTS = (
    range(0x80, 0xA0),  # C1: some terminals take U+009B for the start of a command
    range(0x061C, 0x061D),  # Arabic letter mark
    range(0x200E, 0x2010),  # left-to-right and right-to-left mark
    range(0x2028, 0x202F),  # line and paragraph separator, bidirectional embeddings and overrides
    range(0x2060, 0x2070),  # word joiner, invisible operators, bidirectional isolates
    range(0xFEFF, 0xFF00),  # byte order mark
    range(0xFFF9, 0xFFFC),  # interlinear annotation
    range(0xE0000, 0xE0080),  # tags: text that cannot be seen
)


def _pictures() -> dict[int, str]:
    pictures = {code: f"<U+{code:04X}>" for codes in _ACTS for code in codes}
    pictures.update({code: chr(0x2400 + code) for code in range(0x20) if code not in _LINE_FEED_OR_TAB})
    pictures[_DELETE] = "␡"
    # Half a character: it cannot even be encoded.
    pictures.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
    return pictures


_PICTURES = _pictures()


def visible(text: str) -> str:
    """`text` with everything that would act on the terminal shown instead. Line feeds and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_PICTURES)


def visible_line(text: str) -> str:
    """The same on one line."""
    return " ".join(visible(text).split())


class VisibleText:
    """The same for text that arrives in pieces: a line break may be cut in two."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        self._held = "\r" if text.endswith("\r") else ""
        return visible(text.removesuffix("\r") if self._held else text)

    def end(self) -> str:
        held, self._held = self._held, ""
        return visible(held)
