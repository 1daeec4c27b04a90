"""Converts parts for consumers that do not support all kinds.

Thinking becomes text or nothing where the consumer has no thinking parts (S10); data gets a visible line, because
editors do not draw it (S11), unless the consumer shows pictures and files itself; text that we compose is plain where the
consumer renders no Markdown; links that act are made inert (S13); activities, plans and usage become thinking and data
where the consumer has no such parts (`activity_text`). The conversion is deterministic, so that a back end can store
what the consumer gets by running its own `Presentation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal, TypeAlias

import msgspec

from dragoman.lm import gfm
from dragoman.lm.activity_text import INTERRUPTION, Activities
from dragoman.lm.foreign_items import file_of, is_heading, item_line, item_of
from dragoman.lm.links import InertLinks
from dragoman.lm.parts import (
    CONVERSATION,
    IGNORED,
    ITEM,
    ITEM_MIME_TYPES,
    REFUSAL,
    STATEFUL_MARKER,
    STOPPED,
    DataPart,
    NoticePart,
    Part,
    ProgressPart,
    TextPart,
    ThinkingPart,
    UsagePart,
)
from dragoman.lm.request import Features
from dragoman.lm.stops import Stopped

__all__ = ["Presentation", "Reasoning", "ReasoningFallback", "Style"]

Reasoning: TypeAlias = Literal["thinking", "text", "hide"]
ReasoningFallback: TypeAlias = Literal["text", "hide"]


class Style(msgspec.Struct, frozen=True):
    """A model's settings for what is shown of its thinking."""

    reasoning: Reasoning = "thinking"
    reasoning_fallback: ReasoningFallback = "text"


class Presentation:
    """Turns the parts of one response into those its consumer gets."""

    def __init__(self, features: Features, style: Style, activities: Activities | None = None) -> None:
        """`activities` has the state of an agent's activities that earlier responses showed."""
        self._features = features
        self._links = InertLinks()
        self._links_in_thoughts = InertLinks()
        # From the first of them on, if none was given.
        self._activities = activities
        if activities is not None:
            # Another response begins at the margin: output in it needs its title.
            activities.last_written = None
        # Which of the two was shown as text last, to set them apart.
        self._last: Literal["text", "thought"] | None = None
        if style.reasoning == "thinking" and not features.thinking:
            self._reasoning: Reasoning = style.reasoning_fallback
        else:
            self._reasoning = style.reasoning

    def present(self, part: Part) -> Iterable[Part]:
        if type(part) is NoticePart:
            part = TextPart(self._readable(part.value), part.audience)
        # Nearly all parts are text, with nothing before it that it has to be set apart from.
        if isinstance(part, TextPart) and part.value and self._last == "text":
            if self._activities is not None:
                self._activities.last_written = None
            inert = self._links.feed(part.value)
            return (part if inert is part.value else TextPart(inert, part.audience),)
        if self._activities is None:
            if not isinstance(part, ProgressPart):
                return () if part is INTERRUPTION else self._present(part)
            self._activities = Activities()
        features = self._features
        structured = features.activity or (features.reports and isinstance(part, UsagePart))
        written = self._activities.present(part, structured=structured, markdown=features.markdown)
        return chain.from_iterable(map(self._present, written))

    def _present(self, part: Part) -> Iterator[Part]:
        match part:
            case TextPart(value=value):
                if value:
                    yield from self._set_apart("text")
                yield self._inert(part)
            case ThinkingPart(value=value) if self._reasoning == "thinking":
                pieces = (value,) if isinstance(value, str) else value
                inerts = tuple(self._links_in_thoughts.feed(piece) for piece in pieces)
                yield (
                    part if inerts == tuple(pieces) else ThinkingPart("".join(inerts), part.id, part.metadata)
                )
            case ThinkingPart():
                if self._reasoning == "text" and part.text:
                    yield from self._set_apart("thought")
                    yield TextPart(self._links.feed(part.text))
            case DataPart(mime_type=mime_type) if mime_type == STOPPED:
                yield self._stop(part)
            case DataPart(mime_type=mime_type) if mime_type in ITEM_MIME_TYPES and not self._features.items:
                yield from self._in_place_of_item(part)
            case DataPart():
                if self._takes(part):
                    yield part
                if not part.is_internal and not self._features.items:
                    self._last = None
                    yield TextPart(self._readable(gfm.notice(_line(part))))
            case _:
                yield part

    def _inert(self, part: TextPart) -> TextPart:
        inert = self._links.feed(part.value)
        return part if inert is part.value else TextPart(inert, part.audience)

    def _takes(self, part: DataPart) -> bool:
        if part.mime_type == STATEFUL_MARKER:
            return True
        if part.mime_type in (CONVERSATION, IGNORED):
            return self._features.reports
        if self._features.items and (part.mime_type in ITEM_MIME_TYPES or not part.is_internal):
            return True
        return self._features.data or (self._features.reports and part.is_internal)

    def _in_place_of_item(self, part: DataPart) -> Iterator[Part]:
        """The file that an item consists of, the words of a refusal, and otherwise a line that names the item."""
        if part.mime_type == REFUSAL:
            yield from self._present(TextPart(part.data.decode("utf-8", "replace")))
        elif part.mime_type == ITEM:
            item = item_of(part)
            if (file := file_of(item)) is not None:
                yield from self._present(file)
            elif not is_heading(item):
                self._last = None
                yield TextPart(item_line(item))

    def _stop(self, part: DataPart) -> Part:
        """Once: to a program by its name, to a person in words."""
        stopped = Stopped.of(part)
        if self._features.reports and stopped.reason != "other":
            return part
        self._last = None
        return TextPart(self._links.feed(self._readable(gfm.notice(stopped.words))))

    def _readable(self, markdown: str) -> str:
        """Text that we compose, as the consumer shows it."""
        return markdown if self._features.markdown else gfm.plain(markdown)

    def _set_apart(self, kind: Literal["text", "thought"]) -> Iterator[Part]:
        """A blank line between thinking that is shown as text and the answer, whichever comes first."""
        if self._last not in (None, kind):
            yield TextPart("\n\n")
        self._last = kind


def _line(part: DataPart) -> str:
    what = "Image" if part.mime_type.startswith("image/") else "Data"
    return f"{what}: {gfm.escape(part.mime_type)}, {len(part.data):,} bytes"
