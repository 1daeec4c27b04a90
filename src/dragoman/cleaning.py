"""Removes secrets from what is written to a trace or a journal.

By what it is: a value that the configuration or the environment calls secret. By where it stands: the headers and the
environment of a tool server, the address of ours, whatever is called a key, a token or a password. By its form: bearer
tokens, and the keys that services give out. What was found in one place is taken out wherever it comes again.

A secret that an agent says in several pieces, some in this message and some in the next, is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dragoman.lm import JsonObject
from dragoman.logs import REDACTED, Redaction

__all__ = ["Cleaning"]

_SECRET_NAME = re.compile(
    r"(?:api.?key|access.?key|token|secret|password|authorization|credentials?)$", re.IGNORECASE
)
_SECRET_FORM = re.compile(
    r"(?P<scheme>\bBearer\s+)[\w.~+/=-]{6,}|\bsk-[\w-]{16,}|\bgh[a-z]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[a-z]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b",
    re.IGNORECASE,
)
# One of these, or `gh…_`, is in every text that the form matches. Looking for them is a hundred times faster.
_HINTS = ("bearer", "sk-", "xox", "akia")
# The part of an address that keeps others from finding it is long; `mcp` is not.
_TICKET_LENGTH = 16
_SEPARATOR = re.compile("[/?#]")


class Cleaning:
    def __init__(self, redaction: Redaction) -> None:
        """`redaction` is shared: secrets that are added to it later count from then on."""
        self._redaction = redaction

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Add the values of variables whose names say that they are secret."""
        self._redaction.add(value for name, value in environment.items() if _SECRET_NAME.search(name))

    def text(self, text: str) -> str:
        text = self._redaction.redacted(text)
        lowered = text.lower()
        if not any(hint in lowered for hint in _HINTS) and not ("_" in text and "gh" in lowered):
            return text
        return _SECRET_FORM.sub(lambda found: f"{found['scheme'] or ''}{REDACTED}", text)

    def message(self, message: JsonObject) -> JsonObject:
        # First what there is to learn: an address may stand before the header that has the same ticket.
        self._redaction.add(_tickets(message))
        return {name: self.value(name, value) for name, value in message.items()}

    def value(self, name: str, value: object) -> object:
        """A JSON value that has this name, without secrets."""
        match value:
            case str():
                return REDACTED if _SECRET_NAME.search(name) else self.text(value)
            case list() | tuple():
                return [self.value(name, each) for each in value]
            case dict():
                cleaned = {self.text(key): self.value(key, each) for key, each in value.items()}
                # A header, or a variable.
                if isinstance(value.get("value"), str) and (
                    name in ("headers", "env") or _SECRET_NAME.search(str(value.get("name")))
                ):
                    cleaned["value"] = REDACTED
                return cleaned
            case _:
                return value


def _tickets(message: JsonObject) -> Iterator[str]:
    """The credentials that a client gives an agent for its tool servers."""
    params = message.get("params")
    servers = params.get("mcpServers") if isinstance(params, dict) else None
    for server in servers if isinstance(servers, list) else ():
        if not isinstance(server, dict):
            continue
        if isinstance(url := server.get("url"), str):
            path = _SEPARATOR.split(url.partition("://")[2])[1:]
            yield from (part for part in path if len(part) >= _TICKET_LENGTH)
        for pairs in (server.get("headers"), server.get("env")):
            for pair in pairs if isinstance(pairs, list) else ():
                if isinstance(pair, dict) and isinstance(value := pair.get("value"), str):
                    yield value.removeprefix("Bearer ")
