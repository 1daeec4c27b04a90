"""The parts that messages and responses are made of.

A part is a value: it is built whole, never changed, and its JSON is its form on the wire (`docs/reference/protocol.md`).
What a response may contain, and in what order, is not decided here but in `rules`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.lm.json import JsonObject, encode

__all__ = [
    "ACTIVITY",
    "ANNOTATION",
    "CACHE_CONTROL",
    "CONVERSATION",
    "IGNORED",
    "INTERNAL_MIME_TYPES",
    "ITEM",
    "ITEM_EVENT",
    "ITEM_MIME_TYPES",
    "LINK",
    "LOGPROBS",
    "POSITION",
    "REFUSAL",
    "STATEFUL_MARKER",
    "STOPPED",
    "UNKNOWN_PART",
    "USAGE",
    "ActivityKind",
    "ActivityLocation",
    "ActivityNote",
    "ActivityPart",
    "ActivityStatus",
    "Audience",
    "ContentPart",
    "DataPart",
    "NoticePart",
    "Outcome",
    "Part",
    "PlanEntry",
    "PlanPart",
    "PlanPriority",
    "PlanStatus",
    "ProgressPart",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "ToolResult",
    "ToolResultPart",
    "UsagePart",
    "is_for_model",
    "progress_key",
]

STATEFUL_MARKER = "stateful_marker"
CACHE_CONTROL = "cache_control"
USAGE = "usage"
# Why an answer ended before its time (`stops`), and which conversation it belongs to, by what evidence.
STOPPED = "application/vnd.dragoman.stopped+json"
CONVERSATION = "application/vnd.dragoman.conversation+json"
UNKNOWN_PART = "application/vnd.dragoman.unknown-part+json"
# The JSON of an activity, a plan or a usage, where an editor has only data parts for it: the VS Code extension makes them.
ACTIVITY = "application/vnd.dragoman.activity+json"
# An item of Open Responses that no part has a form for, and an annotation of the text before it. Both are unchanged.
ITEM = "application/vnd.dragoman.item+json"
ANNOTATION = "application/vnd.dragoman.annotation+json"
# An event about such an item, from its `response.output_item.added` on. The item itself follows when it is complete.
ITEM_EVENT = "application/vnd.dragoman.item-event+json"
# A piece of a refusal, as text, and the log probabilities of the text after it.
REFUSAL = "application/vnd.dragoman.refusal"
LOGPROBS = "application/vnd.dragoman.logprobs+json"
# Only for consumers with `Features.items`. Others get what `foreign_items` makes of them.
ITEM_MIME_TYPES = frozenset({ITEM, ITEM_EVENT, ANNOTATION, REFUSAL, LOGPROBS})
# A link to a file that the model may read itself: its address, and nothing else (RFC 2483).
LINK = "text/uri-list"
# Everything before it can be stored as one: from here another process can continue the response (`Resumable`).
POSITION = "application/vnd.dragoman.position+json"
# A list of names: what the request asked for, or contained, and the model did not get.
IGNORED = "application/vnd.dragoman.ignored+json"

# Data parts that two programs exchange about a conversation. They are not content: a person does not see them, and
# comparisons of histories ignore them.
INTERNAL_MIME_TYPES = ITEM_MIME_TYPES | {
    STATEFUL_MARKER,
    CACHE_CONTROL,
    USAGE,
    STOPPED,
    CONVERSATION,
    UNKNOWN_PART,
    ACTIVITY,
    IGNORED,
    POSITION,
}

# MIME types that are text, besides `text/…` and the `+json` and `+xml` types.
_TEXTUAL = frozenset({"application/javascript", "application/json", "application/xml", "application/yaml"})

Audience: TypeAlias = Literal["user", "model", "extension"]

# The outcome of a tool call. `denied`: the user refused it. `skipped`: the user was not asked, because an earlier one was
# denied or a program decided that it must not run. `interrupted`: it was cut off, and may have run in part. `timed_out`:
# the user did not decide in time.
Outcome: TypeAlias = Literal["ok", "error", "denied", "skipped", "interrupted", "timed_out"]

ActivityKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
ActivityStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
PlanPriority: TypeAlias = Literal["high", "medium", "low"]
PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class _Part(msgspec.Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    """The base of all parts: frozen, tagged by `type`, absent fields left out."""


class TextPart(_Part, frozen=True, tag="text", gc=False):
    """Markdown that a person reads. Consecutive ones are one text.

    There are many, and none can be part of a cycle: the collector need not look at them.
    """

    value: str
    # Only meaningful inside a tool result: for whom this piece is meant. Empty: for all.
    audience: tuple[Audience, ...] = ()


class NoticePart(TextPart, frozen=True, tag="text", gc=False):
    """Markdown that we compose. A consumer that renders no Markdown gets it without the marks (`gfm.plain`)."""

    # False: other events of the journal say the same.
    is_recorded: bool = True


class ThinkingPart(_Part, frozen=True, tag="thinking"):
    """What a model thinks before it answers."""

    value: str | tuple[str, ...]
    id: str | None = None
    metadata: JsonObject | None = None

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else "".join(self.value)


class ToolCallPart(_Part, frozen=True, tag="tool_call"):
    """A complete call, ready to be made."""

    call_id: str
    name: str
    input: JsonObject
    # The arguments as the model wrote them, when they are no JSON object. Such a call must not be made; `input` is
    # empty then. A provider emits one only to a consumer that asks for it (`Features.unparsed_calls`).
    unparsed: str | None = None


class DataPart(_Part, frozen=True, tag="data"):
    """Bytes of a type: an image, a file, a structured value, or one of the internal kinds."""

    mime_type: str
    data: bytes
    audience: tuple[Audience, ...] = ()
    # The name of a file, where its sender gives it one.
    name: str = ""

    @classmethod
    def image(cls, data: bytes, mime_type: str) -> DataPart:
        if not mime_type.startswith("image/"):
            raise ValueError(f"an image has a mime type that begins with 'image/', not {mime_type!r}")
        return cls(mime_type=mime_type, data=data)

    @classmethod
    def json(cls, value: object, mime_type: str = "application/json") -> DataPart:
        return cls(mime_type=mime_type, data=encode(value))

    @classmethod
    def text(cls, value: str, mime_type: str = "text/plain") -> DataPart:
        return cls(mime_type=mime_type, data=value.encode())

    @classmethod
    def link(cls, address: str, name: str) -> DataPart:
        return cls(mime_type=LINK, data=address.encode(), name=name)

    @property
    def is_internal(self) -> bool:
        return self.mime_type in INTERNAL_MIME_TYPES

    @property
    def named_text(self) -> str:
        """Its bytes as text, below the name of the file if it has one."""
        text = self.data.decode("utf-8", "replace")
        return f"{self.name}:\n\n{text}" if self.name else text

    @property
    def is_textual(self) -> bool:
        """Whether its bytes are text, by its type."""
        essence = self.mime_type.partition(";")[0].strip()
        return essence.startswith("text/") or essence in _TEXTUAL or essence.endswith(("+json", "+xml"))


ContentPart: TypeAlias = TextPart | DataPart


def is_for_model(part: ContentPart) -> bool:
    """Whether a model is to read this piece of a result."""
    if isinstance(part, DataPart) and part.is_internal:
        return False
    return not part.audience or "model" in part.audience


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool returned. `ToolResultPart` is the same in a message, with the id of its call."""

    content: tuple[ContentPart, ...] = ()
    is_error: bool = False

    @classmethod
    def text(cls, value: str) -> ToolResult:
        return cls((TextPart(value),))

    @classmethod
    def error(cls, message: str) -> ToolResult:
        return cls((TextPart(message),), is_error=True)


class ToolResultPart(_Part, frozen=True, tag="tool_result"):
    """What a call came to. Only in messages; never in a response.

    The first three fields are what every consumer sends. The loop also records what was called, with what, and the
    outcome, so that a history can be read on its own.
    """

    call_id: str
    # Written also when it is empty, as every consumer expects it.
    content: tuple[ContentPart, ...] = msgspec.field(default_factory=lambda: ())
    is_error: bool = False
    name: str | None = None
    input: JsonObject | None = None
    outcome: Outcome | None = None

    @property
    def text(self) -> str:
        return "".join(part.value for part in self.content if isinstance(part, TextPart))


class ActivityLocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in a file."""

    path: str
    line: int | None = None


class ActivityPart(_Part, frozen=True, tag="activity"):
    """One step that an agent takes itself, as far as it has come. It replaces the earlier one with its id.

    All strings are plain text, not Markdown.
    """

    id: str
    title: str
    kind: ActivityKind
    status: ActivityStatus
    # Written also when it is empty.
    locations: tuple[ActivityLocation, ...] = msgspec.field(default_factory=lambda: ())
    # A unified diff of all files that it changes, whole.
    diff: str | None = None
    # Everything that it printed so far, up to `activity_text.OUTPUT_LIMIT`.
    output: str | None = None
    exit_status: int | None = None


class ActivityNote(ActivityPart, frozen=True, tag="activity"):
    """An activity whose text the provider writes itself. Consumers with the feature get it without that text."""

    # Markdown, for consumers that have no activities. They get it as thinking.
    text: str = ""
    # False: other events of the journal say the same.
    is_recorded: bool = True

    @property
    def activity(self) -> ActivityPart:
        return ActivityPart(
            self.id,
            self.title,
            self.kind,
            self.status,
            self.locations,
            self.diff,
            self.output,
            self.exit_status,
        )


class PlanEntry(msgspec.Struct, frozen=True):
    text: str
    priority: PlanPriority
    status: PlanStatus


class PlanPart(_Part, frozen=True, tag="plan"):
    """What an agent intends to do, whole. It replaces the earlier plan."""

    entries: tuple[PlanEntry, ...]


class UsagePart(_Part, frozen=True, tag="usage"):
    """Tokens, context and cost, as far as the provider names them. It replaces the earlier usage."""

    input: int | None = None
    output: int | None = None
    # Where the provider counts more than the two above.
    total: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    context_used: int | None = None
    context_size: int | None = None
    cost: float | None = None
    # ISO 4217.
    currency: str | None = None
    # The usage as the provider wrote it, if it has more than the fields above.
    reported: JsonObject | None = None


# Progress beside the answer. It is not part of the answer's content.
ProgressPart: TypeAlias = ActivityPart | PlanPart | UsagePart


def progress_key(part: ProgressPart) -> str:
    """A later part with the same key replaces this one."""
    return f"activity {part.id}" if isinstance(part, ActivityPart) else type(part).__name__


Part: TypeAlias = (
    TextPart | ThinkingPart | ToolCallPart | ToolResultPart | DataPart | ActivityPart | PlanPart | UsagePart
)
