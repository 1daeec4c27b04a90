"""Text from outside, made safe to print and to decide about.

Models, tools and files can hold anything, and a terminal obeys what it is sent: it moves the cursor, rewrites its
title, answers queries as if the user had typed. So whatever is printed passes through here first. A line feed and a
tab remain what they are; every other character that acts instead of showing is replaced by one that shows it: control
characters by their pictures (`␛`), the rest by their number (`<U+202E>`). Nothing is dropped.

There are two measures. Ordinary text (`visible`) keeps what scripts and emoji need: joiners, variation selectors, the
spaces of typography. What a person decides about (`visible_exactly`: a command, a change, a title) must look different
when it is different, so there everything that leaves no mark of its own is shown; only an emoji keeps what belongs to it.
"""

from __future__ import annotations

import re

__all__ = ["VisibleText", "hides", "visible", "visible_exactly", "visible_line"]

_DELETE = 0x7F
_FIRST_PRINTABLE = 0x20
_CONTROL_PICTURES = 0x2400
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

# What Unicode calls Default_Ignorable_Code_Point, and what is drawn as a blank; as far as Python calls it printable.
_LEAVES_NO_MARK = frozenset(
    code
    for codes in (
        range(0x034F, 0x0350),  # combining grapheme joiner
        range(0x115F, 0x1161),  # Hangul fillers
        range(0x17B4, 0x17B6),  # Khmer inherent vowels
        range(0x180B, 0x1810),  # Mongolian variation selectors and vowel separator
        range(0x2800, 0x2801),  # Braille pattern blank
        range(0x3164, 0x3165),  # Hangul filler
        range(0xFE00, 0xFE10),  # variation selectors
        range(0xFFA0, 0xFFA1),  # halfwidth Hangul filler
        range(0xFFF0, 0xFFF9),  # reserved, and ignorable
        range(0x1BCA0, 0x1BCA4),  # shorthand format controls
        range(0x1D173, 0x1D17B),  # musical format controls
        range(0xE0000, 0xE1000),  # tags, and more variation selectors
    )
    for code in codes
)

# A symbol with its presentation and skin, others joined to it; or the cap of a key. No other joiner belongs to an emoji.
_SYMBOL = (
    "[\u00a9\u00ae\u203c\u2049\u2100-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
    "[\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?"
)
_EMOJI = re.compile(f"({_SYMBOL}(?:\u200d{_SYMBOL})*|[0-9#*]\ufe0f\u20e3)")


def hides(character: str) -> bool:
    """Whether a character leaves no mark of its own: it acts, or nothing is seen of it, or only a blank."""
    return not character.isprintable() or ord(character) in _LEAVES_NO_MARK


def visible(text: str) -> str:
    """`text` with everything that would act on the terminal shown instead. Line feeds and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_ACTING)


def visible_exactly(text: str) -> str:
    """The same for text that the user decides about: every character is visible, a carriage return too."""
    if text.isascii():
        return text.translate(_ACTING)
    pieces = _EMOJI.split(text)
    pieces[::2] = [piece.translate(_HIDING) for piece in pieces[::2]]
    return "".join(pieces)


def visible_line(text: str) -> str:
    """Exactly that, on one line."""
    return " ".join(visible_exactly(text.replace("\r\n", "\n")).split())


class VisibleText:
    """What `visible` gives, for text that arrives in pieces: a line break may be cut in two."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        self._held = "\r" if text.endswith("\r") else ""
        return visible(text.removesuffix("\r") if self._held else text)

    def end(self) -> str:
        held, self._held = self._held, ""
        return visible(held)


def _shown(code: int) -> str:
    if code < _FIRST_PRINTABLE:
        return chr(_CONTROL_PICTURES + code)
    return "␡" if code == _DELETE else f"<U+{code:04X}>"


class _Hiding(dict[int, str]):
    """The replacement for each character, computed on first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = _shown(code) if hides(character) and code not in _LINE_FEED_OR_TAB else character
        self[code] = shown
        return shown


_ACTING = {
    code: _shown(code)
    for codes in (range(_FIRST_PRINTABLE), [_DELETE], *_ACTS)
    for code in codes
    if code not in _LINE_FEED_OR_TAB
    # Half a character: it cannot even be encoded.
} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_HIDING = _Hiding()
