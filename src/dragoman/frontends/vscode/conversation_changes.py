"""Tells the editor that its list of conversations is out of date.

Once for each list: an editor that shows the list reads it again then, and one that does not is left alone. What this
process stores is noticed at once. What other processes store, and what conversations do without storing anything, is looked
for while an editor has a list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from dragoman.journal.store import JournalStore, JournalStoreError
from dragoman.models import AgentSource

__all__ = ["ConversationChanges"]

_log = logging.getLogger(__name__)

# An answer stores something several times a second. No one reads a list that often.
_DELAY_SECONDS = 0.5
_POLL_SECONDS = 2.0

# Of other processes, the number of the store; of this one, what each conversation does.
_Seen: TypeAlias = tuple[int, tuple[tuple[str, str], ...]]


class ConversationChanges:
    """Calls `tell` when the list that was read last is out of date."""

    def __init__(
        self,
        models: AgentSource,
        tell: Callable[[], None],
        *,
        delay_seconds: float = _DELAY_SECONDS,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._models = models
        self._tell = tell
        self._delay_seconds = delay_seconds
        self._poll_seconds = poll_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None

    async def watch(self, store: JournalStore) -> None:
        """Watch from now on: a list is about to be read. Raises `JournalStoreError`."""
        self._models.journals.on_append = lambda *_: self.note()
        seen = await self._seen(store)
        self._stop_polling()
        self._polling = asyncio.create_task(self._poll(store, seen))

    def note(self) -> None:
        """Something has changed. The editor is told in a moment, together with what changes until then."""
        if self._polling is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_seconds, self._pass_on)

    def close(self) -> None:
        self._stop_polling()
        if self._timer is not None:
            self._timer.cancel()

    def _pass_on(self) -> None:
        self._timer = None
        self._stop_polling()
        self._tell()

    def _stop_polling(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            self._polling = None

    async def _poll(self, store: JournalStore, seen: _Seen) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                if await self._seen(store) == seen:
                    continue
            except JournalStoreError as error:
                _log.warning("changed conversations cannot be looked for: %s", error)
            self.note()
            return

    async def _seen(self, store: JournalStore) -> _Seen:
        stages = tuple((each.id, each.stage) for each in self._models.conversations())
        return await store.version_seen(), stages
