"""All conversations of a model: it finds, creates, unloads and reloads them.

A conversation is in one of three places:

- *here*: under way in this process, perhaps with an agent that runs;
- *resting*: only its record is in memory;
- *away*: only its index entries are in memory, and the store has the rest.

With a store, several processes may know the same conversation. The process in which a turn is under way owns it until
the turn ends. A request in another process waits a moment for the release, and then continues with a fork. Between two
turns the conversation has no owner, and any process may continue it. The revision shows that another process has
changed it: then an agent here that lacks the change is stopped, and its session is resumed.

Everything is bounded. Idle agents are parked, the longest unused first, when there are too many or they take too much
memory; records are put away in the same order. Conversations with pending work are never touched: after a burst, agents
beyond the limit are parked as they become idle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, NamedTuple

from msgspec.structs import replace

from dragoman.acp.launch import RunningAgent
from dragoman.backends.agent.conversation import Conversation, SharedContext
from dragoman.backends.agent.profile.memory_limit import LOOK_SECONDS, MemoryLimit
from dragoman.conversations import lease as owner
from dragoman.conversations.history import NormalPrompt, normalise
from dragoman.conversations.identify import Identified, Knowledge, identify
from dragoman.conversations.ids import new_conversation_id
from dragoman.conversations.records import ConversationRecord, RecordNotLoaded, Records, Scope
from dragoman.conversations.saving import SavedConversation, SavedError, load_conversation, save_conversation
from dragoman.lm import Request
from dragoman.lm.surrogates import mended
from dragoman.store import ConversationStore, StoredConversation, StoreError

__all__ = ["ConversationRegistry", "Placed"]

_log = logging.getLogger(__name__)

# Of records that rest in memory, as they are on disk. In memory they take four to five times as much.
_RESTING_BYTES = 16 * 1024 * 1024
# The length of a conversation's title, which is the start of its first message.
_TITLE_CHARACTERS = 120


class Placed(NamedTuple):
    """A request as it was identified, and its conversation."""

    found: Identified
    # None for a side request, which belongs to none.
    conversation: Conversation | None


class ConversationRegistry:
    """Finds or creates the conversation of each request, and limits what stays in memory."""

    def __init__(
        self,
        model: str,
        max_agents: int,
        store: ConversationStore | None,
        shared: Callable[[], SharedContext],
        memory: MemoryLimit | None = None,
    ) -> None:
        self.records = Records()
        self._model = model
        self._max_agents = max_agents
        self._store = store
        self._shared = shared
        self._owner = owner.own()
        # Both with the longest unused first.
        self._here: dict[str, Conversation] = {}
        self._resting: dict[str, SavedConversation] = {}
        self._sizes: dict[str, int] = {}
        self._resting_bytes = 0
        # Conversations under way here whose claim could not be stored.
        self._unclaimed: set[str] = set()
        # The last known revisions in the store: of each conversation, of all of them; and its write counter.
        self._revisions: dict[str, int] = {}
        self._revision = -1
        self._version: int | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._memory = memory
        if memory is not None:
            memory.add(self._idle)
        self._watching: asyncio.Task[None] | None = None
        # Whether a check for too many agents is scheduled.
        self._is_settling = False
        self._ending: set[asyncio.Task[None]] = set()

    def place(self, request: Request, known: Knowledge, *, waits: bool) -> Placed | None:
        """Identify a request, and claim the conversation it goes to.

        None when another process owns it: the caller tries again in a moment. With `waits` False it gets a fork instead.
        """
        while True:
            found = self._identify(request, known)
            if found.kind == "aside":
                return Placed(found, None)
            if found.conversation is None or found.kind in ("fresh", "fork"):
                self._check_memory()
                return Placed(found, self._begin(known))
            here = self._here.get(found.conversation)
            if found.kind == "retry" and here is not None and here.repeats:
                # The request gets the same reply again: no turn begins.
                return Placed(found, here)
            if here is None or not here.has_agent:
                self._check_memory()
            match self._claim(found.conversation):
                case "ours":
                    return Placed(found, self._take_up(found.conversation))
                case "held" if waits:
                    return None
                case "held":
                    _log.info("conversation %s is under way in another process: forked", found.conversation)
                    reason = f"{found.reason}, but another process has it"
                    return Placed(replace(found, kind="fork", reason=reason), self._begin(known))
                case "changed":
                    # The changed record has been loaded: identify again.
                    pass

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
                    self._settle()
                return
        yield None

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
        if self._store is not None:
            with _logging_store_errors("conversations could not be released"):
                self._store.release(self._owner, self._model)

    # Finding.

    def _identify(self, request: Request, known: Knowledge) -> Identified:
        self._look()
        history = normalise(request.messages)
        while True:
            try:
                return identify(request, history, known)
            except RecordNotLoaded as away:
                self._bring(away.conversation)

    async def recall(self) -> None:
        """Load what other processes have stored. It may be much, so other tasks run in between."""
        for _ in self._changes():
            await asyncio.sleep(0)

    def _look(self) -> None:
        """Load what other processes have stored since the last look."""
        for _ in self._changes():
            pass

    def _changes(self) -> Iterator[None]:
        """Load changed conversations one by one. What cannot be read is tried again the next time."""
        if self._store is None:
            return
        with _logging_store_errors("stored conversations cannot be read"):
            version = self._store.version_seen()
            if version == self._version:
                return
            for id_, revision in self._store.changed_since(self._revision, self._model):
                # Conversations that are here are checked when they are claimed.
                if id_ not in self._here and revision != self._revisions.get(id_):
                    self._fetch(id_)
                self._revision = revision
                yield
            self._version = version

    def _bring(self, id_: str) -> None:
        """Load a conversation from the store. If that fails, it is unknown for now, and tried again later."""
        try:
            self._fetch(id_)
        except StoreError as error:
            _log.warning("conversation %s cannot be loaded now: %s", id_, error)
            self._revision, self._version = -1, None

    def _fetch(self, id_: str) -> None:
        """Load a conversation from the store. Raises `StoreError`. A record that cannot be decoded is dropped."""
        self.records.remove(id_)
        self._rest_no_more(id_)
        stored = self._store.find(id_) if self._store is not None else None
        if stored is None:
            # It was deleted.
            return
        try:
            saved = load_conversation(stored.content)
        except SavedError as error:
            _log.warning("conversation %s cannot be loaded, and starts again: %s", id_, error)
            return
        self._revisions[id_] = stored.revision
        self._rest(saved, len(stored.content))

    # Owning.

    def _claim(self, id_: str) -> Literal["ours", "held", "changed"]:
        if self._store is None:
            return "ours"
        try:
            holding = self._store.holding(id_)
            if holding is None and id_ in self._revisions:
                self._forget(id_)
                return "changed"
            if holding is None:
                # It could not be stored.
                return "ours"
            if holding.revision != self._revisions.get(id_):
                self._let_go(id_)
                self._bring(id_)
                return "changed"
            if holding.owner == self._owner:
                return "ours"
            if not owner.is_free(holding):
                return "held"
            revision = self._store.claim(id_, self._owner, owner.lease(), holding)
            if revision is None:
                return "changed"
        except StoreError as error:
            _log.warning("other processes cannot see that conversation %s is under way here: %s", id_, error)
            self._unclaimed.add(id_)
            return "ours"
        self._revisions[id_] = revision
        self._unclaimed.discard(id_)
        return "ours"

    def _forget(self, id_: str) -> None:
        """Drop a conversation that was deleted from the store."""
        self._let_go(id_)
        self.records.remove(id_)
        self._rest_no_more(id_)
        self._revisions.pop(id_, None)

    def _is_deleted(self, id_: str) -> bool:
        """Whether it was stored and has been deleted. A conversation with a turn under way cannot be deleted."""
        return self._store is not None and id_ in self._revisions and self._store.holding(id_) is None

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
            await clock.sleep(owner.RENEW_SECONDS)
            if any(conversation.is_held for conversation in self._here.values()):
                with _logging_store_errors(
                    "other processes may take over conversations that are under way here"
                ):
                    self._store.renew(self._owner, owner.lease())

    def save(self, record: ConversationRecord, session: str | None, calls: int, *, held: bool) -> None:
        """Store a conversation: owned by this process while `held`, else without an owner."""
        if not held:
            self._settle()
        if self._store is None:
            return
        if record.id in self._unclaimed and self._claim(record.id) != "ours":
            return
        content = save_conversation(record, session, calls)
        title = next((item.text for item in record.items if isinstance(item, NormalPrompt)), "")
        stored = StoredConversation(
            record.id,
            record.scope.model,
            mended(title[:_TITLE_CHARACTERS]),
            record.scope.workspace[0],
            self._owner if held else "",
            datetime.now(UTC),
            content,
            owner.lease() if held else 0.0,
        )
        # On an error the conversation continues in this process.
        with _logging_store_errors("this conversation will not survive a restart"):
            if self._is_deleted(record.id):
                return
            revision = self._store.save(stored, self._owner, self._revisions.get(record.id))
            if revision is None:
                _log.warning("another process has taken conversation %s over", record.id)
                self._let_go(record.id)
                self.records.put_away(record.id)
            else:
                self._revisions[record.id] = revision

    # Beginning, resting, taking up.

    def _begin(self, known: Knowledge) -> Conversation:
        record = ConversationRecord(new_conversation_id(), known.scope, consumer_id=known.consumer_id)
        return self._under_way(Conversation(record, known.scope.workspace, self._shared()))

    def _take_up(self, id_: str) -> Conversation:
        conversation = self._here.pop(id_, None)
        if conversation is None:
            saved = self._resting[id_]
            self._rest_no_more(id_)
            workspace = saved.record.scope.workspace
            conversation = Conversation(
                saved.record, workspace, self._shared(), session=saved.session, calls=saved.calls
            )
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
                saved = each.saved
                self._rest(saved, len(save_conversation(saved.record, saved.session, saved.calls)))

    def _idle(self) -> list[Conversation]:
        """The conversations with an idle agent, the longest unused first."""
        here = self._here.values()
        return [each for each in here if each.has_agent and not each.is_held and not each.is_lent]

    def _park_surplus(self, agents: int) -> None:
        for each in islice(self._idle(), max(agents - self._max_agents, 0)):
            each.park()

    def _settle(self) -> None:
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

    def _rest(self, saved: SavedConversation, size: int) -> None:
        id_ = saved.record.id
        self.records.put(saved.record)
        self._resting[id_], self._sizes[id_] = saved, size
        self._resting_bytes += size
        while self._resting_bytes > _RESTING_BYTES and len(self._resting) > 1:
            oldest = next(iter(self._resting))
            self._rest_no_more(oldest)
            if oldest in self._revisions:
                self.records.put_away(oldest)
            else:
                self.records.remove(oldest)

    def _rest_no_more(self, id_: str) -> None:
        if self._resting.pop(id_, None) is not None:
            self._resting_bytes -= self._sizes.pop(id_)


@contextmanager
def _logging_store_errors(consequence: str) -> Iterator[None]:
    """Log errors of the store: they do not stop a conversation."""
    try:
        yield
    except StoreError as error:
        _log.warning("%s: %s", consequence, error)
