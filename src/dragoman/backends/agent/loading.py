"""The history of a session that is taken up: heard here, so that nothing of it reaches a new answer.

An agent that loads a session tells its history, as updates like any others. ACP wants that done before the result of
`session/load`; some agents go on afterwards, for seconds. So after the result it is waited until the history has ended.
"""

from __future__ import annotations

import asyncio

from dragoman.backends.agent.acp.content import TextBlock
from dragoman.backends.agent.acp.messages import (
    ChunkUpdate,
    FileRequest,
    OtherUpdate,
    PermissionRequest,
    SessionUpdate,
)
from dragoman.backends.agent.filing import PERMISSION_REFUSED
from dragoman.backends.agent.learnt import History
from dragoman.backends.agent.settings import Timing
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.jsonrpc import Incoming

__all__ = ["HistoryListener"]

# So much of the user's last words is looked for: enough to be no chance, and no more than agents keep.
_WORDS = 200
# Of the user's words as they are told, so much is kept to look in.
_HEARD = 4_096


class HistoryListener:
    """Passes nothing on, and allows nothing. `last_words` are those that the user said last in the session."""

    def __init__(self, last_words: str) -> None:
        self._last_words = _plain(last_words)[-_WORDS:]
        self._heard = ""
        # The user's last words have been told; what comes after them is the last answer.
        self._is_complete = False
        self._news = asyncio.Event()
        # Anything of it was told; and after the result.
        self.is_told = False
        self._has_result = False
        self._is_late = False

    # As a listener.

    def on_update(self, update: SessionUpdate) -> None:
        if isinstance(update.update, OtherUpdate):
            # Commands, modes and the like are of now.
            return
        self.is_told = True
        self._is_late = self._is_late or self._has_result
        self._news.set()
        match update.update:
            case ChunkUpdate(role="user", content=TextBlock(text=text)):
                self._heard = (self._heard + text)[-_HEARD:]
                self._is_complete = bool(self._last_words) and self._last_words in _plain(self._heard)

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:  # noqa: ARG002 - a listener
        incoming.reply({"outcome": {"outcome": "cancelled"}})

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        incoming.fail(PERMISSION_REFUSED, f"{request.path} is not for a session that is only being told.")

    # The end of it.

    async def until_told(self, known: History | None, timing: Timing, clock: Clock) -> History:
        """After the result: wait for the end of the history. Returns how the agent tells it."""
        self._has_result = True
        if known == "before":
            return known
        limit = clock.now() + timing.history
        while clock.now() < limit:
            self._news.clear()
            try:
                await within(self._news.wait(), self._pause(known, timing), clock)
            except DeadlinePassed:
                return "late" if self._is_late else "before" if self.is_told else "none"
        return "unusable"

    def _pause(self, known: History | None, timing: Timing) -> float:
        if self._is_complete or (known == "none" and not self.is_told):
            return timing.history_end
        return timing.history_pause


def _plain(text: str) -> str:
    """Agents break lines elsewhere, and trim."""
    return " ".join(text.split())
