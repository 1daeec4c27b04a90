"""An agent's own texts in our messages: its error responses, and its output.

They are untrusted, so they are cut to a length that a person reads, and terminal sequences are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.jsonrpc import RemoteError
from dragoman.visible import visible, visible_line

__all__ = ["as_sentence", "cleaned", "is_rate_limit", "words_of"]

# Of one text in an error: a stack trace that an agent puts there is not for an answer.
_LONGEST = 600
# Where agents put what their message leaves out, and how deep: Gemini's `details`, Codex's `message`, `error.message`.
_DETAILS = ("message", "details", "error")
_DEEPEST = 3
# ACP has no code for a rate limit. Gemini sends the HTTP status as the code; other agents only report it in words.
_TOO_MANY_REQUESTS = 429
_RATE_LIMIT = re.compile(
    r"\brate[ _-]?limit|\busage[ _-]limit|\btoo many requests\b|\bresource[ _]exhausted\b|\b(?:status|error|code):? 429\b",
    re.IGNORECASE,
)
# Colours and the like, which are for a terminal.
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def words_of(error: RemoteError) -> str:
    """What the agent says of its error, as sentences: the message, and the details where they say more."""
    lines: list[str] = []
    for text in (error.message, *_details(error.data, _DEEPEST)):
        line = _in_short(text)
        if line and not any(line.casefold() in before.casefold() for before in lines):
            lines.append(line)
    return " ".join(lines) or f"It gives no reason (code {error.code})."


def is_rate_limit(error: RemoteError) -> bool:
    """Whether the agent reports that a provider limits its requests."""
    return error.code == _TOO_MANY_REQUESTS or _RATE_LIMIT.search(words_of(error)) is not None


def _details(data: object, deepest: int) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict) and deepest:
        for name in _DETAILS:
            yield from _details(data.get(name), deepest - 1)


def _in_short(text: str) -> str:
    # Cut first: the rest of a long text need not be looked at.
    line = visible_line(_TERMINAL_SEQUENCE.sub("", text[: 2 * _LONGEST]))
    if not line.strip(" ."):
        return ""
    return as_sentence(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")


def cleaned(text: str) -> str:
    """Text that was printed for a terminal, without terminal sequences. Line breaks stay."""
    return visible(_TERMINAL_SEQUENCE.sub("", text))


def as_sentence(text: str) -> str:
    """The text with exactly one punctuation mark at its end."""
    text = text.rstrip(" \n.")
    return text if text.endswith(("!", "?", "…")) else f"{text}."
