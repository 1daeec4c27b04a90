"""The consumer's view of a response: text joined, calls in order, and a message to put into the history."""

from __future__ import annotations

from itertools import groupby

from dragoman.lm.messages import Message
from dragoman.lm.parts import (
    DataPart,
    Part,
    ProgressPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    progress_key,
)

__all__ = ["Response"]


class Response:
    """A sink that keeps what it is given. `message` folds it back into a history.

    An activity, a plan and a usage take the place of the one that they replace.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._places: dict[str, int] = {}

    def report(self, part: Part) -> None:
        if isinstance(part, ProgressPart):
            place = self._places.setdefault(progress_key(part), len(self.parts))
            self.parts[place : place + 1] = [part]
        else:
            self.parts.append(part)

    async def drain(self) -> None:
        """Memory is never behind."""

    @property
    def text(self) -> str:
        return "".join(part.value for part in self.parts if isinstance(part, TextPart))

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, ThinkingPart))

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def data(self) -> tuple[DataPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, DataPart))

    def message(self) -> Message:
        """The assistant message this response is, in as few parts as say the same."""
        parts = (part for part in self.parts if part != TextPart(""))
        return Message("assistant", tuple(_folded(list(run)) for _, run in groupby(parts, _Runs())))


class _Runs:
    """A key that is the same for neighbours that say the same in one part: text goes on, and so does a thought."""

    def __init__(self) -> None:
        self._last: Part | None = None
        self._run = 0

    def __call__(self, part: Part) -> int:
        if self._last is None or not _goes_on(self._last, part):
            self._run += 1
        self._last = part
        return self._run


def _goes_on(last: Part, part: Part) -> bool:
    match last, part:
        case TextPart(), TextPart():
            return last.audience == part.audience
        case ThinkingPart(), ThinkingPart():
            return last.id == part.id and not (part.metadata or last.metadata)
        case _:
            return False


def _folded(run: list[Part]) -> Part:
    match run[0]:
        case TextPart(audience=audience):
            return TextPart("".join(part.value for part in run if isinstance(part, TextPart)), audience)
        case ThinkingPart(id=identity) if len(run) > 1:
            return ThinkingPart(
                "".join(part.text for part in run if isinstance(part, ThinkingPart)), identity
            )
        case alone:
            return alone
