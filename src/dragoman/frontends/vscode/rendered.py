"""The user's own words, out of what VS Code's chat makes of them.

Its agent mode renders a prompt: the words stand between `<userRequest>` tags, around them the date, reminders of how to
use its tools, attachments; a message before the first says what the workspace looks like. To an agent with a mind of
its own the words and the attachments are what the user says. The rest is context from the program it is used in: it is
told as a system message. It comes again in every turn, as it is then; what it was in an earlier one holds no more, and
is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.lm import Message, Part, TextPart

__all__ = ["unrendered_messages"]

# The last thing in a message; words that contain the tags themselves are the user's all the same.
_WORDS = re.compile(r"<userRequest>\n?(.*?)\n?</userRequest>[ \t]*\n*\Z", re.DOTALL)
_ATTACHED = re.compile(r"<attachments>\n.*?\n</attachments>\n?", re.DOTALL)
# What stands for a history that was cut is part of the conversation.
_SUMMARY = "<conversation-summary>"


def unrendered_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A rendered history as a conversation; one that was not rendered, as it is."""
    rendered = [index for index, message in enumerate(messages) if _is_rendered(message)]
    if not rendered:
        return tuple(messages)
    # A message that stays part of the conversation has no context for the last one to replace.
    last = max((index for index in rendered if not _stays(messages[index])), default=None)
    return tuple(
        piece
        for index, message in enumerate(messages)
        for piece in _pieces(message, leads=index < rendered[0], is_last=index == last)
    )


def _is_rendered(message: Message) -> bool:
    return message.role == "user" and any(
        isinstance(part, TextPart) and _WORDS.search(part.value) for part in message.content
    )


def _stays(message: Message) -> bool:
    return message.role != "user" or bool(message.results) or _SUMMARY in message.text


def _pieces(message: Message, *, leads: bool, is_last: bool) -> Iterator[Message]:
    if _stays(message):
        yield message
    elif _is_rendered(message):
        around, said = _taken_apart(message)
        if is_last:
            yield from _context(around)
        yield Message(message.role, said, message.name)
    elif leads and all(isinstance(part, TextPart) for part in message.content):
        yield from _context(message.text)
    else:
        yield message


def _context(text: str) -> Iterator[Message]:
    if text.strip():
        yield Message("system", (TextPart(text.strip()),))


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
