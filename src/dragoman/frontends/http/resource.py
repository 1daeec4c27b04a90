"""The response resource: the fields of its request and its outcome, thirty-one in all.

Every response has every field, because the specification requires each. A field without a value is null.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dragoman.frontends.http.errors import ApiError
from dragoman.lm import JsonObject, StopReason

__all__ = ["Resource", "Status", "new_id"]

Status: TypeAlias = Literal["queued", "in_progress", "completed", "incomplete", "failed"]

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
    output: list[JsonObject] = field(default_factory=list)
    status: Status = "in_progress"
    completed_at: int | None = None
    usage: JsonObject | None = None
    error: ApiError | None = None
    stop: StopReason | None = None

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
            "background": False,
            "metadata": self.metadata,
            **{name: self.echoed.get(name, default) for name, default in _DEFAULTS.items()},
        }
