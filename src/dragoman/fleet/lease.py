"""The lease of a node: proof that one *incarnation* of it, from a start to the next, goes on.

The lease is a message at `dg.l.NODE` with a time to live. The node renews it by compare-and-set. Others take what an
incarnation owned when its message is gone.

The node is *fenced* before that: `FENCE_SECONDS` after it **sent** the last renewal that was confirmed. A timer counts, not
an answer, because the answer may come late or never. The clock also counts while the machine sleeps. A node that was
fenced once stays so: it begins another incarnation.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import msgspec

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.stored import ANSWER_SECONDS, StoredMessage, StoredStream, WrongSequence
from dragoman.fleet.subjects import LEASE_SUBJECTS, LEASES
from dragoman.process.deadline import boot_seconds

__all__ = [
    "FENCE_SECONDS",
    "NODE_LEASE_SECONDS",
    "RENEW_SECONDS",
    "LeaseRecord",
    "LeaseTerm",
    "LeaseTimes",
    "NameTaken",
    "NodeLease",
    "find_lease",
    "live_incarnations",
    "live_leases",
]

_log = logging.getLogger(__name__)

# Elections of NATS take up to eight seconds. With three seconds, ten leases were lost in 90 seconds of faults.
NODE_LEASE_SECONDS = 20
RENEW_SECONDS = 4
# The rest is for what the node still does when it is fenced, and for clocks that run differently.
FENCE_SECONDS = 16
# While a renewal fails, the node tries again after so long.
_AGAIN_SECONDS = 0.25
# The loop's timers do not count while the machine sleeps. So the fence is looked at this often.
_LOOK_SECONDS = 1.0


class NameTaken(Exception):
    """Another node with this name lives. The message is a sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """In seconds: how long a lease lasts, how often it is renewed, and when its holder is fenced."""

    # JetStream counts whole seconds.
    lease: int = NODE_LEASE_SECONDS
    renew: float = RENEW_SECONDS
    fence: float = FENCE_SECONDS


class LeaseTerm:
    """When a lease is to be renewed, and when its holder is fenced. Pure: the caller says what time it is."""

    def __init__(self, times: LeaseTimes, sent_at: float) -> None:
        """`sent_at`: when the message that acquired it was sent."""
        self._times = times
        self._sent_at = sent_at
        self._is_over = False

    def seconds_left(self, now: float) -> float:
        """Until the fence. Once it was reached, it stays: the result is 0."""
        left = self._sent_at + self._times.fence - now
        if left <= 0:
            self._is_over = True
        return 0.0 if self._is_over else left

    def seconds_to_renewal(self, now: float) -> float:
        return max(self._sent_at + self._times.renew - now, 0.0)

    def confirm(self, sent_at: float, now: float) -> None:
        """A renewal that was sent then is confirmed now. After the fence that changes nothing."""
        if self.seconds_left(now) > 0:
            self._sent_at = max(self._sent_at, sent_at)

    def end(self) -> None:
        """The lease is lost: another has the name, or the message is gone."""
        self._is_over = True


class LeaseRecord(msgspec.Struct, frozen=True):
    """The content of a lease's message."""

    # "": the node has given the name back.
    incarnation: str
    role: str = ""
    # For people.
    host: str = ""
    # How often it was renewed. It tells one attempt from another.
    renewals: int = 0


class NodeLease:
    """One incarnation of a node. Use `NodeLease.held`."""

    def __init__(
        self,
        connection: FleetConnection,
        node: str,
        role: str,
        times: LeaseTimes,
        clock: Callable[[], float],
    ) -> None:
        self.node = node
        self.incarnation = secrets.token_hex(8)
        # When it began, by the monotonic clock.
        self.began_at = time.monotonic()
        self.fenced = asyncio.Event()
        self.renewal_seconds = 0.0
        self._stream = StoredStream(connection, LEASES)
        self._record = LeaseRecord(self.incarnation, role, socket.gethostname())
        self._times = times
        self._clock = clock
        self._sequence = 0
        self._term = LeaseTerm(times, clock())

    @classmethod
    @asynccontextmanager
    async def held(
        cls,
        connection: FleetConnection,
        node: str,
        role: str,
        *,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = boot_seconds,
        lives_on: bool = False,
    ) -> AsyncIterator[NodeLease]:
        """Acquire the lease of a name, renew it in the background, and give it back at the end of the block.

        Raises `NameTaken` or `FleetUnavailable`. If a node of this name ended without giving it back, this waits until its
        lease ends. A node that `lives_on` begins another incarnation after a fence: one that has nothing to end first.
        """
        lease = cls(connection, node, role, times or LeaseTimes(), clock)
        await lease._acquire()
        task = asyncio.create_task(lease._live_on() if lives_on else lease._live())
        try:
            yield lease
        finally:
            await _end(task)
            await lease._release()

    @classmethod
    def of_reader(cls, connection: FleetConnection, name: str) -> NodeLease:
        """One that is never acquired, for a process that owns nothing and writes nothing."""
        lease = cls(connection, name, "reader", LeaseTimes(), boot_seconds)
        lease._term.end()
        return lease

    async def _live(self) -> None:
        """Renew the lease until the fence."""
        renewing = asyncio.create_task(self._renew())
        try:
            await self._watch()
        finally:
            await _end(renewing)

    async def _live_on(self) -> None:
        while True:
            await self._live()
            await self._release()
            self.incarnation = secrets.token_hex(8)
            self.began_at = time.monotonic()
            self._record = LeaseRecord(self.incarnation, self._record.role, self._record.host)
            is_acquired = is_said = False
            while not is_acquired:
                try:
                    await self._acquire()
                    is_acquired = True
                except (FleetUnavailable, NoAnswer, NameTaken) as error:
                    if not is_said:
                        _log.warning("%s has no lease, and tries to get one: %s", self.node, error)
                    is_said = True
                    await asyncio.sleep(self._times.renew)
            self.fenced.clear()
            _log.warning("%s has a lease again", self.node)

    def seconds_left(self) -> float:
        """Until the fence. 0: it is fenced."""
        left = self._term.seconds_left(self._clock())
        if left <= 0:
            self.fenced.set()
        return left

    # Acquiring and giving back.

    async def _acquire(self) -> None:
        holder: tuple[str, int] | None = None
        while True:
            found, sequence = await self._find()
            if found is None:
                sent_at = self._clock()
                if await self._put(sequence):
                    self._term = LeaseTerm(self._times, sent_at)
                    return
            elif holder is not None and holder != (found.incarnation, sequence):
                raise NameTaken(
                    f"Another {found.role or 'node'} named {self.node!r} runs on {found.host or 'another machine'}. "
                    "Stop it, or give this one another name: `[fleet] name`, or `--name`."
                )
            else:
                # It lives if it renews. If not, it ended without giving the name back, and its lease ends.
                if holder is None:
                    _log.warning(
                        "%s waits until the lease of its former life has ended: %d seconds at most",
                        self.node,
                        self._times.lease,
                    )
                holder = (found.incarnation, sequence)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _release(self) -> None:
        """Others see at once that this incarnation has ended."""
        self._term.end()
        self.fenced.set()
        with suppress(FleetUnavailable, NoAnswer):
            # A renewal that was cut off may still arrive in between: then once more.
            while (found := await self._find())[0] is not None and found[0].incarnation == self.incarnation:
                with suppress(WrongSequence):
                    given_back = msgspec.json.encode(LeaseRecord(""))
                    await self._stream.put(self._subject, given_back, expected=found[1], ttl=1)

    # Renewing.

    async def _renew(self) -> None:
        is_late = False
        while not self.fenced.is_set():
            await asyncio.sleep(self._term.seconds_to_renewal(self._clock()))
            self._record = msgspec.structs.replace(self._record, renewals=self._record.renewals + 1)
            sent_at = self._clock()
            try:
                is_renewed = await self._put(self._sequence)
            except FleetUnavailable as error:
                if not is_late:
                    _log.warning("the lease of %s is not renewed yet: %s", self.node, error)
                is_late = True
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            now = self._clock()
            if is_renewed:
                self.renewal_seconds = now - sent_at
                self._term.confirm(sent_at, now)
                if is_late:
                    _log.warning("the lease of %s is renewed again", self.node)
                is_late = False
            else:
                _log.error("another node has the name %s, or its lease was deleted", self.node)
                self._term.end()
                self.fenced.set()

    async def _watch(self) -> None:
        while (left := self.seconds_left()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.fenced.wait(), min(left, _LOOK_SECONDS))
        _log.error("the lease of %s has ended: others may act in its place", self.node)

    @property
    def _subject(self) -> str:
        return f"{LEASE_SUBJECTS}.{self.node}"

    @property
    def _answer_seconds(self) -> float:
        """For an answer. A renewal and the look at what became of it are tried several times before the fence."""
        return min(self._times.renew, self._times.fence / 8)

    async def _put(self, expected: int) -> bool:
        """Write the record. False: another one has the name, or what was expected is gone. Raises `FleetUnavailable`."""
        try:
            self._sequence = await self._stream.put(
                self._subject,
                msgspec.json.encode(self._record),
                expected=expected,
                ttl=self._times.lease,
                seconds=self._answer_seconds,
            )
        except (NoAnswer, WrongSequence):
            # An attempt without an answer may have been stored: this one, or one before it.
            found, sequence = await self._find()
            if found is not None and found.incarnation == self.incarnation:
                self._sequence = sequence
                if found == self._record:
                    return True
                raise FleetUnavailable("The last renewal was not stored.") from None
            return False
        return True

    async def _find(self) -> tuple[LeaseRecord | None, int]:
        try:
            return await _find(self._stream, self.node, self._answer_seconds)
        except NoAnswer as error:
            raise FleetUnavailable("NATS does not answer, or has no leader.") from error


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended.

    Before Python 3.12, `asyncio.wait_for`, which the client of NATS uses, loses a cancellation that comes with the answer.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_SECONDS)


async def find_lease(
    connection: FleetConnection, node: str, seconds: float = ANSWER_SECONDS
) -> LeaseRecord | None:
    """The lease of a node that lives. Raises `FleetUnavailable` or `NoAnswer`."""
    found, _ = await _find(StoredStream(connection, LEASES), node, seconds)
    return found


async def live_incarnations(connection: FleetConnection) -> dict[str, str]:
    """The incarnation of each node that lives, as `live_leases` has it."""
    return {node: record.incarnation for node, (record, _) in (await live_leases(connection)).items()}


async def live_leases(connection: FleetConnection) -> dict[str, tuple[LeaseRecord, StoredMessage]]:
    """The lease of each node that lives, and its message. Raises `FleetUnavailable` or `NoAnswer`.

    A replica may answer: it is for people and choices, not for take-overs.
    """
    found: dict[str, tuple[LeaseRecord, StoredMessage]] = {}
    for stored in await StoredStream(connection, LEASES).last_of_all(f"{LEASE_SUBJECTS}.*"):
        try:
            record = _record(stored)
        except FleetUnavailable as error:
            _log.info("a node is left out: %s", error)
            continue
        if record is not None:
            found[stored.subject.rpartition(".")[2]] = record, stored
    return found


async def _find(
    leases: StoredStream, node: str, seconds: float = ANSWER_SECONDS
) -> tuple[LeaseRecord | None, int]:
    """The lease, if there is one, and the sequence number with which it can be replaced."""
    stored = await leases.last(f"{LEASE_SUBJECTS}.{node}", seconds)
    if stored is None:
        return None, 0
    return _record(stored), stored.sequence


def _record(stored: StoredMessage) -> LeaseRecord | None:
    if stored.is_tombstone or not stored.data:
        # The server's own note that the message has expired. An acquisition has to expect it.
        return None
    try:
        record = msgspec.json.decode(stored.data, type=LeaseRecord)
    except msgspec.MsgspecError as error:
        raise FleetUnavailable(f"{stored.subject} has no lease: {error}.") from error
    return record if record.incarnation else None
