"""What a request asks for and what it gets, whatever its dialect."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Ask", "Call", "Dialect", "Gate", "Json", "Reply", "Tool", "flat", "pictures"]

Json: TypeAlias = dict[str, Any]
Dialect: TypeAlias = Literal["chat", "responses", "messages", "gemini"]


@dataclass(frozen=True)
class Tool:
    name: str
    schema: Json = field(default_factory=dict)
    # Responses only: the group it is in; and whether its input is free text.
    namespace: str | None = None
    is_custom: bool = False

    @property
    def properties(self) -> dict[str, Json]:
        return self.schema.get("properties") or {}

    @property
    def full_name(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}{self.name}"


@dataclass
class Ask:
    dialect: Dialect
    model: str
    is_streaming: bool
    tools: tuple[Tool, ...]
    # The newest of the user's messages that has a script; else the last.
    text: str
    # How many of the user's messages had a script.
    turn: int
    # Rounds of calls since that message, and what they brought: the id of a call → its result.
    rounds: int
    results: dict[str, str]
    pictures: int
    body: Json
    # Of what answers it. Agents take two answers with one id for the same.
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    # Filled in when it is answered.
    reply: Reply | None = None
    is_over: bool = False
    was_cut: bool = False


@dataclass(frozen=True)
class Call:
    id: str
    tool: Tool
    input: Json


@dataclass(frozen=True)
class Gate:
    """A place in a stream that is passed when the gate is opened."""

    name: str


@dataclass(frozen=True)
class Reply:
    said: tuple[str | Gate, ...] = ()
    calls: tuple[Call, ...] = ()
    status: int | None = None

    @property
    def text(self) -> str:
        return "".join(piece for piece in self.said if isinstance(piece, str))


def flat(content: object) -> str:
    """The text of a message's content, or of a tool's result."""
    match content:
        case str():
            return content
        case list():
            return "\n".join(filter(None, map(flat, content)))
        case {"text": str(text)}:
            return text
        case {"content": inner} | {"output": inner}:
            return flat(inner)
        case _:
            return ""


def pictures(content: object) -> int:
    if not isinstance(content, list):
        return 0
    return _count(part.get("type") for part in content if isinstance(part, dict))


def _count(kinds: Iterable[object]) -> int:
    return sum(kind in {"image", "image_url", "input_image"} for kind in kinds)
