"""On which line a key stands.

Python's TOML parser gives the values and forgets where they were. This reads a document a second time, one that the
parser has accepted, and only for its keys: tables, arrays of tables, dotted and quoted keys, inline tables and arrays.
Strings, comments and numbers are stepped over, so that a `key =` inside a string of many lines is not taken for one.
"""

from __future__ import annotations

import re
import tomllib
from typing import TypeAlias

__all__ = ["KeyPath", "positions"]

# From the top: names of keys, and numbers of elements in arrays.
KeyPath: TypeAlias = tuple[str | int, ...]

_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
# Two quotes inside a string of many lines do not end it, and up to two may stand before the three that do.
_STRING = re.compile(
    r'''"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'''
    r"""|'''(?:[^']|'{1,2}(?!'))*'{3,5}"""
    r'''|"(?:[^"\\]|\\.)*"'''
    r"""|'[^']*'""",
    re.DOTALL,
)
_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = re.compile(rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*")
_PLAIN_VALUE = re.compile(r"[^,\]}#\r\n]+")


def positions(text: str) -> dict[KeyPath, int]:
    """The line, counted from 1, of every key, table and element of an array in a valid document."""
    return _Scan(text).lines


class _Scan:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {(): 1}
        self._text = text
        self._at = 0
        # Where `_at` was when lines were last counted, and the line it was on.
        self._counted = (0, 1)
        # How many tables an array of tables has so far: a header below it means the last of them.
        self._lengths: dict[KeyPath, int] = {}
        self._document()

    def _document(self) -> None:
        table: KeyPath = ()
        while not self._at_end():
            if self._takes("[["):
                table = self._header(is_array=True)
            elif self._takes("["):
                table = self._header(is_array=False)
            else:
                self._pair(table)

    def _header(self, *, is_array: bool) -> KeyPath:
        self._skip_gap()
        line = self._line()
        *above, name = self._key()
        path: KeyPath = ()
        for outer in above:
            path = self._current((*path, outer))
            self.lines.setdefault(path, line)
        path = (*path, name)
        if is_array:
            number = self._lengths.get(path, 0)
            self._lengths[path] = number + 1
            self.lines.setdefault(path, line)
            path = (*path, number)
        # A table's own header is where it stands, also after its name has occurred in that of another.
        self.lines[path] = line
        self._skip_gap()
        self._at += 2 if is_array else 1
        return path

    def _current(self, path: KeyPath) -> KeyPath:
        return (*path, self._lengths[path] - 1) if path in self._lengths else path

    def _pair(self, table: KeyPath) -> None:
        """`key = value` in a table."""
        line = self._line()
        path = table
        for name in self._key():
            path = (*path, name)
            self.lines.setdefault(path, line)
        self._skip_gap()
        self._at += len("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._skip_gap()
        if self._takes("["):
            self._array(path)
        elif self._takes("{"):
            while not self._ends("}"):
                self._pair(path)
        elif string := _STRING.match(self._text, self._at):
            self._at = string.end()
        else:
            self._at = self._matched(_PLAIN_VALUE).end()

    def _array(self, path: KeyPath) -> None:
        number = 0
        while not self._ends("]"):
            element = (*path, number)
            self.lines[element] = self._line()
            self._value(element)
            number += 1

    def _ends(self, bracket: str) -> bool:
        """Whether an array or an inline table is over; otherwise its next element begins here."""
        self._skip_gap()
        if self._takes(","):
            self._skip_gap()
        return self._takes(bracket)

    def _key(self) -> tuple[str, ...]:
        """The names of a dotted key. The parser reads them, so that quotes and escapes mean here what they mean there."""
        key = self._matched(_KEY)
        self._at = key.end()
        names: list[str] = []
        value: object = tomllib.loads(f"{key[0]} = 0")
        while isinstance(value, dict):
            [(name, value)] = value.items()
            names.append(name)
        return tuple(names)

    def _takes(self, token: str) -> bool:
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _at_end(self) -> bool:
        self._skip_gap()
        return self._at >= len(self._text)

    def _skip_gap(self) -> None:
        self._at = self._matched(_GAP).end()

    def _matched(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError(f"no valid TOML at offset {self._at}")
        return match

    def _line(self) -> int:
        offset, line = self._counted
        line += self._text.count("\n", offset, self._at)
        self._counted = (self._at, line)
        return line
