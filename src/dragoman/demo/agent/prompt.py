"""Parses a prompt into the user's own text, pictures, and context.

Clients put more into a prompt than the user typed: what the editor knows, files, a transcript of a conversation the agent
was no part of. The user's words come last, so the last block of text is taken for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.acp.content import ContentBlock, ImageBlock, TextBlock, parts_of
from dragoman.demo.agent.messages import RequestRefused
from dragoman.jsonrpc import INVALID_PARAMS
from dragoman.lm import DataPart, Message, Part, TextPart, system, user

__all__ = ["TRANSCRIPT", "UserPrompt", "read_prompt"]

# How a transcript begins that a client gives to an agent which joins a conversation.
TRANSCRIPT = "<conversation-so-far"


@dataclass(frozen=True, slots=True)
class UserPrompt:
    words: str
    pictures: tuple[DataPart, ...] = ()
    context: tuple[str, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages for the history: the context as a system message, then the user's message."""
        parts: list[Part] = [TextPart(self.words)] if self.words else []
        context_messages = (system("\n\n".join(self.context)),) if self.context else ()
        return (*context_messages, user(*parts, *self.pictures))


def read_prompt(blocks: Sequence[ContentBlock]) -> UserPrompt:
    """Parse the blocks of a prompt. Raises `RequestRefused` if the user says nothing."""
    last = max((index for index, block in enumerate(blocks) if isinstance(block, TextBlock)), default=-1)
    words = ""
    pictures: list[DataPart] = []
    context: list[str] = []
    # The pictures right after a transcript were in it.
    in_transcript = False
    for index, block in enumerate(blocks):
        match block:
            case TextBlock(text=text) if index == last and not text.startswith(TRANSCRIPT):
                words = text
                in_transcript = False
            case TextBlock(text=text):
                context.append(text)
                in_transcript = text.startswith(TRANSCRIPT)
            case ImageBlock() if in_transcript:
                pass
            case _:
                for part in parts_of(block):
                    if isinstance(part, DataPart):
                        pictures.append(part)
                    elif isinstance(part, TextPart):
                        context.append(part.value)
    if not words.strip() and not pictures:
        raise RequestRefused(INVALID_PARAMS, "The prompt says nothing.")
    return UserPrompt(words, tuple(pictures), tuple(context))
