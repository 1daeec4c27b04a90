"""The user's own words, out of what VS Code's chat makes of them.

Its agent mode renders a prompt: the words stand between `<userRequest>` tags, around them the date, reminders of how to
use its tools, attachments; a message before the first says what the workspace looks like. To an agent with a mind of
its own the words and the attachments are what the user says. The rest is context from the program it is used in, and
comes again in every turn: it is told as a system message, and of a later turn's only the sections that are others then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.backends.agent.context import sections
from dragoman.lm import Message, Part, TextPart

__all__ = ["spoken"]

# The last thing in a message; words that contain the tags themselves are the user's all the same.
_WORDS = re.compile(r"<userRequest>\n?(.*?)\n?</userRequest>[ \t]*\n*\Z", re.DOTALL)
_ATTACHED = re.compile(r"<attachments>\n.*?\n</attachments>\n?", re.DOTALL)
_TAG = re.compile(r"<[A-Za-z][\w-]*")
# What stands for a history that was cut is part of the conversation.
_SUMMARY = "<conversation-summary>"


def spoken(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A rendered history as a conversation; one that was not rendered, as it is."""
    first = next((index for index, message in enumerate(messages) if _is_rendered(message)), None)
    if first is None:
        return tuple(messages)
    told: dict[str, list[str]] = {}
    return tuple(
        piece
        for index, message in enumerate(messages)
        for piece in _pieces(message, told, leads=index < first)
    )


def _is_rendered(message: Message) -> bool:
    return message.role == "user" and any(
        isinstance(part, TextPart) and _WORDS.search(part.value) for part in message.content
    )


def _pieces(message: Message, told: dict[str, list[str]], *, leads: bool) -> Iterator[Message]:
    if message.role != "user" or message.results or _SUMMARY in message.text:
        yield message
    elif _is_rendered(message):
        around, said = _taken_apart(message)
        yield from _context(around, told)
        yield Message(message.role, said, message.name)
    elif leads and all(isinstance(part, TextPart) for part in message.content):
        yield from _context(message.text, told)
    else:
        yield message


def _context(text: str, told: dict[str, list[str]]) -> Iterator[Message]:
    """What of it is not as it was told last, by the names of its sections."""
    said: dict[str, list[str]] = {}
    named = [(_name(section), section) for section in sections(text)]
    for name, section in named:
        said.setdefault(name, []).append(section)
    new = [section for name, section in named if told.get(name) != said[name]]
    told |= said
    if new:
        yield Message("system", (TextPart(text.strip() if len(new) == len(named) else "\n".join(new)),))


def _name(section: str) -> str:
    tag = _TAG.match(section)
    return tag[0] if tag else section


def _taken_apart(message: Message) -> tuple[str, tuple[Part, ...]]:
    """What stands around the words, and the words with what belongs to them."""
    around: list[str] = []
    said: list[Part] = []
    for part in message.content:
        words = _WORDS.search(part.value) if isinstance(part, TextPart) else None
        if not isinstance(part, TextPart):
            said.append(part)
        elif words is None:
            around.append(part.value)
        else:
            before = part.value[: words.start()]
            said += [TextPart(attached) for attached in _ATTACHED.findall(before)]
            around.append(_ATTACHED.sub("", before))
            said.append(TextPart(words[1]))
    return "\n".join(around), tuple(said)
