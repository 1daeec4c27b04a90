"""Holds the text of a reply back, because the reply must have a form or end with a call.

Until the agent has ended its turn, it is unknown which of its words are the answer. Everything else goes on: thinking,
activities, calls, and notices of ours. When a step or a call shows that text was not the last message, that text goes out
as thinking, so that nothing is lost. What is left at the end of the turn is judged (`judging`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.forms.extraction import MOST_CHARACTERS
from dragoman.lm import ActivityPart, Features, Part, Style, TextPart, ThinkingPart, ToolCallPart
from dragoman.lm.gfm import plain
from dragoman.lm.parts import NoticePart

__all__ = ["HeldText", "only_thinking", "style_of_form"]


class HeldText:
    """The text of one reply that is held back."""

    def __init__(self, features: Features, *, has_form: bool) -> None:
        """`has_form`: the text of the reply is JSON, so that a notice of ours is thinking, too."""
        self._is_markdown = features.markdown
        self._has_form = has_form
        self._pieces: list[str] = []
        self._length = 0
        # The steps that the reply has shown: a newer state of one does not end a message.
        self._steps: set[str] = set()

    @property
    def text(self) -> str:
        """The message so far. Of one that is too long to be an answer, only the beginning."""
        return "".join(self._pieces)

    def take(self, part: Part) -> Iterator[Part]:
        """Take a part of the reply, and yield the parts that go out now."""
        if isinstance(part, NoticePart):
            yield ThinkingPart(self._readable(part.value)) if self._has_form else part
            return
        if isinstance(part, TextPart):
            yield from self._take_text(part.value)
            return
        if isinstance(part, ToolCallPart) or (isinstance(part, ActivityPart) and part.id not in self._steps):
            yield from self.release()
        if isinstance(part, ActivityPart):
            self._steps.add(part.id)
        yield part

    def _readable(self, text: str) -> str:
        return text if self._is_markdown else plain(text)

    def _take_text(self, text: str) -> Iterator[Part]:
        if self._length > MOST_CHARACTERS:
            yield ThinkingPart(text)
            return
        self._pieces.append(text)
        self._length += len(text)
        if self._length > MOST_CHARACTERS:
            yield ThinkingPart(self.text)

    def release(self) -> Iterator[Part]:
        """The text as thinking: it is not the answer."""
        text = "" if self._length > MOST_CHARACTERS else self.text
        self.clear()
        if text:
            yield ThinkingPart(text)

    def clear(self) -> None:
        """Drop the text, because the answer takes its place."""
        self._pieces.clear()
        self._length = 0


def style_of_form(style: Style, features: Features) -> Style:
    """The style of a reply whose text is JSON: thinking is never shown as text."""
    shows = style.reasoning != "hide" and features.thinking
    return Style("thinking" if shows else "hide", "hide")


def only_thinking(parts: Iterable[Part], features: Features) -> Iterator[Part]:
    """Parts without text: a line for a picture, for example, is no part of the JSON."""
    for part in parts:
        if not isinstance(part, TextPart):
            yield part
        elif features.thinking:
            yield ThinkingPart(part.value)
