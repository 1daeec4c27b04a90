"""The message that brings an agent the results that its predecessor waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dragoman.backends.agent.machine.types import CallAnswer, Pending
from dragoman.lm import Message, Part, TextPart, ToolResult, user
from dragoman.lm.parts import is_for_model

__all__ = ["lost_results"]

_RESTARTED = "You were restarted while you waited."


def lost_results(orphaned: Sequence[Pending], answers: Mapping[str, CallAnswer]) -> Message:
    """A message for an agent with the results that its predecessor waited for."""
    parts: list[Part] = []
    for call in orphaned:
        answer = answers.get(call.call_id)
        if call.kind == "permission":
            parts.append(TextPart("A permission was asked for; if it is still needed, ask again.\n\n"))
        elif isinstance(answer, ToolResult):
            came = "failed" if answer.is_error else "returned"
            parts += TextPart(f"The tool {call.part.name} {came}:\n\n"), *_for_model(answer), TextPart("\n\n")
        else:
            parts.append(TextPart(f"The call of the tool {call.part.name} was interrupted.\n\n"))
    known = {call.call_id for call in orphaned}
    for call_id, answer in answers.items():
        if call_id not in known and isinstance(answer, ToolResult):
            parts += TextPart(f"The call {call_id} returned:\n\n"), *_for_model(answer), TextPart("\n\n")
    return user(f"{_RESTARTED} ", *parts, "Go on from there.")


def _for_model(answer: ToolResult) -> Iterator[Part]:
    return filter(is_for_model, answer.content)
