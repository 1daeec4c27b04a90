"""Regular expressions of `when` clauses: JavaScript's, in Python's words."""

from __future__ import annotations

import re

__all__ = ["MAX_REGEX_GROUPS", "MAX_REGEX_LENGTH", "REGEX", "compile_regex"]

# A regular expression of a clause picks out a few names; Python's compiler for them recurses on groups.
MAX_REGEX_LENGTH = 1000
MAX_REGEX_GROUPS = 50

REGEX = r"/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[])*/"

# `g` and `y` are about repeated searches, and are dropped while parsing.
_OPTIONS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "u": re.NOFLAG}
_REGEX_PIECE = re.compile(r"\\k<\w+>|\\.|\[(?:\\.|[^\]\\])*\]|\(\?<(?![=!])|\(\?(?![:=!<])|.", re.DOTALL)
_CLASS_PIECE = re.compile(r"\\.|.", re.DOTALL)
_WHOLE_CLASSES = frozenset({r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"})
# The others mean something else to Python (`\A`, `\Z`), or nothing.
_SHARED_ESCAPES = frozenset("bBdDwWsSnrtvfxu")


def compile_regex(source: str, flags: str) -> re.Pattern[str]:
    if not re.fullmatch(REGEX, f"/{source}/", re.DOTALL):
        raise ValueError("every `/` and every `[` in it needs a backslash or its other half")
    if len(source) > MAX_REGEX_LENGTH:
        raise ValueError(f"it is longer than {MAX_REGEX_LENGTH} characters")
    if source.count("(") > MAX_REGEX_GROUPS:
        raise ValueError(f"it has more than {MAX_REGEX_GROUPS} groups")
    if not re.fullmatch("i?m?s?u?", flags):
        raise ValueError(f"the flags are `{flags}`, but only i, m, s and u have a meaning, once each")
    # JavaScript's \w, \d and \b know ASCII only.
    options = re.ASCII
    for flag in flags:
        options |= _OPTIONS[flag]
    try:
        return re.compile(_REGEX_PIECE.sub(lambda piece: _python(piece[0], flags), source), options)
    except (re.error, OverflowError) as error:
        raise ValueError(error.msg if isinstance(error, re.error) else str(error)) from None


def _python(piece: str, flags: str) -> str:
    if piece.startswith(r"\k<"):
        return f"(?P={piece[3:-1]})"
    if piece.startswith("\\"):
        return _shared_escape(piece)
    if piece.startswith("["):
        return _character_class(piece)
    if piece == "(?":
        raise ValueError("after `(?` comes one of `:`, `=`, `!`, `<=`, `<!` or `<name>`")
    if piece == "(?<":
        return "(?P<"
    if piece == "$" and "m" not in flags:
        return r"\Z"  # Python's `$` would also match before a line break at the end
    if piece == "." and "s" not in flags:
        return r"[^\n\r\u2028\u2029]"
    return piece


def _shared_escape(piece: str) -> str:
    if piece[1].isalpha() and piece[1] not in _SHARED_ESCAPES:
        raise ValueError(f"the escape `{piece}` is not supported")
    return piece


def _character_class(piece: str) -> str:
    opening = "[^" if piece.startswith("[^") else "["
    items = _CLASS_PIECE.findall(piece[len(opening) : -1])
    if not items:  # nothing, and everything: Python would take the `]` for a member
        return "(?!)" if opening == "[" else r"[\s\S]"
    # Python warns of characters that may become operators one day, and wants a dash that is no range escaped: the
    # first one, one after a dash, one beside a class such as \w.
    translated = [opening]
    before = "-"
    for item, after in zip(items, [*items[1:], ""], strict=True):
        plain_dash = item == "-" and (before == "-" or not _WHOLE_CLASSES.isdisjoint((before, after)))
        before = f"\\{item}" if plain_dash or item in "[&~|" else item
        translated.append(_shared_escape(before) if before.startswith("\\") else before)
    return "".join(translated) + "]"
