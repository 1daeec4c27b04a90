"""All conversations of a model: it finds, creates, unloads and reloads them.

A conversation is in one of three places:

- *here*: under way in this process, perhaps with an agent that runs;
- *resting*: only its record is in memory;
- *away*: only its index entries are in memory, and the store has the rest.

With a store, several processes may know the same conversation. The process in which a turn is under way owns its journal
until the turn ends. A request in another process waits a moment for the release, and then continues with a fork. Between
two turns the conversation has no owner, and any process may continue it. The length of its journal shows that another
process has continued it: then an agent here that lacks the change is stopped, and its session is resumed. While the store
fails, no journal can be claimed: a conversation whose lease has ended is forked. If other machines share the store, the
request fails instead: the conversation may go on at one of them.

Everything is bounded. Idle agents are parked when there are too many or they take too much memory: first those whose
sessions can be taken up again and whose conversations have had one turn only, and the longest unused before others.
Records are put away, the longest unused first. Conversations with pending work are never touched: after a burst, agents
beyond the limit are parked as they become idle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from typing import Literal, NamedTuple

from msgspec.structs import replace

from dragoman.acp.launch import RunningAgent
from dragoman.backends.agent.conversation import Conversation, SharedContext
from dragoman.backends.agent.profile.memory_limit import LOOK_SECONDS, MemoryLimit, parking_order
from dragoman.conversations.history import NormalHistory, normalise
from dragoman.conversations.identify import Identified, Knowledge, identify
from dragoman.conversations.ids import new_conversation_id
from dragoman.conversations.records import RecordNotLoaded, Records, Scope
from dragoman.journal.events import UnreadableJournal
from dragoman.journal.fold import ConversationState
from dragoman.journal.store import RENEW_SECONDS, JournalStoreError
from dragoman.journal.writer import Journals
from dragoman.lm import LanguageModelError, Request

__all__ = ["ConversationRegistry", "Placed"]

_log = logging.getLogger(__name__)

# Items of the histories of all records that rest in memory. Each takes about 200 bytes.
_RESTING_ITEMS = 200_000


class Placed(NamedTuple):
    """A request as it was identified, and its conversation."""

    found: Identified
    # None for a side request, which belongs to none.
    conversation: Conversation | None


class _Resting(NamedTuple):
    """A conversation of which only the record is in memory. `sequence` is that of the last event in its journal."""

    state: ConversationState
    sequence: int

    @property
    def size(self) -> int:
        return 1 + len(self.state.record.keys)


class ConversationRegistry:
    """Finds or creates the conversation of each request, and limits what stays in memory."""

    def __init__(
        self,
        model: str,
        max_agents: int,
        journals: Journals,
        shared: Callable[[], SharedContext],
        memory: MemoryLimit | None = None,
    ) -> None:
        self.records = Records()
        self._model = model
        self._max_agents = max_agents
        self._journals = journals
        self._store = journals.store
        self._shared = shared
        # Both with the longest unused first.
        self._here: dict[str, Conversation] = {}
        self._resting: dict[str, _Resting] = {}
        self._resting_items = 0
        # The last known sequence numbers of the journals that are not here, and the store's count of foreign changes then.
        self._sequences: dict[str, int] = {}
        # Those that cannot be read, and how far they went: they are not tried again until they have grown.
        self._unreadable: dict[str, int] = {}
        self._seen: int | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._memory = memory
        if memory is not None:
            memory.add(self._idle)
        self._watching: asyncio.Task[None] | None = None
        # Whether a check for too many agents is scheduled.
        self._is_settling = False
        self._ending: set[asyncio.Task[None]] = set()

    async def place(self, request: Request, known: Knowledge, *, waits: bool) -> Placed | None:
        """Identify a request, and claim the conversation it goes to. The caller must use the result before it awaits.

        None when another process owns it: the caller tries again in a moment. With `waits` False it gets a fork instead.
        """
        await self._journals.forget_unused()
        await self._look()
        history = normalise(request.messages)
        claimed: str | None = None
        try:
            while True:
                found = await self._identify(request, history, known)
                id_ = found.conversation
                if found.kind == "aside":
                    return Placed(found, None)
                if id_ is None or found.kind in ("fresh", "fork"):
                    self._check_memory()
                    return Placed(found, self._begin(known))
                here = self._here.get(id_)
                if found.kind == "retry" and here is not None and here.repeats:
                    # The request gets the same reply again: no turn begins.
                    return Placed(found, here)
                if here is None or not here.has_agent:
                    self._check_memory()
                if id_ != claimed and not (here is not None and here.journal.writer.is_ours):
                    version = self.records.version
                    claim = await self._claim(id_)
                    if claim == "held" and waits:
                        return None
                    if claim == "unavailable":
                        self._check_forkable()
                    if claim in ("held", "unavailable"):
                        why = "another process has it" if claim == "held" else "it cannot be claimed now"
                        _log.info("conversation %s is forked: %s", id_, why)
                        reason = f"{found.reason}, but {why}"
                        return Placed(replace(found, kind="fork", reason=reason), self._begin(known))
                    claimed = id_ if claim == "ours" else claimed
                    if claim != "ours" or version != self.records.version:
                        # A record has changed: identify again.
                        continue
                conversation = self._take_up(id_)
                claimed = None
                return Placed(found, conversation)
        finally:
            if claimed is not None:
                # The request belongs to another one after all.
                await self._give_back(claimed)

    async def _give_back(self, id_: str) -> None:
        here = self._here.get(id_)
        if here is not None:
            here.journal.writer.hold(holds=here.is_held)
            here.journal.writer.flush_soon()
        elif self._store is not None:
            with _logging_store_errors("a conversation could not be released"):
                await self._store.release(id_)

    @asynccontextmanager
    async def lend(self, scope: Scope) -> AsyncIterator[RunningAgent | None]:
        """Lend an agent that runs in this scope, for the session of a side request. Waits for one that starts.

        An agent of another scope is never lent: it was started for another model, folder or connection, and its
        permissions and knowledge belong there.
        """
        here = [each for each in self._here.values() if each.scope == scope]
        # Running agents first: they need no wait.
        for each in sorted(here, key=lambda each: each.lendable is None):
            await each.wait_started()
            agent = each.lendable
            if agent is not None:
                try:
                    with each.lending():
                        yield agent
                finally:
                    self.settle()
                return
        yield None

    def delivered(self, conversation: str, *, whole: bool) -> None:
        """The last reply of a conversation has reached its consumer whole, or will not."""
        here = self._here.get(conversation)
        if here is not None:
            here.journal.note_delivery(whole=whole)

    @property
    def here(self) -> tuple[Conversation, ...]:
        """The conversations that are under way in this process, or whose agents still run."""
        return tuple(self._here.values())

    async def close(self) -> None:
        """End every agent. Replies under way are cut, and all conversations are released."""
        for task in (self._renewing, self._watching):
            if task is not None:
                task.cancel()
        if self._memory is not None:
            self._memory.remove(self._idle)
        closing = (conversation.close() for conversation in self._here.values())
        for failure in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(failure, Exception):
                _log.error("a conversation could not be closed", exc_info=failure)
        self._here.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    # Finding.

    async def _identify(self, request: Request, history: NormalHistory, known: Knowledge) -> Identified:
        while True:
            try:
                return identify(request, history, known)
            except RecordNotLoaded as away:
                await self._bring(away.conversation)

    async def recall(self) -> None:
        """Load what other processes have stored. It may be much, so other tasks run in between."""
        async for _ in self._changes():
            await asyncio.sleep(0)

    async def _look(self) -> None:
        """Load what other processes have stored since the last look."""
        async for _ in self._changes():
            pass

    async def _changes(self) -> AsyncIterator[None]:
        """Load changed conversations one by one. What cannot be read is tried again the next time."""
        if self._store is None:
            return
        try:
            changed = await self._store.heads(self._model, self._seen)
            if changed is None:
                return
            seen, heads = changed
            for id_ in [id_ for id_ in self._sequences if id_ not in heads and id_ not in self._here]:
                self._forget(id_)
            for id_, sequence in heads.items():
                # Conversations that are here are checked when they are claimed.
                if id_ not in self._here and sequence not in (
                    self._sequences.get(id_),
                    self._unreadable.get(id_),
                ):
                    await self._fetch(id_, sequence)
                    yield
            self._seen = seen
        except JournalStoreError as error:
            _log.warning("stored conversations cannot be read: %s", error)
            self._check_forkable()

    async def _bring(self, id_: str) -> None:
        """Load a conversation from the store. If that fails, it is unknown for now, and tried again later."""
        try:
            await self._fetch(id_, 0)
        except JournalStoreError as error:
            _log.warning("conversation %s cannot be loaded now: %s", id_, error)
            self._sequences.pop(id_, None)
            self._seen = None
            self._check_forkable()

    async def _fetch(self, id_: str, sequence: int) -> None:
        """Load a conversation from the store. Raises `JournalStoreError`. One that cannot be read is dropped."""
        found = None
        self.records.remove(id_)
        self._rest_no_more(id_)
        try:
            found = await self._store.state(id_) if self._store is not None else None
        except UnreadableJournal as error:
            _log.warning("conversation %s cannot be loaded, and starts again: %s", id_, error)
            self._unreadable[id_] = sequence
        if found is None:
            # It was deleted.
            self._sequences.pop(id_, None)
        elif id_ not in self._here:
            self._rest(_Resting(*found))

    # Owning.

    async def _claim(self, id_: str) -> Literal["ours", "held", "changed", "unavailable"]:
        here = self._here.get(id_)
        if self._store is None:
            return "ours"
        try:
            if here is not None:
                await here.journal.writer.flush()
            known = here.journal.writer.sequence if here is not None else self._sequences.get(id_, 0)
            claim = await self._store.claim(id_, known)
        except JournalStoreError as error:
            _log.warning("conversation %s cannot be claimed: %s", id_, error)
            return "unavailable"
        match claim:
            case "ours":
                if here is not None:
                    here.journal.writer.note_claimed()
                return "ours"
            case "held":
                return "held"
            case "gone":
                self._let_go(id_)
                self._forget(id_)
            case "changed":
                self._let_go(id_)
                await self._bring(id_)
        return "changed"

    def _check_forkable(self) -> None:
        if self._store is not None and self._store.is_shared:
            raise LanguageModelError(
                "unavailable",
                "The conversation cannot be continued now: the fleet's store does not answer.",
                hint="Try again in a moment. `dragoman fleet status` shows what is there.",
                public="The conversation cannot be continued now. Try again in a moment.",
            )

    def _forget(self, id_: str) -> None:
        """Drop a conversation that was deleted from the store."""
        self.records.remove(id_)
        self._rest_no_more(id_)
        self._sequences.pop(id_, None)

    def lose(self, id_: str) -> None:
        """Another process has continued a conversation that is here, or a person has deleted it."""
        self._let_go(id_)
        self._forget(id_)
        self._seen = None

    def _let_go(self, id_: str) -> None:
        """Stop the conversation here, because another process has continued it and this one is out of date."""
        conversation = self._here.pop(id_, None)
        if conversation is not None:
            task = asyncio.create_task(conversation.retire())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _renew(self) -> None:
        clock = self._shared().clock
        while self._store is not None:
            await clock.sleep(RENEW_SECONDS)
            held = [each for each in self._here.values() if each.is_held]
            if held:
                with _logging_store_errors(
                    "other processes may take over conversations that are under way here"
                ):
                    ours = await self._store.renew()
                    for each in held:
                        if each.id in ours:
                            each.journal.writer.note_renewed()

    # Beginning, resting, taking up.

    def _begin(self, known: Knowledge) -> Conversation:
        id_ = new_conversation_id()
        return self._under_way(Conversation(id_, known.scope, self._shared(), consumer_id=known.consumer_id))

    def _take_up(self, id_: str) -> Conversation:
        conversation = self._here.pop(id_, None)
        if conversation is None:
            state, sequence = self._resting[id_]
            self._rest_no_more(id_)
            scope = state.record.scope
            conversation = Conversation(id_, scope, self._shared(), state=state, sequence=sequence)
        return self._under_way(conversation)

    def _under_way(self, conversation: Conversation) -> Conversation:
        """Make it the most recently used, and make room for its agent."""
        self._here[conversation.id] = conversation
        if self._renewing is None and self._store is not None:
            self._renewing = asyncio.create_task(self._renew())
        if self._watching is None and self._memory is not None:
            self._watching = asyncio.create_task(self._watch_memory(self._memory))
        if not conversation.has_agent:
            self._make_room(conversation)
        return conversation

    def _make_room(self, conversation: Conversation) -> None:
        """Make room for an agent that is about to start. It checks all conversations here, so not every request calls it."""
        others = [each for each in self._here.values() if each is not conversation]
        self._park_surplus(1 + sum(each.has_agent for each in others))
        for each in others:
            if each.is_over:
                del self._here[each.id]
                self._rest(_Resting(each.journal.state, each.journal.writer.sequence))

    def _idle(self) -> list[Conversation]:
        """The conversations with an idle agent, in the order of parking: of each kind the longest unused first."""
        here = self._here.values()
        idle = [each for each in here if each.has_agent and not each.is_held and not each.is_lent]
        return sorted(idle, key=parking_order)

    def _park_surplus(self, agents: int) -> None:
        for each in islice(self._idle(), max(agents - self._max_agents, 0)):
            each.park()

    def settle(self) -> None:
        """Schedule a check for too many agents, because one has become idle."""
        if not self._is_settling:
            self._is_settling = True
            # Not now: its conversation is in the middle of a step.
            asyncio.get_running_loop().call_soon(self._settled)

    def _settled(self) -> None:
        self._is_settling = False
        self._park_surplus(sum(each.has_agent for each in self._here.values()))
        if self._memory is not None:
            self._memory.relieve()

    def _check_memory(self) -> None:
        if self._memory is not None:
            self._memory.check()

    async def _watch_memory(self, memory: MemoryLimit) -> None:
        clock = self._shared().clock
        while True:
            await clock.sleep(LOOK_SECONDS)
            memory.relieve()

    def _rest(self, resting: _Resting) -> None:
        id_ = resting.state.record.id
        self.records.put(resting.state.record)
        self._resting[id_] = resting
        self._resting_items += resting.size
        if resting.sequence:
            self._sequences[id_] = resting.sequence
        while self._resting_items > _RESTING_ITEMS and len(self._resting) > 1:
            oldest = next(iter(self._resting))
            self._rest_no_more(oldest)
            if oldest in self._sequences:
                self.records.put_away(oldest)
            else:
                self.records.remove(oldest)

    def _rest_no_more(self, id_: str) -> None:
        resting = self._resting.pop(id_, None)
        if resting is not None:
            self._resting_items -= resting.size


@contextmanager
def _logging_store_errors(consequence: str) -> Iterator[None]:
    """Log errors of the store: they do not stop a conversation."""
    try:
        yield
    except JournalStoreError as error:
        _log.warning("%s: %s", consequence, error)
