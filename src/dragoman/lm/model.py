"""The interface between front ends and back ends.

Front ends do not know back ends, and back ends do not know front ends; both use this. A `LanguageModel` describes itself,
counts tokens cheaply and answers a request by reporting parts to a `Sink`. A response is complete when `respond`
returns; it has failed when `respond` raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from dragoman.lm.cancellation import CancellationToken
from dragoman.lm.errors import LanguageModelError
from dragoman.lm.json import JsonObject
from dragoman.lm.messages import Message
from dragoman.lm.parts import (
    ActivityPart,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
)
from dragoman.lm.request import Request

__all__ = [
    "Capabilities",
    "Closing",
    "Compacting",
    "Delivery",
    "LanguageModel",
    "ModelInfo",
    "Presenting",
    "ResponseTaken",
    "Resumable",
    "Sink",
    "estimate_tokens",
    "with_capability_tags",
]


class Capabilities(msgspec.Struct, frozen=True, rename="camel"):
    # Whether the model calls tools, or how many it takes at most.
    tool_calling: bool | int = True
    image_input: bool = False


class ModelInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    id: str
    name: str
    family: str
    version: str
    max_input_tokens: int
    max_output_tokens: int
    capabilities: Capabilities = Capabilities()
    # Whether it can be made to call a tool (the mode "required").
    required_calls: bool = False
    # Whether it follows `RequestOptions.answer_form`.
    takes_forms: bool = False
    # Whether `model_options` have an effect: an agent has its own settings.
    takes_options: bool = False
    tooltip: str | None = None
    detail: str | None = None
    # What it can do, for consumers that look at nothing else. A back end names what `capabilities` has no field for: `agent`,
    # `permissions` (it may ask before it acts), `thinking`. `with_capability_tags` adds the rest.
    tags: tuple[str, ...] = ()
    # Of the whole context, as the model has reported it. `max_input_tokens` limits requests; an agent shortens its own context.
    max_context_window_tokens: int | None = None
    # A JSON Schema of what a request may choose (`RequestOptions.model_configuration`).
    configuration_schema: JsonObject | None = None
    is_byok: bool | None = msgspec.field(default=None, name="isBYOK")
    is_user_selectable: bool | None = None


def with_capability_tags(info: ModelInfo) -> ModelInfo:
    """With `tools` and `images` among its tags, as its capabilities say: they may be known only after a while."""
    has = {"tools": bool(info.capabilities.tool_calling), "images": info.capabilities.image_input}
    own = [tag for tag in info.tags if tag not in has]
    return msgspec.structs.replace(info, tags=(*own, *(tag for tag, is_so in has.items() if is_so)))


class Sink(Protocol):
    """Where a response goes, part by part.

    `report` takes a part at once and never waits, so that order needs no thought; `drain` waits while the consumer is
    behind. A provider that produces faster than it can be read awaits `drain` now and then.
    """

    def report(self, part: Part) -> None: ...

    async def drain(self) -> None: ...


class LanguageModel(Protocol):
    @property
    def info(self) -> ModelInfo: ...

    def count_tokens(self, text: str | Message) -> int:
        """Count tokens, within microseconds: consumers call it for every line they render."""
        ...

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None: ...


@runtime_checkable
class Presenting(Protocol):
    """A model that applies `Presentation` itself, because it must know what its consumer was shown.

    The guard checks the parts of such a model and passes them on unchanged.
    """

    @property
    def presents(self) -> bool: ...


@runtime_checkable
class Delivery(Protocol):
    """A model that tells a retry from a wish for another answer by what has reached the consumer."""

    def delivered(self, conversation: str, *, whole: bool) -> None:
        """The last reply of this conversation has reached the consumer whole, or will not reach it whole."""
        ...


class ResponseTaken(LanguageModelError):
    """Another process has the response, and lives. This one must not end it."""

    def __init__(self, node: str) -> None:
        super().__init__("unavailable", f"Another gateway has the response's stream from {node}.")


@runtime_checkable
class Resumable(Protocol):
    """A model that runs elsewhere, and whose background responses another process can continue if this one ends.

    While it responds to a request with `Consumer.response_id`, it reports positions (`parts.POSITION`).
    """

    def keep(self, response_id: str) -> None:
        """From now on, keep everything after the last position that was stored."""
        ...

    def stored(self, response_id: str, position: str) -> None:
        """Everything before this position is stored."""
        ...

    def release(self, response_id: str) -> None:
        """Keep nothing more: the end is stored, or never will be."""
        ...

    def hand_over(self, response_id: str) -> None:
        """Let another process continue it, after the last position that was stored."""
        ...

    async def resume(self, response_id: str, position: str, sink: Sink, token: CancellationToken) -> None:
        """Report the rest of a response that another process began: everything after this position.

        Raises `ResponseTaken`.
        """
        ...


@runtime_checkable
class Compacting(Protocol):
    """A model that can make a long history short."""

    async def compacted(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Messages that stand for these in later requests to this model. They mean nothing to any other.

        Raises `LanguageModelError` of the kind `not_found` if it has no such thing after all.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """A model with resources, such as processes or connections. Its creator closes it."""

    async def close(self) -> None: ...


# Four bytes a token is what tokenizers of the last years come to for English and code; other scripts use more bytes
# a character and more tokens a character, so bytes are the better measure.
_BYTES_A_TOKEN = 4
# Roles and separators around a message.
_TOKENS_A_MESSAGE = 4
# Vision models charge by tiles; this is the usual price of a picture of a megapixel.
_TOKENS_AN_IMAGE = 1_600


def estimate_tokens(text: str | Message) -> int:
    """Estimate the number of tokens, locally and cheaply. Never zero for a non-empty text."""
    if isinstance(text, str):
        return _of_text(text)
    return _TOKENS_A_MESSAGE + sum(_of_part(part) for part in text.content)


def _of_text(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_A_TOKEN)


def _of_part(part: Part) -> int:
    match part:
        case TextPart(value=value):
            return _of_text(value)
        case ThinkingPart():
            return _of_text(part.text)
        case ToolCallPart(name=name, input=arguments, unparsed=unparsed):
            return _TOKENS_A_MESSAGE + _of_text(name) + _of_text(unparsed or str(arguments))
        case ToolResultPart(content=content):
            return _TOKENS_A_MESSAGE + sum(_of_part(inner) for inner in content)
        case ActivityPart() | PlanPart() | UsagePart():
            # No back end sends them to a model.
            return 0
        case _ if part.is_internal:
            return 0
        case _ if part.mime_type.startswith("image/"):
            return _TOKENS_AN_IMAGE
        case _:
            return -(-len(part.data) // _BYTES_A_TOKEN)
