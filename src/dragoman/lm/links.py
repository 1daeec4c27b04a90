"""Links that would make the editor act are made inert, in text that arrives in pieces.

An agent's text passes unchanged but for two kinds of link destination: `command:`, which runs a command of the
editor, and the editor's own pseudo hosts (`http://_vscodecontentref_` and its kin), which draw its widgets. Both are
broken by inserting `-inert` before the character that would complete them, so nothing is ever held back: what was
sent before that character was harmless, and what follows it no longer is what it seemed.

A destination may be written with entities and backslashes, in any case, and over several pieces; it is judged by what
a renderer would make of it. Code blocks are treated like everything else: what is code to us may be a link to a
renderer that reads the fences differently.
"""

from __future__ import annotations

import html
import re

__all__ = ["InertLinks"]

_BEGINNING = re.compile(r"[\]<]")
# Where a destination begins: an inline link or a reference definition, either over a line's end in a quote; an autolink.
_OPENER = re.compile(r"\][(:][\s>]*<?|<")
_END = re.compile(r"[\s)]")
_END_ANGLED = re.compile(r"[>\r\n]")
# Renderers drop these from an address before they look at its scheme.
_IGNORED = re.compile(r"[\x00-\x20\x7f]")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# An entity or an escape that the next character may complete.
_BEGUN = re.compile(r"(?:\\?&(?:#\w*|\w{0,32})|\\)\Z")

_COMMAND = "command:"
# Browsers take any number of slashes of either kind for the two, and a name before an `@` for no part of the host.
_AUTHORITY = re.compile(r"(?:https?:[/\\]*|[/\\]{2,})([^/\\?#<>()\[\]]*)(.?)", re.DOTALL)
_BEFORE_AUTHORITY = ("http:", "https:", "/", "\\")
# A destination that has not shown its scheme after this many characters is hiding it.
_UNDECIDED_LIMIT = 256
_BREAK = "-inert"


class InertLinks:
    """A filter for one stream of text."""

    def __init__(self) -> None:
        # What was passed on since each opener whose destination may still become active.
        self._undecided: list[str] = []

    def feed(self, piece: str) -> str:
        if not self._undecided and "]" not in piece and "<" not in piece:
            # As nearly all pieces are.
            return piece
        done: list[str] = []
        start = position = 0
        while position < len(piece):
            if not self._undecided:
                beginning = _BEGINNING.search(piece, position)
                if beginning is None:
                    break
                position = beginning.start()
            if self._completes(piece[position]):
                done += piece[start:position], _BREAK
                start = position
            position += 1
        return "".join([*done, piece[start:]]) if done else piece

    def _completes(self, char: str) -> bool:
        """Take one more character, with a break before it if it would complete an active destination."""
        verdicts = {text + char: _is_active(text + char) for text in self._undecided}
        completes = True in verdicts.values()
        if completes:
            broken = (text + _BREAK + char for text in self._undecided)
            verdicts = {text: _is_active(text) for text in broken}
        self._undecided = [text for text, active in verdicts.items() if active is None]
        if char in "]<":
            self._undecided.append(char)
        return completes


def _is_active(text: str) -> bool | None:
    """Whether the destination that `text` opens is active; None if that is still open."""
    opener = _OPENER.match(text)
    # A destination follows on the same line or the next.
    if opener is None or opener.group().count("\n") > 1:
        return False
    written = text[opener.end() :]
    end = _END_ANGLED if opener.group().endswith("<") else _END
    if written and end.match(written[-1]):
        return False
    addresses = _addresses(written)
    verdicts = {_acts(address) for address in addresses}
    if True in verdicts:
        return True
    if None not in verdicts and None not in map(_acts, _addresses(_BEGUN.sub("", written))):
        return False
    if len(text) <= _UNDECIDED_LIMIT:
        return None
    return not any(_AUTHORITY.match(address) for address in addresses)


def _addresses(written: str) -> set[str]:
    """What renderers make of a destination: they differ in whether escapes or entities come first."""
    if "&" in written or "\\" in written:
        readings = {_ESCAPED.sub(r"\1", html.unescape(written)), html.unescape(_ESCAPED.sub(r"\1", written))}
    else:
        readings = {written}
    return {_IGNORED.sub("", reading).lower() for reading in readings}


def _acts(address: str) -> bool | None:
    """Whether the editor would act on an address that begins so; None if that is still open."""
    if address.startswith(_COMMAND):
        return True
    authority = _AUTHORITY.match(address)
    if authority is None:
        return None if any(known.startswith(address) for known in (_COMMAND, *_BEFORE_AUTHORITY)) else False
    # No registered host begins with an underscore; the editor's pseudo hosts all do.
    if authority[1].rpartition("@")[2].startswith("_"):
        return True
    return False if authority[2] else None
