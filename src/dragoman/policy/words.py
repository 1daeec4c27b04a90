"""Reads one word of a command line from its text: quotes, escapes, and what the shell would make of the rest.

This is the second reader of a command line, beside tree-sitter, which says where a word begins and ends. A word is
understood only if bash, dash and zsh make the same of it; where fish differs in quoting, it is not understood either.
Everything that is not listed here raises `NotUnderstood`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["NotUnderstood", "Word", "WordKind", "read_word"]

# exact: the text is the argument. glob: a pattern, and the shell puts names of files in its place. home: begins with the
# user's home, as `~`. unknown: the shell computes it; it may become any number of arguments.
WordKind: TypeAlias = Literal["exact", "glob", "home", "unknown"]

# What stands for itself outside quotes, beside letters and digits of any script.
_PLAIN = frozenset("%+,-./:=@_]}^#~!{")
_PATTERN = frozenset("*?[")
# Most words, which need no closer look.
_ORDINARY = re.compile(r"[A-Za-z0-9_./@%+,-]+(?:=[A-Za-z0-9_./@%+,-]*)?")
# What a backslash removes the meaning of inside double quotes. Before any other character it stands for itself.
_ESCAPED_IN_QUOTES = frozenset('$`"\\')
# A byte of `à` and other letters. bash asks the C library which bytes are blanks, and some libraries say that this is one.
_NO_BREAK_SPACE = b"\xa0"
# Stands for quotes with nothing between them.
_NOTHING = "\0"
# Interactive shells replace `!` by an earlier command, unless one of these follows.
_NO_HISTORY = frozenset(" \t\n=")


class NotUnderstood(Exception):
    """What in a command line is not understood for certain, as part of a sentence."""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument, or what stands for several. Of a pattern `text` is the pattern, with its quotes removed."""

    text: str
    kind: WordKind = "exact"

    @property
    def is_exact(self) -> bool:
        return self.kind == "exact"


def read_word(text: str) -> Word:
    """Read a word without variables and substitutions. Raises `NotUnderstood`."""
    if _ORDINARY.fullmatch(text):
        return Word(text)
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._read: list[str] = []
        # The text with everything quoted replaced: what may be special in it is special to the shell.
        self._bare: list[str] = []
        self._is_pattern = False

    def read(self) -> Word:
        while self._at < len(self._text):
            self._next()
        bare = "".join(self._bare)
        text = "".join(self._read)
        if _has_braces(bare):
            return Word(text, "unknown")
        if re.search(rf"^(?:{_NOTHING}*=|{_NOTHING}+~)|[=:]{_NOTHING}*~", bare):
            # zsh takes `=ls` for the path of ls; bash expands a tilde in what looks like an assignment.
            return Word(text, "unknown")
        if bare.startswith("~"):
            is_home = bare == "~" or (bare.startswith("~/") and not self._is_pattern)
            return Word(text, "home" if is_home else "unknown")
        return Word(text, "glob" if self._is_pattern else "exact")

    def _next(self) -> None:
        character = self._text[self._at]
        self._at += 1
        if character == "\\":
            self._take_quoted(self._escaped())
        elif character == "'":
            self._take_quoted(self._until_quote())
        elif character == '"':
            self._in_double_quotes()
        elif character in _PATTERN:
            self._is_pattern = True
            self._take_bare(character)
        elif character == "!":
            self._check_history()
            self._take_bare(character)
        elif (character.isalnum() and _NO_BREAK_SPACE not in character.encode()) or character in _PLAIN:
            self._take_bare(character)
        else:
            raise NotUnderstood(f"the character {_named(character)}")

    def _take_bare(self, character: str) -> None:
        self._read.append(character)
        self._bare.append(character)

    def _take_quoted(self, text: str) -> None:
        # A letter stands for what is quoted. In zsh `""~` is a home, elsewhere it is none.
        self._bare.append("q" if text else _NOTHING)
        self._read.append(text)

    def _escaped(self) -> str:
        if self._at == len(self._text):
            raise NotUnderstood("a backslash at the end")
        character = self._text[self._at]
        self._at += 1
        if not character.isprintable():
            raise NotUnderstood(f"a backslash before {_named(character)}")
        return character

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            raise NotUnderstood("a quote without its end")
        text = self._text[self._at : end]
        self._at = end + 1
        if text.endswith("\\"):
            # In fish the quote would go on.
            raise NotUnderstood("a backslash before a single quote")
        return _visible(text)

    def _in_double_quotes(self) -> None:
        text: list[str] = []
        while True:
            if self._at == len(self._text):
                raise NotUnderstood("a quote without its end")
            character = self._text[self._at]
            self._at += 1
            if character == '"':
                break
            if (
                character == "\\"
                and self._at < len(self._text)
                and self._text[self._at] in _ESCAPED_IN_QUOTES
            ):
                character = self._text[self._at]
                self._at += 1
            elif character == "\\" and self._text[self._at : self._at + 1] == "\n":
                raise NotUnderstood("a line that goes on inside quotes")
            elif character == "$" and self._text[self._at : self._at + 1] not in ('"', " "):
                raise NotUnderstood("a dollar sign")
            elif character == "`":
                raise NotUnderstood("a backquote")
            elif character == "!":
                self._check_history()
            text.append(character)
        self._take_quoted(_visible("".join(text)))

    def _check_history(self) -> None:
        following = self._text[self._at : self._at + 1]
        if following and following not in _NO_HISTORY:
            raise NotUnderstood("an exclamation mark, which interactive shells replace by an earlier command")


def _has_braces(bare: str) -> bool:
    """Whether some shell may make several words of it: `{a,b}`, `{1..3}`."""
    inside = bare.partition("{")[2].rpartition("}")[0]
    return "," in inside or ".." in inside


def _visible(text: str) -> str:
    for character in text:
        if not character.isprintable() and character not in "\n\t":
            raise NotUnderstood(f"the character {_named(character)}")
    return text


def _named(character: str) -> str:
    return repr(character) if character.isprintable() else f"U+{ord(character):04X}"
