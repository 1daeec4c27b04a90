"""Links that would make the editor act are made inert, in text that arrives in pieces.

An agent's text passes unchanged but for two kinds of link destination: `command:`, which runs a command of the
editor, and the editor's own pseudo hosts (`http://_vscodecontentref_` and its kin), which draw its widgets. Both are
broken by inserting `-inert` before the character that would complete them, so nothing is ever held back: what was
sent before that character was harmless, and what follows it no longer is what it seemed.

A destination may be written with entities and backslashes, in any case, and over several pieces; it is judged by what
a renderer would make of it. Code blocks are treated like everything else: what is code to us may be a link to a
renderer that reads the fences differently.

Each character is looked at once. A destination under way is a small state, not a text that is read again: which
beginning its address still agrees with, and the entity or escape that is not complete yet. At most three destinations are
under way at a time, because a bracket inside an address ends it.
"""

from __future__ import annotations

import html
import re
from enum import Enum, IntEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias

__all__ = ["InertLinks"]

# What may open a destination, unless the next character shows that it does not.
_BEGINNING = re.compile(r"<(?=[cChH/\\&\x00-\x20\x7f]|\Z)|\](?=[(:]|\Z)")
# Renderers drop these from an address before they look at its scheme.
_IGNORED = frozenset(map(chr, (*range(0x21), 0x7F)))
_ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
# An entity that is not complete yet, as `html.unescape` reads entities.
_OPEN_ENTITY = re.compile(r"&(?:#[0-9]*|#[xX][0-9a-fA-F]*|[^\t\n\f <&#;]{0,32})")
# What the next character may complete, after its `&`.
_OPEN_NAME = re.compile(r"#\w*|\w{0,32}")

_COMMAND = "command:"
_BEFORE_AUTHORITY = ("http:", "https:")
_SLASHES = frozenset("/\\")
_END_OF_HOST = frozenset("/\\?#<>()[]")
# A destination that has not shown its scheme after this many characters is hiding it.
_UNDECIDED_LIMIT = 256
_BREAK = "-inert"


class _Address(IntEnum):
    """What an address has turned out to be. Before, it is the number of a beginning in `_BEGINNINGS`."""

    # The editor acts on it.
    ACTIVE = -1
    # It has no scheme that could make it act.
    HARMLESS = -2
    # Its host is complete, and a real one.
    REAL_HOST = -3
    # Browsers take any number of slashes of either kind for the two, and a name before an `@` for no part of the host.
    SLASHES = -4
    AFTER_NAME = -5
    IN_HOST = -6


_BEGINNINGS = tuple(
    {
        word[:length]: None
        for word in (_COMMAND, *_BEFORE_AUTHORITY, "/", "\\")
        for length in range(len(word) + 1)
    }
)


def _after(beginning: str, char: str) -> int:
    address = beginning + char
    if address == _COMMAND:
        return _Address.ACTIVE
    if address in _BEFORE_AUTHORITY or (beginning in _SLASHES and char in _SLASHES):
        return _Address.SLASHES
    return _BEGINNINGS.index(address) if address in _BEGINNINGS else _Address.HARMLESS


# From a beginning and a character to what comes of them. Any other character makes an address harmless.
_NEXT = [
    {
        char: _after(beginning, char)
        for char in "comandhtps:/\\"
        if _after(beginning, char) != _Address.HARMLESS
    }
    for beginning in _BEGINNINGS
]
_AUTHORITIES = frozenset({_Address.REAL_HOST, _Address.SLASHES, _Address.AFTER_NAME, _Address.IN_HOST})
_DECIDED = frozenset({_Address.ACTIVE, _Address.HARMLESS, _Address.REAL_HOST})


def _step(address: int, char: str) -> int:
    """An address with one more character, as renderers read it."""
    if char in _IGNORED or address in _DECIDED:
        return address
    for lower in char.lower():
        if address >= 0:
            address = _NEXT[address].get(lower, _Address.HARMLESS)
        elif address == _Address.SLASHES and lower in _SLASHES:
            pass
        elif lower in _END_OF_HOST:
            return _Address.REAL_HOST
        elif lower == "@":
            address = _Address.AFTER_NAME
        elif lower == "_" and address != _Address.IN_HOST:
            # No registered host begins with an underscore; the editor's pseudo hosts all do.
            return _Address.ACTIVE
        else:
            address = _Address.IN_HOST
    return address


class _Reading(NamedTuple):
    """How far one way to read a destination has come. Renderers differ in whether entities or escapes come first."""

    address: int = 0
    # The entity that is not complete.
    entity: str = ""
    # Whether a backslash came last.
    escapes: bool = False


def _plain(address: int, text: str) -> int:
    """An address with characters that are neither escaped nor part of an entity."""
    for char in text:
        address = _step(address, char)
    return address


def _unescaped(address: int, text: str, *, escapes: bool) -> tuple[int, bool]:
    """An address with characters that may be escaped, and whether a backslash came last."""
    for char in text:
        if char == "\\" and not escapes:
            escapes = True
            continue
        if escapes and char not in _ESCAPABLE:
            address = _step(address, "\\")
        address, escapes = _step(address, char), False
    return address, escapes


def _entity(begun: str, char: str) -> tuple[str, str]:
    """What is complete with one more character, and the entity that is not."""
    if not begun:
        return ("", "&") if char == "&" else (char, "")
    if _OPEN_ENTITY.fullmatch(begun + char):
        return "", begun + char
    if char == ";":
        return html.unescape(begun + char), ""
    return (html.unescape(begun), "&") if char == "&" else (html.unescape(begun) + char, "")


def _entities_first(reading: _Reading, char: str) -> _Reading:
    complete, entity = _entity(reading.entity, char)
    address, escapes = _unescaped(reading.address, complete, escapes=reading.escapes)
    return _Reading(address, entity, escapes)


def _escapes_first(reading: _Reading, char: str) -> _Reading:
    address, entity, escapes = reading
    if char == "\\" and not escapes:
        return _Reading(address, entity, escapes=True)
    for each in f"\\{char}" if escapes and char not in _ESCAPABLE else char:
        complete, entity = _entity(entity, each)
        address = _plain(address, complete)
    return _Reading(address, entity)


def _ended_entities_first(reading: _Reading) -> int:
    """The address if nothing came any more."""
    address, entity, escapes = reading
    if entity:
        address, escapes = _unescaped(address, html.unescape(entity), escapes=escapes)
    return _step(address, "\\") if escapes else address


def _ended_escapes_first(reading: _Reading) -> int:
    address, entity, escapes = reading
    rest = f"{entity}\\" if escapes else entity
    return _plain(address, html.unescape(rest)) if rest else address


_Readings: TypeAlias = tuple[_Reading, _Reading]


class _Destination(NamedTuple):
    """A destination under way, from the character that opened it."""

    # What may still belong to the opener: an inline link or a reference definition, either over a line's end in a quote,
    # may have brackets around its destination; an autolink has them.
    opener: str
    is_angled: bool
    line_ends: int = 0
    # Entities first, escapes first.
    readings: _Readings = (_Reading(), _Reading())
    # The same without the escape, or without the entity, that the next character may complete.
    before_escape: _Readings | None = None
    before_entity: _Readings | None = None
    # What stands behind the `&` of that entity.
    name: str = ""

    def taken(self, char: str) -> _Destination | None:
        """With one more character; None if it is no destination."""
        if not self.opener:
            return self._read(char)
        if self.opener == "]":
            return self._replace(opener=char) if char in "(:" else None
        if char == "<":
            return self._replace(opener="", is_angled=True)
        if char != ">" and not char.isspace():
            return self._read(char)
        line_ends = self.line_ends + (char == "\n")
        # A destination follows on the same line or the next.
        return self._replace(line_ends=line_ends) if line_ends <= 1 else None

    def _read(self, char: str) -> _Destination:
        one, two = self.readings
        readings = _entities_first(one, char), _escapes_first(two, char)
        before_entity, name = self.before_entity, self.name + char
        if char == "&":
            before_entity, name = self.before_escape or self.readings, ""
        elif before_entity is None or not _OPEN_NAME.fullmatch(name):
            before_entity, name = None, ""
        before_escape = self.readings if char == "\\" else None
        return _Destination("", self.is_angled, 0, readings, before_escape, before_entity, name)

    def is_active(self, last: str) -> _Verdict:
        """Whether the editor would act on it. `last` is the last character of it."""
        if not self.opener and (last in ">\r\n" if self.is_angled else last == ")" or last.isspace()):
            return _Verdict.HARMLESS
        addresses = _addresses(self.readings)
        if _Address.ACTIVE in addresses:
            return _Verdict.ACTIVE
        begun = self.before_escape or self.before_entity
        if addresses <= _DECIDED and (begun is None or _addresses(begun) <= _DECIDED):
            return _Verdict.HARMLESS
        return _Verdict.UNDECIDED if addresses & _AUTHORITIES else _Verdict.HIDING


class _Verdict(Enum):
    ACTIVE = "the editor would act on it"
    HARMLESS = "the editor would not"
    UNDECIDED = "it has shown its scheme, and not its host"
    HIDING = "it has not shown its scheme"

    def when_long(self) -> _Verdict:
        """The verdict on a destination that is longer than any that is waited for."""
        if self is _Verdict.HIDING:
            return _Verdict.ACTIVE
        return _Verdict.HARMLESS if self is _Verdict.UNDECIDED else self


def _addresses(readings: _Readings) -> set[int]:
    return {_ended_entities_first(readings[0]), _ended_escapes_first(readings[1])}


# Destinations resemble each other. A few megabytes of what was worked out before make most characters a look-up.
@lru_cache(maxsize=4_096)
def _next(destination: _Destination, text: str) -> tuple[_Destination, _Verdict] | None:
    """A destination with more characters, and the verdict on it; None if it is none."""
    following: _Destination | None = destination
    for char in text:
        following = following.taken(char) if following is not None else None
    return None if following is None else (following, following.is_active(text[-1]))


_OPENED = {"]": _Destination("]", is_angled=False), "<": _Destination("", is_angled=True)}


class InertLinks:
    """A filter for one stream of text."""

    def __init__(self) -> None:
        # Destinations that may still become active, and how many characters each has.
        self._undecided: list[tuple[_Destination, int]] = []

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
        following, completes = self._after(char)
        if completes:
            following, _ = self._after(_BREAK + char)
        if char in _OPENED:
            following.append((_OPENED[char], 1))
        self._undecided = following
        return completes

    def _after(self, text: str) -> tuple[list[tuple[_Destination, int]], bool]:
        """Those that may still become active after this text, and whether one does with it."""
        following = []
        completes = False
        for destination, length in self._undecided:
            found = _next(destination, text)
            if found is not None:
                longer = length + len(text)
                verdict = found[1] if longer <= _UNDECIDED_LIMIT else found[1].when_long()
                if verdict is _Verdict.ACTIVE:
                    completes = True
                elif verdict is not _Verdict.HARMLESS:
                    following.append((found[0], longer))
        return following, completes
