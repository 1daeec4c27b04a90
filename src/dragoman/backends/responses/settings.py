"""The settings of one endpoint's model."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.lm import JsonObject

__all__ = ["SILENCE_SECONDS", "EndpointSettings"]

SILENCE_SECONDS = 120.0
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    model_id: str
    name: str
    base_url: str
    # What the endpoint calls the model.
    model: str
    # Neither is ever shown: not in a log, not in an error, not by `repr`.
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Where the key is configured, in words for the user who must change it.
    key_place: str | None = None
    options: JsonObject = field(default_factory=dict)
    # Without a single byte for so long, an answer has failed.
    silence: float = SILENCE_SECONDS
    # What names our consumers to the endpoint, so that it learns nothing about them. By default until this process ends.
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(_SECRET_BYTES), repr=False)

    @property
    def url(self) -> str:
        return self.base_url.rstrip("/").removesuffix("/responses")

    def redacted(self, text: str) -> str:
        """The endpoint's text, without the key that it may repeat."""
        for secret in filter(None, (self.key, *self.headers.values())):
            text = text.replace(secret, "[redacted]")
        return text
