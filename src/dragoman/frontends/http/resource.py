"""The response resource: the fields of its request and its outcome, thirty-one in all.

Every response has every field, because the specification requires each. A field without a value is null. A response in a
conversation of this server also has that conversation's id, as at OpenAI.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from typing import Literal, TypeAlias

import msgspec

from dragoman.frontends.http.errors import ApiError
from dragoman.frontends.http.ignored import names_of, with_ignored
from dragoman.lm import DataPart, JsonObject, StopReason

__all__ = ["Resource", "Status", "new_id"]

Status: TypeAlias = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

_ID_BYTES = 16
_REASONS: dict[StopReason, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
# The values of fields that a request leaves out.
_DEFAULTS: JsonObject = {
    "instructions": None,
    "tools": [],
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "temperature": 1.0,
    "reasoning": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
}


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(_ID_BYTES)}"


class _Begun(msgspec.Struct, frozen=True):
    """The fields that a response has from its creation on, beside those of its request."""

    id: str
    model: str
    created_at: int
    metadata: JsonObject
    previous_response_id: str | None
    store: bool
    background: bool
    conversation: dict[str, str] | None = None


@dataclass(slots=True)
class Resource:
    """One response, from its creation to its end."""

    id: str
    model: str
    created_at: int
    # The fields of the request that the response repeats.
    echoed: JsonObject = field(default_factory=dict)
    metadata: JsonObject = field(default_factory=dict)
    previous: str | None = None
    is_stored: bool = False
    is_background: bool = False
    # The id of its conversation, if this server made that id.
    conversation: str | None = None
    output: list[JsonObject] = field(default_factory=list)
    status: Status = "in_progress"
    completed_at: int | None = None
    usage: JsonObject | None = None
    error: ApiError | None = None
    stop: StopReason | None = None

    @classmethod
    def begun_as(cls, stored: JsonObject) -> Resource:
        """The resource of a stored response, as it was when the response began."""
        begun = msgspec.convert(stored, _Begun)
        return cls(
            begun.id,
            begun.model,
            begun.created_at,
            {name: stored[name] for name in _DEFAULTS if name in stored},
            begun.metadata,
            begun.previous_response_id,
            is_stored=begun.store,
            is_background=begun.background,
            conversation=begun.conversation["id"] if begun.conversation is not None else None,
        )

    def add_ignored(self, part: DataPart) -> None:
        """Add the names of what the model did not get."""
        self.metadata = with_ignored(self.metadata, names_of(part))

    @property
    def derived_ids(self) -> Callable[[str], str]:
        """Makes the ids of this response's items. They are the same each time its events are computed."""
        numbers = count()

        def make(prefix: str) -> str:
            named = f"{self.id} {next(numbers)}".encode()
            return f"{prefix}_{blake2b(named, digest_size=_ID_BYTES, person=b'dragoman-item').hexdigest()}"

        return make

    def as_json(self) -> JsonObject:
        reason = _REASONS.get(self.stop) if self.stop is not None else None
        error = None if self.error is None else {"code": self.error.code, "message": self.error.message}
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "completed_at": self.completed_at,
            "status": self.status,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": self.model,
            "previous_response_id": self.previous,
            "output": list(self.output),
            "error": error,
            "usage": self.usage,
            "store": self.is_stored,
            "background": self.is_background,
            "metadata": self.metadata,
            **{name: self.echoed.get(name, default) for name, default in _DEFAULTS.items()},
            **({"conversation": {"id": self.conversation}} if self.conversation is not None else {}),
        }
