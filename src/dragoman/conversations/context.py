"""What the consumer's program says beside the user, told to an agent once.

A consumer has no memory of what its model was told: it sends all of its instructions with every request, many kilobytes
for one date that is another today. An agent has a session, which remembers. So all of it is told to a session that is
new; after that, what has changed.

What a sentence means is decided by what stands around it: an item of a list may be a command or its opposite. So no part
of a text is ever told by itself. What can be told alone is a *section*: a whole element (`<editorContext>…</editorContext>`)
that is in no other one, and has a name and a place. One that has changed is told whole, one that is new with its place,
one that is gone by its name. Whatever else changes (the text between sections, their order) makes everything be told again.
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
# With a prefix or without one; an address in angle brackets is none.
_NAME = r"([A-Za-z][\w.-]*(?::[\w.-]+)?)"
_OPENS = re.compile(rf"[ \t]*<{_NAME}(?=[\s/>]|$)")
_CLOSES = re.compile(rf"</{_NAME}\s*>\s*$")
_CLOSES_ITSELF = re.compile(r"[^<>]*/>\s*$")
# Where the changes are more than this part of everything, everything is the plainer thing to tell.
_MOST = 0.5


class _Key(NamedTuple):
    """What a unit is known by: a section by its name and its number among those of the name, a text by all that it says."""

    name: str
    number: int
    text: str = ""


def context_of(messages: Sequence[Message]) -> str:
    return "\n\n".join(
        message.text for message in messages if message.role == "system" and message.text.strip()
    )


def news(told: str | None, now: str) -> str:
    """What an agent that was told the one must hear to know the other. Empty: nothing.

    None: it was told something, and nobody knows any more what that was.
    """
    if not now or told == now:
        # A request without any context takes nothing back: some clients say it once.
        return ""
    if told is None:
        return f"{_REPLACED}\n\n{now}"
    if not told:
        return now
    old, new = _keyed(told), _keyed(now)
    if [*old.items()] == [*new.items()]:
        return ""
    changes = _changes(old, new)
    if changes is None or sum(map(len, changes)) > len(now) * _MOST:
        return f"{_REPLACED}\n\n{now}"
    return "\n\n".join([_CHANGED, *changes])


def _changes(old: Mapping[_Key, str], new: Mapping[_Key, str]) -> Sequence[str] | None:
    """From the one to the other, section by section; None where that cannot be told so."""
    if [key for key in old if key in new] != [key for key in new if key in old]:
        return None
    if any(key.text for key in old.keys() ^ new.keys()):
        return None
    several = {key.name for key in (*old, *new) if key.number > 1}
    changes = [f"No longer valid: the {_named(key, several)}." for key in old if key not in new]
    behind: _Key | None = None
    for key, said in new.items():
        if key in old and old[key] != said:
            changes.append(f"This replaces the earlier {_named(key, several)}:\n\n{said}")
        elif key not in old:
            if behind is not None and behind.text:
                # It may be what this text speaks of, and a text has no name to say so by.
                return None
            place = f"behind the {_named(behind, several)}" if behind else "before everything else"
            changes.append(f"New, {place}:\n\n{said}")
        behind = key
    return changes


def _named(key: _Key, several: Container[str]) -> str:
    return f"section <{key.name}>" + (f" number {key.number}" if key.name in several else "")


def _keyed(text: str) -> dict[_Key, str]:
    """All that is said, in its order."""
    counted: Counter[_Key] = Counter()
    keyed: dict[_Key, str] = {}
    for name, said in units(text):
        first = _Key(name, 1, "" if name else said)
        counted[first] += 1
        keyed[first._replace(number=counted[first])] = said
    return keyed


def units(text: str) -> Iterator[tuple[str, str]]:
    """All that is said: sections with their names, and the text between them without."""
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
    """Where each element ends that begins a line and is closed at the end of one. What is not, is text.

    So are all elements of a name that is opened or closed somewhere without the other, because it is only spoken of there:
    nobody can tell which of them belong together.
    """
    ends: defaultdict[str, dict[int, int]] = defaultdict(dict)
    opened: defaultdict[str, list[int]] = defaultdict(list)
    spoken_of: set[str] = set()
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
            spoken_of.add(closes[1])
    spoken_of.update(name for name, unclosed in opened.items() if unclosed)
    return {
        begin: end for name, found in ends.items() if name not in spoken_of for begin, end in found.items()
    }
