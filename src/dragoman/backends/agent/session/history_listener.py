"""The listener for the history of a loaded session: it discards the updates, so that none reaches a new answer.

An agent that loads a session sends its history, as ordinary updates. ACP requires that before the result of
`session/load`; some agents continue afterwards, for seconds. So after the result, the bridge waits for its end.
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
from dragoman.backends.agent.profile.observations import HistoryTiming
from dragoman.backends.agent.profile.settings import Timing
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.jsonrpc import Incoming

__all__ = ["HistoryListener"]

# How many characters of the last messages must match: enough to exclude chance, and no more than agents store.
_WORDS = 200
# How many characters of the end of each message are buffered for that.
_BUFFERED = 4_096


class HistoryListener:
    """Discards all updates, and refuses all requests.

    `last_words` and `last_answer` are the user's last message in the session, and the answer to it.
    """

    def __init__(self, last_words: str, last_answer: str) -> None:
        self._last_words = plain(last_words)[-_WORDS:]
        self._last_answer = plain(last_answer)[-_WORDS:]
        # The user's message that was received last, and the agent's answer after it.
        self._words = ""
        self._answer = ""
        self._news = asyncio.Event()
        # Whether any of the history has arrived; whether the load request has its answer; whether any arrived after that.
        self.has_updates = False
        self._is_answered = False
        self._is_late = False

    # As a listener.

    def on_update(self, update: SessionUpdate) -> None:
        match update.update:
            case OtherUpdate() | UsageUpdate():
                # Commands, modes and the like are current state, not history.
                return
            case ChunkUpdate(role="user", content=TextBlock(text=text)):
                if self._answer:
                    self._words = self._answer = ""
                self._words = (self._words + text)[-_BUFFERED:]
            case ChunkUpdate(role="agent", content=TextBlock(text=text)):
                self._answer = (self._answer + text)[-_BUFFERED:]
        self.has_updates = True
        self._is_late = self._is_late or self._is_answered
        self._news.set()

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:  # noqa: ARG002 - a listener
        incoming.reply({"outcome": {"outcome": "cancelled"}})

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        incoming.fail(
            PERMISSION_REFUSED, f"{request.path} cannot be accessed while a session is being loaded."
        )

    # The end of it.

    def on_answer(self) -> None:
        """The agent has answered the load request: later updates are late."""
        self._is_answered = True

    async def wait_complete(self, known: HistoryTiming | None, timing: Timing, clock: Clock) -> HistoryTiming:
        """Wait for the end of the history. Returns when the agent sent it."""
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
        """Whether the last message of the user and the last answer have arrived."""
        return (
            bool(self._last_words and self._last_answer)
            and self._last_words in plain(self._words)
            and self._last_answer in plain(self._answer)
        )
