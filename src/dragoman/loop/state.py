"""A run as a value: its messages, its open calls, and how it ended.

A run can be stored at any moment and taken up in another process. What cannot survive that is reported when it goes
on: a call that was running is interrupted, and one that was approved but had not begun needs a new approval.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.lm import ErrorKind, Message
from dragoman.lm.json import encode
from dragoman.loop.events import EndReason
from dragoman.loop.history import close, gaps
from dragoman.loop.round import CallState, Round

__all__ = ["Failure", "RunState", "StateError", "begin", "dump", "load"]

_VERSION = 1


class StateError(Exception):
    """The stored state cannot be read."""


class Failure(msgspec.Struct, frozen=True):
    """Why the model failed, and what to do."""

    kind: ErrorKind
    message: str
    hint: str | None = None


class RunState(msgspec.Struct, frozen=True, rename="camel"):
    # Closed at all times: the answer whose calls are open is in `messages` only once they have their results.
    messages: tuple[Message, ...]
    turn: int = 0
    # The last answer, while its calls are open.
    answer: Message | None = None
    round: Round | None = None
    ended: EndReason | None = None
    error: Failure | None = None
    version: int = _VERSION


def begin(messages: Iterable[Message]) -> RunState:
    """A run that goes on from this history, which is closed first if it is not."""
    return RunState(close(messages))


_decoder = msgspec.json.Decoder(RunState)


def dump(state: RunState) -> bytes:
    return encode(state)


def load(data: bytes) -> RunState:
    """Read a stored run. `StateError` if it is not one."""
    try:
        state = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StateError(f"This is no saved run: {error}. Start a new one.") from error
    if state.version != _VERSION:
        raise StateError(
            f"This run was saved in format {state.version}; this version reads format {_VERSION}. Start a new one."
        )
    damage = _damage(state)
    if damage is not None:
        raise StateError(f"This saved run is damaged: {damage}. Start a new one.")
    return state


def _damage(state: RunState) -> str | None:
    """Why a state is inconsistent, or None. Going on from such a state could run a call twice, or lose one."""
    if found := gaps(state.messages):
        return f"its history is not closed ({found[0]})"
    if state.round is None and state.answer is None:
        return "it waits for a decision about no call" if state.ended == "suspended" else None
    if state.round is None or state.answer is None or state.answer.role != "assistant":
        return "its open calls do not match its last answer"
    if state.ended not in (None, "suspended"):
        return "it has ended, but has open calls"
    calls = tuple(one.call for one in state.round.calls)
    if not calls or calls != state.answer.calls or len({call.call_id for call in calls}) != len(calls):
        return "its open calls do not match its last answer"
    if not all(map(_is_whole, state.round.calls)):
        return "a call does not match its result"
    return None


def _is_whole(state: CallState) -> bool:
    has_result = state.result is not None and state.result.call_id == state.call.call_id
    return has_result if state.status == "done" else state.result is None
