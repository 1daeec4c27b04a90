"""Extracts the user's own text from the prompts that VS Code's chat renders.

Its agent mode renders a prompt: the user's text is between `<userRequest>` tags. Around it are the date, reminders of how
to use its tools, and attachments. A message before the first describes the workspace. For an agent, the user message is
the text and the attachments. The rest is context from the editor, and becomes a system message. Every turn repeats this
context in its current state, so the context of earlier turns is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.lm import Message, Part, TextPart

__all__ = ["unrendered_messages"]

# The tags are the last thing in a message. The user's text may contain such tags itself.
_WORDS = re.compile(r"<userRequest>\n?(.*?)\n?</userRequest>[ \t]*\n*\Z", re.DOTALL)
_ATTACHED = re.compile(r"<attachments>\n.*?\n</attachments>\n?", re.DOTALL)
# A summary replaces a history that was cut. It is part of the conversation.
_SUMMARY = "<conversation-summary>"


def unrendered_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a rendered history without its context. Return a history that is not rendered unchanged."""
    rendered = [index for index, message in enumerate(messages) if _is_rendered(message)]
    if not rendered:
        return tuple(messages)
    # Only these messages have context, and only the context of the last one is current.
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
        around, own = _taken_apart(message)
        if is_last:
            yield from _context(around)
        yield Message(message.role, own, message.name)
    elif leads and all(isinstance(part, TextPart) for part in message.content):
        yield from _context(message.text)
    else:
        yield message


def _context(text: str) -> Iterator[Message]:
    if text.strip():
        yield Message("system", (TextPart(text.strip()),))


def _taken_apart(message: Message) -> tuple[str, tuple[Part, ...]]:
    """Split a rendered message into its context and the user's own content."""
    around: list[str] = []
    own: list[Part] = []
    for part in message.content:
        words = _WORDS.search(part.value) if isinstance(part, TextPart) else None
        if not isinstance(part, TextPart):
            own.append(part)
        elif words is None:
            around.append(part.value)
        else:
            before = part.value[: words.start()]
            own += [TextPart(attached) for attached in _ATTACHED.findall(before)]
            around.append(_ATTACHED.sub("", before))
            own.append(TextPart(words[1]))
    return "\n".join(around), tuple(own)
