"""The history of a session that is taken up: heard here, so that nothing of it reaches a new answer.

An agent that loads a session tells its history, as updates like any others. ACP wants that done before the result of
`session/load`; some agents go on afterwards, for seconds. So after the result it is waited until the history has ended.
"""

from __future__ import annotations

import asyncio

from dragoman.acp.content import TextBlock, plain
from dragoman.acp.messages import (
    PERMISSION_REFUSED,
    ChunkUpdate,
    FileRequest,
    OtherUpdate,
    PermissionRequest,
    SessionUpdate,
    UsageUpdate,
)
from dragoman.backends.agent.observations import HistoryTiming
from dragoman.backends.agent.settings import Timing
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.jsonrpc import Incoming

__all__ = ["HistoryListener"]

# So much of the last words is looked for: enough to be no chance, and no more than agents keep.
_WORDS = 200
# Of each message, so much of its end is kept to look in.
_HEARD = 4_096


class HistoryListener:
    """Passes nothing on, and allows nothing.

    `last_words` and `last_answer` are what the user said last in the session, and what came of it.
    """

    def __init__(self, last_words: str, last_answer: str) -> None:
        self._last_words = plain(last_words)[-_WORDS:]
        self._last_answer = plain(last_answer)[-_WORDS:]
        # The user's message that was told last, and the agent's words after it.
        self._words = ""
        self._answer = ""
        self._news = asyncio.Event()
        # Anything of it was told; and after the agent's answer to the request.
        self.has_updates = False
        self._is_answered = False
        self._is_late = False

    # As a listener.

    def on_update(self, update: SessionUpdate) -> None:
        match update.update:
            case OtherUpdate() | UsageUpdate():
                # Commands, modes and the like are of now.
                return
            case ChunkUpdate(role="user", content=TextBlock(text=text)):
                if self._answer:
                    self._words = self._answer = ""
                self._words = (self._words + text)[-_HEARD:]
            case ChunkUpdate(role="agent", content=TextBlock(text=text)):
                self._answer = (self._answer + text)[-_HEARD:]
        self.has_updates = True
        self._is_late = self._is_late or self._is_answered
        self._news.set()

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:  # noqa: ARG002 - a listener
        incoming.reply({"outcome": {"outcome": "cancelled"}})

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        incoming.fail(PERMISSION_REFUSED, f"{request.path} is not for a session that is only being told.")

    # The end of it.

    def on_answer(self) -> None:
        """The agent has answered the request: what comes now is late."""
        self._is_answered = True

    async def wait_complete(self, known: HistoryTiming | None, timing: Timing, clock: Clock) -> HistoryTiming:
        """Wait for the end of the history. Returns how the agent tells it."""
        limit = clock.now() + timing.history
        while clock.now() < limit:
            self._news.clear()
            is_short = self._is_complete or (known in ("before", "none") and not self._is_late)
            try:
                seconds = timing.history_end if is_short else timing.history_pause
                await within(self._news.wait(), seconds, clock)
            except DeadlinePassed:
                return "late" if self._is_late else "before" if self.has_updates else "none"
        return "unusable"

    @property
    def _is_complete(self) -> bool:
        """The last message of the user and the last answer have been told."""
        return (
            bool(self._last_words and self._last_answer)
            and self._last_words in plain(self._words)
            and self._last_answer in plain(self._answer)
        )
