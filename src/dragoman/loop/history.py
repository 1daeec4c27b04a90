"""A history is closed when every tool call in it has exactly one result, in the message after it, in call order.

Models refuse a history that is not, or answer it badly; so none goes to a model before it is closed. Histories that
come from outside may be open: a program was killed, a person edited. `close` gives the calls without a result
one that says so, and drops results without a call. It adds nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dragoman.lm import JsonObject, Message, Part, TextPart, ToolCallPart, ToolResultPart

__all__ = ["INTERRUPTED_BEFORE", "INTERRUPTED_DURING", "close", "gaps", "lost_result", "readable_input"]

INTERRUPTED_BEFORE = "Error: Tool execution was interrupted before it began; nothing was run."
INTERRUPTED_DURING = "Error: Tool execution was interrupted while it ran; it may have taken effect in part."
_LOST = "Error: Tool execution was interrupted, and its result was lost; it may have taken effect."


def gaps(messages: Sequence[Message]) -> list[str]:
    """Why this history is not closed, in words; empty if it is closed."""
    found: list[str] = []
    expected: list[str] = []
    for index, message in enumerate(messages):
        calls = [call.call_id for call in message.calls]
        given = [result.call_id for result in message.results]
        if given != expected:
            found.append(f"message {index} answers {given}, where {expected} was called")
        if calls and message.role != "assistant":
            found.append(f"message {index} makes calls, but is the {message.role}'s")
        if given and message.role != "user":
            found.append(f"message {index} has results, but is the {message.role}'s")
        if len(set(calls)) != len(calls):
            found.append(f"message {index} uses a call id twice: {calls}")
        expected = calls
    if expected:
        found.append("the history ends before its last calls are answered")
    return found


def close(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The same history with one result for each call, in call order, right after it.

    What is closed already stays as it is, message by message.
    """
    history = tuple(messages)
    # A result may stand further down than where it belongs; the first one for a call is the one that came of it.
    results: dict[str, ToolResultPart] = {}
    for result in (
        result for message in history if message.role != "assistant" for result in message.results
    ):
        results.setdefault(result.call_id, result)
    closed: list[Message] = []
    for exchange in _exchanges(history):
        closed.extend(_closed(exchange, results) if gaps(exchange) else exchange)
    return tuple(closed)


def _exchanges(messages: Iterable[Message]) -> list[list[Message]]:
    """An answer with what follows it up to the next one: where its results are, if there are any."""
    exchanges: list[list[Message]] = [[]]
    for message in messages:
        if message.role == "assistant":
            exchanges.append([])
        exchanges[-1].append(message)
    return exchanges


def _closed(exchange: Sequence[Message], results: Mapping[str, ToolResultPart]) -> list[Message]:
    closed: list[Message] = []
    calls: dict[str, ToolCallPart] = {}
    for message in exchange:
        content: list[Part] = []
        for part in message.content:
            match part:
                case ToolCallPart():
                    # One that is no answer's, or whose id stands for another already, cannot be answered.
                    if message.role == "assistant" and part.call_id not in calls:
                        calls[part.call_id] = part
                        content.append(part)
                case ToolResultPart():
                    # It goes to its call. One without a call is about nothing.
                    pass
                case _:
                    content.append(part)
        if content or not message.content:
            closed.append(Message(message.role, tuple(content), message.name))
    if calls:
        found = (results.get(call_id) or lost_result(call) for call_id, call in calls.items())
        closed.insert(1, Message("user", tuple(found)))
    return closed


def lost_result(call: ToolCallPart) -> ToolResultPart:
    """The result for a call that may or may not have run."""
    return ToolResultPart(
        call.call_id,
        (TextPart(_LOST),),
        is_error=True,
        name=call.name,
        input=readable_input(call),
        outcome="interrupted",
    )


def readable_input(call: ToolCallPart) -> JsonObject | None:
    """The input as far as it parses: not at all, or whole."""
    return None if call.unparsed is not None else call.input
