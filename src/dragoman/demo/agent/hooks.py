"""Hooks that connect the loop to ACP: events become updates, questions become permission requests.

text, thinking          agent_message_chunk, agent_thought_chunk
a call is made          tool_call, and session/request_permission
it runs, and ends       tool_call_update: in_progress, then completed or failed
every step              the session is written down
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.acp.content import TextBlock
from dragoman.demo.agent.actions import describe
from dragoman.demo.agent.permissions import DemoPermissions
from dragoman.demo.agent.tools import Toolbox
from dragoman.demo.agent.updates import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Content,
    DiffUpdate,
    SendUpdate,
    ToolCall,
    ToolCallUpdate,
    block_of,
    finished,
)
from dragoman.lm import CancellationToken, Message, ToolCallPart
from dragoman.lm.parts import ToolResult
from dragoman.loop import Hooks, RunEvent, RunState
from dragoman.loop.events import (
    DataReported,
    TextReported,
    ThinkingReported,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    ToolUsed,
)
from dragoman.tools.decision import Decision, ToolQuestion

__all__ = ["AcpHooks"]


class AcpHooks(Hooks):
    """The host of one turn."""

    def __init__(
        self,
        send: SendUpdate,
        permissions: DemoPermissions,
        toolbox: Toolbox,
        save: Callable[[tuple[Message, ...]], None],
    ) -> None:
        self._send = send
        self._permissions = permissions
        self._toolbox = toolbox
        self._save = save
        self._saved: tuple[Message, ...] = ()
        # The calls that are under way, and what is shown of them beside what they return.
        self._shown: dict[str, tuple[object, ...]] = {}
        # After a picture comes a line for consumers that cannot draw it. A client of ours can, or has its own.
        self._skips_line = False

    def on_event(self, event: RunEvent) -> None:
        match event:
            case TextReported() if self._skips_line:
                self._skips_line = False
            case TextReported(text=text):
                self._send(AgentMessageChunk(TextBlock(text)))
            case ThinkingReported(text=text):
                self._send(AgentThoughtChunk(TextBlock(text)))
            case DataReported(part=part):
                self._skips_line = not part.is_internal
                self._send(AgentMessageChunk(block_of(part)))
            case ToolUsed(call=call):
                self._announce(call)
            case ToolStarted(call_id=call_id):
                self._send(ToolCallUpdate(call_id, status="in_progress"))
            case ToolProgressed(call_id=call_id, line=line):
                content = (*self._shown.get(call_id, ()), Content(TextBlock(f"{line}\n")))
                self._send(ToolCallUpdate(call_id, content=content))
            case ToolFinished(result=result):
                self._permissions.close(result.call_id)
                self._send(finished(result, self._shown.pop(result.call_id, ())))
            case _:
                # A client sees a prompt and its response, and no events for turns.
                pass

    def on_state(self, state: RunState) -> None:
        if state.messages is not self._saved:
            self._saved = state.messages
            self._save(state.messages)

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:  # noqa: ARG002 - a hook
        return await self._permissions.decide(question)

    async def on_tool_result(
        self,
        call: ToolCallPart,  # noqa: ARG002 - a hook
        result: ToolResult,
        *,
        approved: bool,  # noqa: ARG002 - a hook
    ) -> ToolResult:
        # Before the model goes on, so that it is offered the current tools.
        await self._toolbox.settled()
        return result

    def _announce(self, call: ToolCallPart) -> None:
        action = describe(call, self._toolbox)
        self._send(ToolCall(**msgspec.structs.asdict(action.activity)))
        self._shown[call.call_id] = tuple(
            item for item in action.activity.content or () if isinstance(item, DiffUpdate)
        )
        self._permissions.ask_ahead(call, action)
