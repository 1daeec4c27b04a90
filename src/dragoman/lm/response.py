"""The consumer's view of a response: text joined, calls in order, and a message to put into the history."""

from __future__ import annotations

from dragoman.lm.messages import Message
from dragoman.lm.parts import DataPart, Part, TextPart, ThinkingPart, ToolCallPart

__all__ = ["Response"]


class Response:
    """A sink that keeps what it is given. `message` folds it back into a history."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def report(self, part: Part) -> None:
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
        folded: list[Part] = []
        for part in self.parts:
            last = folded[-1] if folded else None
            match part, last:
                case TextPart(value="", audience=()), _:
                    continue
                case TextPart(value=more, audience=audience), TextPart(value=text) if (
                    last.audience == audience
                ):
                    folded[-1] = TextPart(text + more, audience)
                case ThinkingPart(), ThinkingPart() if part.id == last.id and not (
                    part.metadata or last.metadata
                ):
                    folded[-1] = ThinkingPart(last.text + part.text, part.id)
                case _:
                    folded.append(part)
        return Message("assistant", tuple(folded))
