"""What the agent sends its client while a turn runs: the kinds of `session/update`, as types.

https://agentclientprotocol.com/protocol/prompt-turn. `session/load` replays the history with the same updates.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from dragoman.acp.content import ContentBlock, ImageBlock, TextBlock
from dragoman.acp.messages import AcpPlanEntry, Diff, ToolActivity
from dragoman.lm import (
    ContentPart,
    DataPart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

__all__ = [
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "AgentUpdate",
    "Content",
    "CurrentMode",
    "DiffUpdate",
    "Entry",
    "Plan",
    "SendUpdate",
    "ToolCall",
    "ToolCallUpdate",
    "Usage",
    "UserMessageChunk",
    "block_of",
    "finished",
    "replay",
]


class _Update(msgspec.Struct, frozen=True, tag_field="sessionUpdate", rename="camel", omit_defaults=True):
    pass


class UserMessageChunk(_Update, frozen=True, tag="user_message_chunk"):
    content: ContentBlock


class AgentMessageChunk(_Update, frozen=True, tag="agent_message_chunk"):
    content: ContentBlock


class AgentThoughtChunk(_Update, frozen=True, tag="agent_thought_chunk"):
    content: ContentBlock


class ToolCall(ToolActivity, frozen=True, tag_field="sessionUpdate", tag="tool_call"):
    """The announcement of a tool call."""


class ToolCallUpdate(ToolActivity, frozen=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """A change to a tool call; absent fields have not changed."""


class Entry(AcpPlanEntry, frozen=True, omit_defaults=False):
    """A step of a plan. The protocol wants priority and status also when they are the usual ones."""


class Plan(_Update, frozen=True, tag="plan"):
    """The whole plan, every time."""

    entries: tuple[Entry, ...]


class Usage(_Update, frozen=True, tag="usage_update"):
    """Tokens in the context, and how many it can hold."""

    used: int
    size: int


class CurrentMode(_Update, frozen=True, tag="current_mode_update"):
    current_mode_id: str


AgentUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | Usage
    | CurrentMode
)
SendUpdate: TypeAlias = Callable[[AgentUpdate], None]


# What a tool call shows.


class Content(msgspec.Struct, frozen=True, tag_field="type", tag="content"):
    content: ContentBlock


class DiffUpdate(Diff, frozen=True, tag_field="type", tag="diff"):
    pass


def block_of(part: ContentPart) -> ContentBlock:
    """A part as a content block; data that is no image by its name and size."""
    match part:
        case TextPart(value=text):
            return TextBlock(text)
        case DataPart(mime_type=mime_type, data=data) if mime_type.startswith("image/"):
            return ImageBlock(base64.b64encode(data).decode(), mime_type)
        case DataPart(mime_type=mime_type, data=data):
            return TextBlock(f"[{mime_type}, {len(data):,} bytes]")


def _contents_of(parts: Iterable[ContentPart]) -> tuple[Content, ...]:
    return tuple(Content(block_of(part)) for part in parts)


def finished(result: ToolResultPart, shown: tuple[object, ...] = ()) -> ToolCallUpdate:
    """The end of a tool call. `shown` is what stays on view beside its result, such as a diff."""
    return ToolCallUpdate(
        result.call_id,
        status="failed" if result.is_error else "completed",
        content=(*shown, *_contents_of(result.content)),
    )


# Replaying a history.


def replay(
    messages: Iterable[Message], announce: Callable[[ToolCallPart], ToolActivity]
) -> Iterator[AgentUpdate]:
    """The updates that report a history to a client, without the context that the client itself sent."""
    for message in messages:
        if message.role != "system":
            for part in message.content:
                yield from _replay_part(part, message, announce)


def _replay_part(
    part: object, message: Message, announce: Callable[[ToolCallPart], ToolActivity]
) -> Iterator[AgentUpdate]:
    match part:
        case TextPart() | DataPart() if message.role == "user":
            yield UserMessageChunk(block_of(part))
        case TextPart() | DataPart():
            yield AgentMessageChunk(block_of(part))
        case ThinkingPart():
            yield AgentThoughtChunk(TextBlock(part.text))
        case ToolCallPart():
            # Without what a file would change: that was true then.
            yield ToolCall(**{**msgspec.structs.asdict(announce(part)), "content": None})
        case ToolResultPart():
            yield finished(part)
