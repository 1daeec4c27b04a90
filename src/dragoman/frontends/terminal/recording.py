"""Records a chat in its journal: messages when they are complete, decisions when they are made.

The prompt is stored before it is sent, and so are the results of tools. So a process that is killed loses only the answer
that is under way.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path

from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.chat_events import MessagesAdded, ModelChosen, RunEnded
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.store import RENEW_SECONDS, JournalStoreError
from dragoman.journal.writer import Journals, JournalWriter
from dragoman.lm import CancellationToken, JsonObject, Message, ToolCallPart
from dragoman.lm.json import canonical
from dragoman.lm.parts import ToolResult
from dragoman.lm.surrogates import mended
from dragoman.loop.events import CallDecided, Ended, QuestionAsked, RunEvent
from dragoman.loop.hooks import Hooks
from dragoman.loop.state import RunState
from dragoman.permissions.action import Action, is_permission_tool
from dragoman.tools.decision import Decision, ToolQuestion

__all__ = ["ChatRecorder", "RecordingHooks"]

_log = logging.getLogger(__name__)

# The title of a chat is the beginning of its first prompt.
_TITLE_CHARACTERS = 120
_DIGEST_BYTES = 16
_WHERE = "terminal"


class ChatRecorder:
    """Writes the journal of one chat. It begins with the first prompt: a chat without one leaves nothing."""

    def __init__(self, journals: Journals, id_: str, *, recorded: int = 0, sequence: int = 0) -> None:
        """`recorded` messages are in the journal, up to the event `sequence`; this process owns it if there are any."""
        self._journals = journals
        self._writer = JournalWriter(journals, id_, sequence)
        if sequence:
            self._writer.note_claimed()
        self._writer.hold(holds=True)
        self._recorded = recorded
        self._has_begun = sequence > 0
        # Calls that a person is being asked about.
        self._asked: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self, prompt: str, model: str, workspace: tuple[Path, ...]) -> None:
        """Before the first prompt: begin the journal, unless it has begun."""
        if self._has_begun:
            return
        self._has_begun = True
        await self._journals.forget_unused()
        folders = tuple(map(str, workspace))
        title = mended(prompt.strip()[:_TITLE_CHARACTERS])
        self._writer.add(JournalStarted("chat", model, folders, self._writer.journal, title=title))

    async def flush(self) -> None:
        """Store what was recorded."""
        await self._writer.flush()
        if self._renewing is None and self._journals.store is not None and self._has_begun:
            self._renewing = asyncio.create_task(self._renew())

    def leave(self) -> None:
        """Let other processes continue the chat, in a moment."""
        if self._renewing is not None:
            self._renewing.cancel()
        if self._has_begun:
            self._writer.hold(holds=False)
            self._writer.flush_soon()

    async def close(self) -> None:
        """The same, and wait for it."""
        self.leave()
        await self._writer.close()

    def messages(self, messages: tuple[Message, ...]) -> None:
        """Record those that are new of all messages of the chat."""
        if len(messages) > self._recorded:
            self._add(MessagesAdded(messages[self._recorded :]))
            self._recorded = len(messages)

    def model(self, name: str) -> None:
        if self._has_begun:
            self._add(ModelChosen(name))

    def asked(self, call_id: str, tool: str, given: JsonObject, action: Action | None) -> None:
        """Record that a tool of the terminal is about to run, or that a person is asked about it."""
        if action is None:
            return
        self._asked.add(call_id)
        is_sensitive = action.sensitive is not None
        self._add(
            PermissionRequested(
                call_id, action.agent, action.risk, tool, _digest(tool, given), is_sensitive, action
            )
        )

    def decided(self, event: CallDecided) -> None:
        call = event.call
        if call.call_id not in self._asked:
            self.asked(call.call_id, call.name, call.input, event.action)
        self._asked.discard(call.call_id)
        self.answered(event)

    def answered(self, event: CallDecided) -> None:
        """Record a decision. Its request is recorded already: here, or in the agent's journal."""
        took = round(event.seconds, 3)
        self._add(
            PermissionDecided(
                event.call.call_id, event.allowed, event.by, _WHERE, took, event.why, event.new_rule
            )
        )

    def ended(self, event: Ended) -> None:
        self._add(RunEnded(event.reason, event.error, event.hint))

    def _add(self, event: AnyEvent) -> None:
        self._writer.add(event)
        self._writer.flush_soon()

    async def _renew(self) -> None:
        """Keep the lease: as long as the chat is open, no other process continues it."""
        store = self._journals.store
        while store is not None:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await store.renew()
            except JournalStoreError as error:
                _log.warning("the chat may be continued by another process: %s", error)


class RecordingHooks(Hooks):
    """The hooks of a front end, with everything recorded that passes through them."""

    def __init__(self, hooks: Hooks, recorder: ChatRecorder) -> None:
        self._hooks = hooks
        self._recorder = recorder

    def on_event(self, event: RunEvent) -> None:
        match event:
            # What an agent asks for is in its own journal. That gets the decision with the next prompt, if there is one.
            case QuestionAsked(tool=name) if not is_permission_tool(name):
                self._recorder.asked(event.call_id, name, event.input, event.action)
            case CallDecided(call=call) if is_permission_tool(call.name):
                self._recorder.answered(event)
            case CallDecided():
                self._recorder.decided(event)
            case Ended():
                self._recorder.ended(event)
            case _:
                pass
        self._hooks.on_event(event)

    def on_state(self, state: RunState) -> None:
        answer = (state.answer,) if state.answer is not None else ()
        self._recorder.messages((*state.messages, *answer))
        self._hooks.on_state(state)

    async def before_request(self) -> None:
        await self._recorder.flush()
        await self._hooks.before_request()

    async def on_tool_use(self, call: ToolCallPart) -> ToolCallPart:
        return await self._hooks.on_tool_use(call)

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        return await self._hooks.approve(question, token)

    async def on_tool_result(self, call: ToolCallPart, result: ToolResult, *, approved: bool) -> ToolResult:
        return await self._hooks.on_tool_result(call, result, approved=approved)


def _digest(tool: str, given: JsonObject) -> str:
    text = f"{tool}\0{canonical(given)}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
