"""The consumer's context (its system messages), sent to an agent's session once.

A consumer is stateless: it sends all of its instructions with every request, many kilobytes even if only a date has
changed. An agent has a session, which stores them. So a new session gets the whole context; after that it gets changes.

The meaning of a sentence depends on the text around it: an item of a list may be a command or its opposite. So a part of
a text is never sent alone. What can be sent alone is a *section*: a whole element (`<editorContext>…</editorContext>`)
that is in no other one, and has a name and a place. A changed section is sent whole, a new one with its place, and of a
removed one its name. Any other change (the text between sections, their order) makes the whole context be sent again.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from dragoman.lm import Message

__all__ = ["context_of", "news", "units"]

_CHANGED = "What it told you before still holds, but for the following changes. A section is an element that is in no other one."
_REPLACED = "It tells you this now, instead of everything that it told you before."
# With or without a namespace prefix. A URL in angle brackets is no element.
_NAME = r"([A-Za-z][\w.-]*(?::[\w.-]+)?)"
_OPENS = re.compile(rf"[ \t]*<{_NAME}(?=[\s/>]|$)")
_CLOSES = re.compile(rf"</{_NAME}\s*>\s*$")
_CLOSES_ITSELF = re.compile(r"[^<>]*/>\s*$")
# If the changes are larger than this fraction of the whole context, the whole context is sent instead.
_MAX_FRACTION = 0.5


class _Key(NamedTuple):
    """The identity of a unit: for a section its name and its number among sections of that name, for text the text."""

    name: str
    number: int
    text: str = ""


def context_of(messages: Sequence[Message]) -> str:
    """The text of all system messages."""
    return "\n\n".join(
        message.text for message in messages if message.role == "system" and message.text.strip()
    )


def news(sent: str | None, now: str) -> str:
    """The text to send to a session that has the context `sent`, so that it has `now`. Empty if nothing is new.

    `sent` is None if the session has some context, but it is unknown which.
    """
    if not now or sent == now:
        # A request without context revokes nothing: some clients send it once.
        return ""
    if sent is None:
        return f"{_REPLACED}\n\n{now}"
    if not sent:
        return now
    old, new = _keyed(sent), _keyed(now)
    if [*old.items()] == [*new.items()]:
        return ""
    changes = _changes(old, new)
    if changes is None or sum(map(len, changes)) > len(now) * _MAX_FRACTION:
        return f"{_REPLACED}\n\n{now}"
    return "\n\n".join([_CHANGED, *changes])


def _changes(old: Mapping[_Key, str], new: Mapping[_Key, str]) -> Sequence[str] | None:
    """The changes from `old` to `new`, section by section; None where sections alone cannot express them."""
    if [key for key in old if key in new] != [key for key in new if key in old]:
        return None
    if any(key.text for key in old.keys() ^ new.keys()):
        return None
    several = {key.name for key in (*old, *new) if key.number > 1}
    changes = [f"No longer valid: the {_named(key, several)}." for key in old if key not in new]
    behind: _Key | None = None
    for key, text in new.items():
        if key in old and old[key] != text:
            changes.append(f"This replaces the earlier {_named(key, several)}:\n\n{text}")
        elif key not in old:
            if behind is not None and behind.text:
                # The text before it may refer to it, and a text has no name to give as the place.
                return None
            place = f"behind the {_named(behind, several)}" if behind else "before everything else"
            changes.append(f"New, {place}:\n\n{text}")
        behind = key
    return changes


def _named(key: _Key, several: Container[str]) -> str:
    return f"section <{key.name}>" + (f" number {key.number}" if key.name in several else "")


def _keyed(text: str) -> dict[_Key, str]:
    """The units of a text by their keys, in order."""
    counted: Counter[_Key] = Counter()
    keyed: dict[_Key, str] = {}
    for name, unit in units(text):
        first = _Key(name, 1, "" if name else unit)
        counted[first] += 1
        keyed[first._replace(number=counted[first])] = unit
    return keyed


def units(text: str) -> Iterator[tuple[str, str]]:
    """Split a text into sections, each with its name, and the text between them, with an empty name."""
    lines = text.split("\n")
    ends = _ends(lines)
    between: list[str] = []
    line = 0
    while line < len(lines):
        opened = _OPENS.match(lines[line])
        end = ends.get(line) if opened and opened.start(1) == 1 else None
        if opened is None or end is None:
            between.append(lines[line])
            line += 1
            continue
        yield from _text(between)
        between.clear()
        yield opened[1], "\n".join(lines[line : end + 1]).rstrip()
        line = end + 1
    yield from _text(between)


def _text(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    text = "\n".join(lines).strip()
    if text:
        yield "", text


def _ends(lines: Sequence[str]) -> dict[int, int]:
    """The last line of each element that begins at a line's start and closes at a line's end, by its first line.

    Everything else is text. So are all elements of a name that has an opening tag without a closing tag, or the reverse:
    the text probably only mentions that tag, and it is ambiguous which tags belong together.
    """
    ends: defaultdict[str, dict[int, int]] = defaultdict(dict)
    opened: defaultdict[str, list[int]] = defaultdict(list)
    unbalanced: set[str] = set()
    for number, line in enumerate(lines):
        opens = _OPENS.match(line)
        if opens is not None:
            if _CLOSES_ITSELF.match(line, opens.end()):
                ends[opens[1]][number] = number
                continue
            opened[opens[1]].append(number)
        closes = _CLOSES.search(line)
        if closes is None:
            continue
        if opened[closes[1]]:
            ends[closes[1]][opened[closes[1]].pop()] = number
        else:
            unbalanced.add(closes[1])
    unbalanced.update(name for name, unclosed in opened.items() if unclosed)
    return {
        begin: end for name, found in ends.items() if name not in unbalanced for begin, end in found.items()
    }
