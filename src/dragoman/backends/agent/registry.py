"""All conversations of a model: found, begun, put to rest, taken up again.

Three places a conversation may be in:

- *here*: under way in this process, perhaps with an agent that runs;
- *resting*: its record is in memory, and nothing else of it;
- *away*: only where it stands in the index is known, and the store has the rest.

With a store, several processes may know the same conversation. It belongs to the one in which a turn is under way, and
for as long as that is; whoever wants it meanwhile waits a moment for its release, and then goes on with a fork. Between
two turns it belongs to nobody, and any of them may go on with it. What another process has added is seen by the
revision: an agent here that has not heard it is let go, and its session is taken up again.

Nothing here is unbounded. Agents that are idle are parked, the longest unused first, when there are too many or they take
too much memory; so are records put away. What has work pending is never touched: after a burst, agents beyond the limit are
parked as they become idle.
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
from dragoman.backends.agent.memory_limit import LOOK_SECONDS, MemoryLimit
from dragoman.conversations import lease as owner
from dragoman.conversations.history import NormalPrompt, normalise
from dragoman.conversations.identify import Identified, Knowledge, identify
from dragoman.conversations.ids import new_conversation_id
from dragoman.conversations.records import Away, ConversationRecord, Records, Scope
from dragoman.conversations.saving import SavedConversation, SavedError, load_conversation, save_conversation
from dragoman.lm import Request
from dragoman.lm.surrogates import mended
from dragoman.store import ConversationStore, StoredConversation, StoreError

__all__ = ["ConversationRegistry", "Placed"]

_log = logging.getLogger(__name__)

# Of records that rest in memory, as they are on disk. In memory they take four to five times as much.
_RESTING_BYTES = 16 * 1024 * 1024
# Of a conversation's first words, for a list.
_TITLE_CHARACTERS = 120


class Placed(NamedTuple):
    found: Identified
    # None for an aside, which belongs to none.
    conversation: Conversation | None


class ConversationRegistry:
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
        # Under way here, and the store could not be told.
        self._unclaimed: set[str] = set()
        # What we know of the store: of each conversation, of all of them, and of whether anybody wrote.
        self._revisions: dict[str, int] = {}
        self._revision = -1
        self._version: int | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._memory = memory
        if memory is not None:
            memory.add(self._idle)
        self._watching: asyncio.Task[None] | None = None
        # Whether it is about to be seen if there are too many agents.
        self._is_settling = False
        self._ending: set[asyncio.Task[None]] = set()

    def place(self, request: Request, known: Knowledge, *, waits: bool) -> Placed | None:
        """What a request is, and the conversation it goes to, ours from here on.

        None when another process has it: ask again in a moment. Whoever does not wait any longer gets a fork.
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
                # It gets what it has had: nothing begins.
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
                    # By now we know how.
                    pass

    @asynccontextmanager
    async def lend(self, scope: Scope) -> AsyncIterator[RunningAgent | None]:
        """An agent that runs in this scope, for the session of a side request. One that starts is waited for.

        An agent of another scope is never lent: it was started for another model, folder or connection, and what it may
        do and knows is theirs.
        """
        here = [each for each in self._here.values() if each.scope == scope]
        # Those that run come first: there is nothing to wait for.
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
        """End every agent. What is under way is cut, and belongs to nobody."""
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
            except Away as away:
                self._bring(away.conversation)

    async def recall(self) -> None:
        """See what other processes have kept: a great deal perhaps, so others get their turn meanwhile."""
        for _ in self._changes():
            await asyncio.sleep(0)

    def _look(self) -> None:
        """See what other processes have added."""
        for _ in self._changes():
            pass

    def _changes(self) -> Iterator[None]:
        """Bring one after the other. What could not be read is looked at again the next time."""
        if self._store is None:
            return
        with _logging_store_errors("what was kept of conversations cannot be read"):
            version = self._store.version_seen()
            if version == self._version:
                return
            for id_, revision in self._store.changed_since(self._revision, self._model):
                # What is here is looked at when it is claimed.
                if id_ not in self._here and revision != self._revisions.get(id_):
                    self._fetch(id_)
                self._revision = revision
                yield
            self._version = version

    def _bring(self, id_: str) -> None:
        """From the store into memory. What cannot be read now is not known now, and is looked for again."""
        try:
            self._fetch(id_)
        except StoreError as error:
            _log.warning("conversation %s cannot be taken up now: %s", id_, error)
            self._revision, self._version = -1, None

    def _fetch(self, id_: str) -> None:
        """Raises `StoreError`. What makes no sense is not known: it begins anew, with everything told again."""
        self.records.remove(id_)
        self._rest_no_more(id_)
        kept = self._store.find(id_) if self._store is not None else None
        if kept is None:
            # Somebody deleted it.
            return
        try:
            saved = load_conversation(kept.content)
        except SavedError as error:
            _log.warning("conversation %s cannot be taken up again: %s", id_, error)
            return
        self._revisions[id_] = kept.revision
        self._rest(saved, len(kept.content))

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
                # It could not be kept.
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
            _log.warning("nobody else can know that conversation %s is under way here: %s", id_, error)
            self._unclaimed.add(id_)
            return "ours"
        self._revisions[id_] = revision
        self._unclaimed.discard(id_)
        return "ours"

    def _forget(self, id_: str) -> None:
        """Somebody deleted it: nothing of it is left here either."""
        self._let_go(id_)
        self.records.remove(id_)
        self._rest_no_more(id_)
        self._revisions.pop(id_, None)

    def _is_deleted(self, id_: str) -> bool:
        """Whether it was kept and is no longer. Only what nothing is under way of can be deleted."""
        return self._store is not None and id_ in self._revisions and self._store.holding(id_) is None

    def _let_go(self, id_: str) -> None:
        """Another process has gone on with it: what runs here knows too little."""
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
                with _logging_store_errors("other processes may take what is under way here for abandoned"):
                    self._store.renew(self._owner, owner.lease())

    def save(self, record: ConversationRecord, session: str | None, calls: int, *, held: bool) -> None:
        """Keep a conversation; as ours, or, when nothing of it is under way, as nobody's."""
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
        # It goes on all the same, as long as we do.
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
        """It is the latest used, and there is room for it."""
        self._here[conversation.id] = conversation
        if self._renewing is None and self._store is not None:
            self._renewing = asyncio.create_task(self._renew())
        if self._watching is None and self._memory is not None:
            self._watching = asyncio.create_task(self._watch_memory(self._memory))
        if not conversation.has_agent:
            self._make_room(conversation)
        return conversation

    def _make_room(self, conversation: Conversation) -> None:
        """Another agent is about to start. Looks at all that is here, which is why it is not done for every request."""
        others = [each for each in self._here.values() if each is not conversation]
        self._park_surplus(1 + sum(each.has_agent for each in others))
        for each in others:
            if each.is_over:
                del self._here[each.id]
                saved = each.saved
                self._rest(saved, len(save_conversation(saved.record, saved.session, saved.calls)))

    def _idle(self) -> list[Conversation]:
        """Those with an agent that has nothing to do, the longest unused first."""
        here = self._here.values()
        return [each for each in here if each.has_agent and not each.is_held and not each.is_lent]

    def _park_surplus(self, agents: int) -> None:
        for each in islice(self._idle(), max(agents - self._max_agents, 0)):
            each.park()

    def _settle(self) -> None:
        """See soon whether there are too many agents, now that one has become idle."""
        if not self._is_settling:
            self._is_settling = True
            # Not now: its conversation is in the middle of something.
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
    """What the store cannot do does not stop a conversation."""
    try:
        yield
    except StoreError as error:
        _log.warning("%s: %s", consequence, error)
