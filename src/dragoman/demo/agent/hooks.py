"""The loop with an ACP face: what happens in it becomes updates, what it asks becomes permission requests.

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
    Tell,
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

__all__ = ["Face"]


class Face(Hooks):
    """The host of one turn."""

    def __init__(
        self,
        tell: Tell,
        permissions: DemoPermissions,
        toolbox: Toolbox,
        keep: Callable[[tuple[Message, ...]], None],
    ) -> None:
        self._tell = tell
        self._permissions = permissions
        self._toolbox = toolbox
        self._keep = keep
        self._kept: tuple[Message, ...] = ()
        # The calls that are under way, and what is shown of them beside what they return.
        self._shown: dict[str, tuple[object, ...]] = {}
        # Behind a picture comes a line for those who cannot draw it. A client of ours can, or says so itself.
        self._skips_line = False

    def on_event(self, event: RunEvent) -> None:
        match event:
            case TextReported() if self._skips_line:
                self._skips_line = False
            case TextReported(text=text):
                self._tell(AgentMessageChunk(TextBlock(text)))
            case ThinkingReported(text=text):
                self._tell(AgentThoughtChunk(TextBlock(text)))
            case DataReported(part=part):
                self._skips_line = not part.is_internal
                self._tell(AgentMessageChunk(block_of(part)))
            case ToolUsed(call=call):
                self._announce(call)
            case ToolStarted(call_id=call_id):
                self._tell(ToolCallUpdate(call_id, status="in_progress"))
            case ToolProgressed(call_id=call_id, line=line):
                content = (*self._shown.get(call_id, ()), Content(TextBlock(line)))
                self._tell(ToolCallUpdate(call_id, content=content))
            case ToolFinished(result=result):
                self._permissions.close(result.call_id)
                self._tell(finished(result, self._shown.pop(result.call_id, ())))
            case _:
                # Turns begin and end by themselves: a prompt and its response are what a client sees of them.
                pass

    def on_state(self, state: RunState) -> None:
        if state.messages is not self._kept:
            self._kept = state.messages
            self._keep(state.messages)

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:  # noqa: ARG002 - a hook
        return await self._permissions.decide(question)

    async def on_tool_result(
        self,
        call: ToolCallPart,  # noqa: ARG002 - a hook
        result: ToolResult,
        *,
        approved: bool,  # noqa: ARG002 - a hook
    ) -> ToolResult:
        # Before the model goes on: what it is offered next should be what there is.
        await self._toolbox.settled()
        return result

    def _announce(self, call: ToolCallPart) -> None:
        action = describe(call, self._toolbox)
        self._tell(ToolCall(**msgspec.structs.asdict(action.activity)))
        self._shown[call.call_id] = tuple(
            item for item in action.activity.content or () if isinstance(item, DiffUpdate)
        )
        self._permissions.ask_ahead(call, action)
