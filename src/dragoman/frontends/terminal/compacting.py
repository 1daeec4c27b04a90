"""`/compact`: a shorter context for a long chat.

The chat keeps all of its messages, for the journal, for other models and for `/export`. Only what the model gets becomes
shorter: in front of the newer messages stands what the model itself has made of the older ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from dragoman.lm import CancellationToken, LanguageModel, Message, ModelInfo, Request, Sink

__all__ = ["CompactedHistory", "CompactedModel", "compact_command", "how_else"]

# What agents call it, the most usual first.
_NAMES = ("compact", "compress", "summarize")


def compact_command(commands: Iterable[str]) -> str | None:
    """The one of an agent's commands that makes its context shorter."""
    known = set(commands)
    return next((name for name in _NAMES if name in known), None)


def how_else(model: str) -> str:
    """What to do where a model has no compaction."""
    return (
        f"{model} cannot make its context shorter. Ask it for a summary, and put that at the beginning of a /new conversation. "
        "This one stays: /resume goes back to it."
    )


@dataclass(frozen=True, slots=True)
class CompactedHistory:
    # So many messages at the beginning of the chat have been made into these.
    count: int
    messages: tuple[Message, ...]


class CompactedModel:
    """A model that gets the beginning of the chat in the form that it has made of it."""

    def __init__(self, model: LanguageModel, history: CompactedHistory) -> None:
        self._model = model
        self._history = history

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    def count_tokens(self, text: str | Message) -> int:
        return self._model.count_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        newer = request.messages[self._history.count :]
        short = replace(request, messages=(*self._history.messages, *newer))
        await self._model.respond(short, sink, token)
