r"""Paths in a prompt: `@path`, and the paths of pictures. Pure.

A path with spaces is quoted (`@"my notes.md"`) or escaped (`@my\ notes.md`). Terminals do the one or the other when a file is
dragged into them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

__all__ = ["BegunMention", "PathInPrompt", "begun_mention", "mentions", "pictures", "written"]

_WORD = r"""(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|(?P<bare>(?:\\.|[^\s\\"'])(?:\\.|[^\s\\])*))"""
# At the beginning of a word: a mail address is not meant.
_MENTION = re.compile(rf"(?<![^\s(])@{_WORD}")
_ANY = re.compile(rf"(?<![^\s(]){_WORD}")
_BEGUN = re.compile(r"""(?<![^\s(])@(?:"(?P<double>[^"\n]*)|(?P<bare>(?:\\.|[^\s\\"'])*))\Z""")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|webp)\Z", re.IGNORECASE)
# What a sentence may put behind a path.
_PUNCTUATION = ".,;:!?)"


@dataclass(frozen=True, slots=True)
class PathInPrompt:
    path: str
    # The same path without what may be the punctuation of a sentence.
    plain: str


@dataclass(frozen=True, slots=True)
class BegunMention:
    """What was typed of a mention before the cursor."""

    path: str
    # How many characters stand for it, with the `@`.
    length: int


def mentions(prompt: str) -> Iterator[PathInPrompt]:
    """The paths that begin with `@`."""
    return map(_path, _MENTION.finditer(prompt))


def pictures(prompt: str) -> Iterator[PathInPrompt]:
    """The paths without `@` that end like the name of a picture."""
    for found in _ANY.finditer(prompt):
        path = _path(found)
        if not path.path.startswith("@") and _PICTURE.search(path.plain):
            yield path


def begun_mention(before: str) -> BegunMention | None:
    """The mention that ends at the cursor, if one does."""
    found = _BEGUN.search(before)
    if found is None:
        return None
    path = found["double"] if found["double"] is not None else _ESCAPED.sub(r"\1", found["bare"])
    return BegunMention(path, len(found[0]))


def written(path: str) -> str:
    """A path as a mention. A folder stays open, so that typing goes on in it."""
    if re.search(r"""[\s\\"']""", path) is None:
        return f"@{path}"
    if '"' in path or "\n" in path:
        return "@" + re.sub(r"""([\s\\"'])""", r"\\\1", path)
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'


def _path(found: re.Match[str]) -> PathInPrompt:
    quoted = found["double"] or found["single"]
    if quoted is not None:
        path = _local(quoted)
        return PathInPrompt(path, path)
    bare = found["bare"]
    return PathInPrompt(
        _local(_ESCAPED.sub(r"\1", bare)), _local(_ESCAPED.sub(r"\1", bare.rstrip(_PUNCTUATION) or bare))
    )


def _local(path: str) -> str:
    """The path of a `file:` address, which some terminals write."""
    return unquote(urlsplit(path).path) if path.startswith("file://") else path
