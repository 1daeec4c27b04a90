"""One turn: from a prompt to a stop reason. https://agentclientprotocol.com/protocol/prompt-turn

The tool loop does the work: it asks the model, asks for permission, runs what is allowed, and asks the model again until it
has nothing more to call. This module sets up the turn, and translates its end into a stop reason.
"""

from __future__ import annotations

from contextlib import suppress

from dragoman.acp.messages import PromptResponse
from dragoman.demo.agent.hooks import AcpHooks
from dragoman.demo.agent.messages import RequestRefused
from dragoman.demo.agent.model import DemoModel
from dragoman.demo.agent.permissions import DemoPermissions
from dragoman.demo.agent.prompt import UserPrompt
from dragoman.demo.agent.session import Session
from dragoman.demo.agent.updates import Usage
from dragoman.jsonrpc import INTERNAL_ERROR, ConnectionClosed
from dragoman.lm import (
    CancellationError,
    CancellationSource,
    Consumer,
    JsonObject,
    Message,
    estimate_tokens,
    until_cancelled,
)
from dragoman.loop import EndReason, LoopSettings, RunState, ToolLoop, begin

__all__ = ["take_turn"]

_SETTINGS = LoopSettings(
    # A script that calls more often than this goes in circles.
    turns=25,
    # Each call has its own question and its own answer.
    on_denial="ask-each",
    # A client that cancels waits for the end of the turn.
    cancel_grace_seconds=2.0,
)

_STOP_REASONS: dict[EndReason, str] = {
    "completed": "end_turn",
    "tool_denied": "end_turn",
    "timed_out": "cancelled",
    "cancelled": "cancelled",
    "turn_limit": "max_turn_requests",
}


async def take_turn(session: Session, prompt: UserPrompt, source: CancellationSource) -> PromptResponse:
    """Answer `prompt`, until `source` is cancelled at most. Raises `RequestRefused` when the model fails."""
    with suppress(CancellationError):
        # A slow server does not delay a cancel: the loop below ends at once then.
        await until_cancelled(session.toolbox.refresh(), source.token)
    peer, toolbox = session.shared.peer, session.toolbox
    permissions = DemoPermissions(peer, session.id, toolbox, source.cancel)

    async def drain() -> None:
        with suppress(ConnectionClosed):
            await peer.drain()

    model = DemoModel(
        session.shared.script,
        speed=session.speed,
        send=session.send,
        drain=drain,
        problems=lambda: toolbox.problems,
        prompts=session.shared.prompts,
    )
    face = AcpHooks(session.send, permissions, toolbox, session.save)
    consumer = Consumer("acp", session.id, tuple(map(str, toolbox.workspace)))
    loop = ToolLoop(model, toolbox.runtime, hooks=face, settings=_SETTINGS, consumer=consumer)
    state = begin((*session.messages, *prompt.messages))
    session.save(state.messages)
    given = len(state.messages)
    try:
        state = await loop.run(state, source.token)
    finally:
        permissions.close_all()
    usage = _usage(state.messages, given)
    session.send(Usage(sum(map(estimate_tokens, state.messages)), model.info.max_input_tokens))
    return PromptResponse(_stop_reason(state), usage)


def _stop_reason(state: RunState) -> str:
    if state.error is not None:
        if state.error.kind == "blocked":
            return "refusal"
        raise RequestRefused(INTERNAL_ERROR, state.error.message, state.error.hint)
    return _STOP_REASONS.get(state.ended or "completed", "end_turn")


def _usage(messages: tuple[Message, ...], given: int) -> JsonObject:
    """The tokens of this turn: each answer was made of everything before it."""
    read = written = before = 0
    for index, message in enumerate(messages):
        tokens = estimate_tokens(message)
        if index >= given and message.role == "assistant":
            read += before
            written += tokens
        before += tokens
    return {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}
