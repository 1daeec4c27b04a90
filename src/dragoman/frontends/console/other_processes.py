"""Questions that wait in other processes of the same state folder.

They can be answered only there: in a terminal, in an editor, at the console of another server. The console shows them with
that place. It looks into the journals while a page is open, and reads them only if another process has written something.

What another node of a fleet asks at the console is in the inbox already, and is not shown twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator

from dragoman.journal.agent_events import PermissionRequested
from dragoman.journal.clients import front_end_of
from dragoman.journal.decision_text import permission_in_words
from dragoman.journal.decisions import RecordedDecision, open_elsewhere
from dragoman.journal.permission_event import permission_requested
from dragoman.journal.store import JournalInfo, JournalStore, JournalStoreError
from dragoman.lm import JsonObject
from dragoman.permissions.inbox import Inbox
from dragoman.visible import visible_line

__all__ = ["OtherProcessQuestions"]

_log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
# What a rule or an approval decides is stored together with its request, or a moment after it.
_YOUNG_SECONDS = 1.0
_LONGEST_TITLE = 400
_ID_BYTES = 9
_PLACES = {"vscode": "VS Code", "http": "dragoman serve"}


class OtherProcessQuestions:
    """Knows the questions of other processes. `on_change` is called with them when they have changed."""

    def __init__(
        self,
        store: JournalStore | None,
        on_change: Callable[[list[JsonObject]], None],
        *,
        inbox: Inbox | None = None,
        poll_seconds: float = _POLL_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._on_change = on_change
        self._poll_seconds = poll_seconds
        self._now = now
        self.questions: list[JsonObject] = []
        self._seen: int | None = None
        # Whether something waits that must be looked at again although no process has written: it grows old, its owner dies.
        self._has_open = False
        self._polling: asyncio.Task[None] | None = None

    def watch(self, streams: int) -> None:
        """Poll while streams are open, and not otherwise."""
        if streams and self._polling is None and self._store is not None:
            self._polling = asyncio.get_running_loop().create_task(self._poll_on(self._store))
        elif not streams and self._polling is not None:
            self._polling.cancel()
            self._polling = None

    async def close(self) -> None:
        polling, self._polling = self._polling, None
        if polling is not None:
            polling.cancel()
            await asyncio.wait({polling})

    async def _poll_on(self, store: JournalStore) -> None:
        while True:
            try:
                await self.poll(store)
            except JournalStoreError as error:
                _log.warning("questions of other processes cannot be read: %s", error)
            except Exception:
                _log.exception("questions of other processes cannot be shown")
            await asyncio.sleep(self._poll_seconds)

    async def poll(self, store: JournalStore) -> None:
        """Look into the journals once."""
        version = await store.version_seen()
        if version == self._seen and not self._has_open:
            return
        now = self._now()
        found = await open_elsewhere(store, now)
        self._seen, self._has_open = version, bool(found)
        copies = {
            (each.conversation, permission_requested("", each.action).digest)
            for each in self._inbox or ()
            if each.node
        }
        questions = [
            *_shown(
                each
                for each in found
                if now - each.at > _YOUNG_SECONDS
                and (each.asked is None or (each.journal, each.asked.digest) not in copies)
            )
        ]
        if questions != self.questions:
            self.questions = questions
            self._on_change(questions)


def _shown(found: Iterable[RecordedDecision]) -> Iterator[JsonObject]:
    for each in found:
        match each:
            case RecordedDecision(asked=PermissionRequested() as asked, info=JournalInfo() as info):
                front_end = front_end_of(info)
                # The id of a call is for its client alone.
                digest = hashlib.blake2b(f"{each.journal} {asked.id}".encode(), digest_size=_ID_BYTES)
                yield {
                    "id": digest.hexdigest(),
                    "title": visible_line(permission_in_words(asked))[:_LONGEST_TITLE],
                    "agent": asked.agent,
                    "conversation": info.parent or info.id,
                    "where": _where(front_end, info),
                    "asked_at": each.at,
                }
            case _:
                pass


def _where(front_end: str, info: JournalInfo) -> str:
    """Where the question can be answered, as far as a journal says it."""
    folder = visible_line(info.workspace)[:_LONGEST_TITLE]
    where = f" in {folder}" if folder else ""
    return f"{_PLACES.get(front_end, front_end)}{where}, process {info.owner}"
