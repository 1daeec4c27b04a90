"""Messages, and a lenient decoder for them.

Valid messages are decoded by msgspec as they are typed here. Unexpected content does not fail the request: a part of an
unknown type becomes an internal data part that contains it, unknown fields and invalid values of optional fields are
ignored, and a call without arguments has none.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar, cast

import msgspec

from dragoman.lm.errors import LanguageModelError
from dragoman.lm.json import JsonObject, encode, encode_text
from dragoman.lm.parts import (
    UNKNOWN_PART,
    ActivityPart,
    ContentPart,
    DataPart,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
)

__all__ = [
    "Message",
    "Role",
    "assistant",
    "messages_from",
    "system",
    "user",
]

_P = TypeVar("_P", bound=Part)

Role: TypeAlias = Literal["user", "assistant", "system"]


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Role
    # Written also when it is empty, as every consumer expects it.
    content: tuple[Part, ...] = msgspec.field(default_factory=lambda: ())
    name: str | None = None

    @property
    def text(self) -> str:
        return "".join(part.value for part in self.content if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.content if isinstance(part, ToolCallPart))

    @property
    def results(self) -> tuple[ToolResultPart, ...]:
        return tuple(part for part in self.content if isinstance(part, ToolResultPart))


def user(*content: Part | str, name: str | None = None) -> Message:
    return Message("user", _parts(content), name)


def assistant(*content: Part | str, name: str | None = None) -> Message:
    return Message("assistant", _parts(content), name)


def system(*content: Part | str) -> Message:
    return Message("system", _parts(content))


def _parts(content: tuple[Part | str, ...]) -> tuple[Part, ...]:
    return tuple(TextPart(part) if isinstance(part, str) else part for part in content)


def messages_from(value: object) -> tuple[Message, ...]:
    """The messages of an array that is already decoded, taking what it can."""
    if not isinstance(value, list):
        raise LanguageModelError("bad_request", "The messages must be an array.")
    return tuple(_message(item, index) for index, item in enumerate(value))


def _message(value: object, index: int) -> Message:
    if not isinstance(value, dict):
        raise LanguageModelError("bad_request", f"Message {index} is not an object.")
    role = value.get("role")
    if role not in ("user", "assistant", "system"):
        raise LanguageModelError(
            "bad_request", f"Message {index} has the role {role!r}. Use 'user', 'assistant' or 'system'."
        )
    content = value.get("content")
    if isinstance(content, str):
        parts: tuple[Part, ...] = (TextPart(content),)
    elif isinstance(content, list):
        parts = tuple(_part(item) for item in content)
    elif content is None:
        parts = ()
    else:
        raise LanguageModelError("bad_request", f"The content of message {index} is not an array of parts.")
    name = value.get("name")
    return Message(cast("Role", role), parts, name if isinstance(name, str) else None)


def _part(value: object) -> Part:
    part = _known(value)
    return DataPart(UNKNOWN_PART, encode(value)) if part is None else part


def _known(value: object) -> Part | None:
    """The part of a known type that `value` is; None if it is none."""
    if not isinstance(value, dict):
        return None
    match value.get("type"):
        case "text":
            return _salvaged(value, TextPart)
        case "thinking":
            return _salvaged(value, ThinkingPart)
        case "data":
            return _salvaged(value, DataPart)
        case "tool_call":
            return _salvaged({**value, **_arguments(value.get("input"))}, ToolCallPart)
        case "tool_result":
            result = _salvaged({**value, "content": ()}, ToolResultPart)
            return result and msgspec.structs.replace(result, content=_content(value.get("content")))
        case "activity":
            return _salvaged(value, ActivityPart)
        case "plan":
            return _salvaged(value, PlanPart)
        case "usage":
            return _salvaged(value, UsagePart)
        case _:
            return None


def _salvaged(value: JsonObject, kind: type[_P]) -> _P | None:
    """Decode a part without its invalid optional fields; None if a required field is invalid."""
    valid: JsonObject = {"type": value["type"]}
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name in value and (field.required or _fits(value[name], field.type)):
            valid[name] = value[name]
    try:
        return msgspec.convert(valid, kind)
    except msgspec.ValidationError:
        return None


def _fits(value: object, kind: type) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _content(value: object) -> tuple[ContentPart, ...]:
    """What a tool returned: a result is never lost for the form of what is in it.

    Content of an unknown kind becomes JSON, which every model can read.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return (TextPart(value),)
    parts = ((item, _known(item)) for item in (value if isinstance(value, list) else [value]))
    return tuple(
        part if isinstance(part, TextPart | DataPart) else DataPart.json(item) for item, part in parts
    )


def _arguments(value: object) -> JsonObject:
    if value is None:
        return {"input": {}}
    if isinstance(value, dict):
        return {"input": value}
    return {"input": {}, "unparsed": value if isinstance(value, str) else encode_text(value)}
