"""The workers of a fleet, as a gateway sees them: which there are, what they offer, and the streams with them.

One for each process. It pings every worker with which it has streams, and counts until when that worker may be believed
(`validity`). It connects when it is first used.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol, TypeVar

import msgspec

from dragoman.backends.remote.permission_mirror import PermissionMirror
from dragoman.backends.remote.stream import SAME_VERSION, RemoteStream, machine_error
from dragoman.backends.remote.validity import Validity
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, NobodyThere, Received
from dragoman.fleet.joining import joined, reader_name
from dragoman.fleet.lease import find_lease
from dragoman.fleet.messages import (
    ACCEPTED_FORM,
    BATCH_FORM,
    BATCH_START_FORM,
    BATCHES_FORM,
    BID_FORM,
    BID_REQUEST_FORM,
    MOST_ORPHANS,
    PONG_FORM,
    REQUEST_FORM,
    STATUS_FORM,
    STREAM_FORM,
    Bid,
    BidRequest,
    Cancel,
    Delivered,
    DropOrphan,
    Form,
    HandOver,
    NodeStatus,
    OfferedModel,
    Ping,
    RequestMessage,
    Resend,
    ResumeStream,
    StreamMessage,
)
from dragoman.fleet.placement import Place
from dragoman.fleet.settings import FleetSettings
from dragoman.fleet.stored import ELECTION_SECONDS
from dragoman.fleet.subjects import (
    STATUS,
    bids_subject,
    is_node_name,
    parts_subject,
    requests_subject,
    streams_subject,
)
from dragoman.lm import LanguageModelError
from dragoman.permissions.grants import Grants
from dragoman.process.deadline import boot_seconds

__all__ = ["Fleet", "PlacementStore", "Unwilling", "WorkerLost", "WorkerPeer"]

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

PING_SECONDS = 2.0
# Pings in a row after which the same batch is asked for again. Many messages in a row are not lost by chance.
_MOST_RESENDS = 8
# Between two pings, if the first took long.
_SHORTEST_WAIT = 0.01
# A worker answers in milliseconds. Twice, because a message may be lost.
_ACCEPT_SECONDS = 1.5
# A large request is on its way for longer: pictures and files.
_BYTES_A_SECOND = 8 * 1024 * 1024
# Workers that are known are waited for so long.
_BID_SECONDS = 0.5
_STATUS_SECONDS = 0.5
_REFRESH_SECONDS = 5.0
# A worker that has not said anything for so long, and has no lease, is not there.
_FORGET_SECONDS = 16.0
# NATS says at once that nobody listens at a worker's subject. A worker that connects to another server is back in two seconds.
_ABSENT_SECONDS = 5.0


class PlacementStore(Protocol):
    """A store that knows where conversations are: `journal.jetstream`."""

    async def place_of(self, journal: str) -> Place | None: ...

    async def hinted(self, keys: Sequence[str]) -> list[str]:
        """The conversations under these keys of the index, those of earlier keys first."""
        ...


class Unwilling(Exception):
    """A worker does not take a request now, because it drains or is full."""

    def __init__(self, error: LanguageModelError) -> None:
        super().__init__(error.message)
        self.error = error


class WorkerLost(LanguageModelError):
    """The worker of a response is gone, or this gateway cannot know whether it is."""

    def __init__(self, node: str) -> None:
        what = "no longer answers. What it did last may be lost."
        hint = "Send the request again, or the next one: the conversation continues on another machine."
        super().__init__(
            "unavailable",
            f"The machine {node}, on which this conversation runs, {what}",
            hint=hint,
            public=f"The machine on which this conversation runs {what} {hint}",
        )


class WorkerPeer:
    """One incarnation of a worker, with the streams from it."""

    def __init__(self, node: str, incarnation: str, validity: Validity) -> None:
        self.node = node
        self.incarnation = incarnation
        self.validity = validity
        self.streams: dict[str, RemoteStream] = {}
        self.pinging: asyncio.Task[None] | None = None
        # Since when nobody has listened at its subject, by the gateway's clock; None: somebody does, or that is not known.
        self.absent_since: float | None = None

    def fail(self) -> None:
        """Nothing more of this incarnation is shown."""
        for stream in self.streams.values():
            stream.fail(WorkerLost(self.node))


class Fleet:
    """All that a gateway knows of the workers."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[FleetConnection]],
        name: str,
        store: PlacementStore | None = None,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """`name` is that of this node. Two processes may share it; their streams do not mix."""
        self._connect = connect
        self._name = name
        # What workers know this process by. Parts come to the subject of the first half.
        self.gateway = f"{name}/{secrets.token_hex(4)}"
        self.store = store
        self.clock = clock
        self._mirror: PermissionMirror | None = None
        self._connection: FleetConnection | None = None
        self._connecting = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._streams: dict[str, RemoteStream] = {}
        self._peers: dict[tuple[str, str], WorkerPeer] = {}
        self._nodes: dict[str, tuple[float, NodeStatus]] = {}
        # Requests to each worker that it has not answered yet.
        self._opening: Counter[str] = Counter()
        # Workers that did not answer when they were last asked for a bid.
        self._silent: set[str] = set()
        self._refreshing: asyncio.Task[None] | None = None
        # Called when the models that workers offer have changed.
        self.on_change: list[Callable[[], None]] = []
        # Called with the id of a background response whose gateway is gone, as often as its worker says so. It continues the
        # response if that is possible here, and returns whether the response has ended already.
        self.on_orphan: Callable[[str], Awaitable[bool]] | None = None
        self._orphans: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def of_config(cls, config: FleetSettings) -> Fleet:
        """One that connects when it is used. It has no lease and no store, so it asks workers where conversations are.

        Raises `FleetUnavailable` if its credentials cannot be read.
        """
        name = reader_name(config)
        return cls(lambda: joined(config, name), name)

    @classmethod
    def on(cls, connection: FleetConnection, name: str, store: PlacementStore | None = None) -> Fleet:
        """One that uses a connection of the caller."""

        @asynccontextmanager
        async def given() -> AsyncIterator[FleetConnection]:
            yield connection

        return cls(given, name, store)

    async def connected(self) -> FleetConnection:
        """The connection. Raises `FleetUnavailable`."""
        async with self._connecting:
            if self._connection is None:
                connection = await self._stack.enter_async_context(self._connect())
                self._stack.push_async_callback(
                    await connection.subscribe(parts_subject(self._name), self._on_batches)
                )
                await connection.flush()
                connection.on_reconnect.append(self._ping_soon)
                self._connection = connection
                self._refreshing = asyncio.create_task(self._keep_fresh())
        return self._connection

    def permission_mirror(self, grants: Grants) -> PermissionMirror:
        """The permission requests of workers in this process: one for all models."""
        if self._mirror is None:
            self._mirror = PermissionMirror(self.connected, grants, self._owner_of)
        return self._mirror

    async def _owner_of(self, conversation: str) -> str | None:
        """Raises `JournalStoreError`."""
        if self.store is None:
            return None
        place = await self.store.place_of(conversation)
        return place.owner if place is not None and is_node_name(place.owner) else None

    async def close(self) -> None:
        for peer in self._peers.values():
            peer.fail()
        tasks = [each.pinging for each in self._peers.values()] + [self._refreshing, *self._orphans.values()]
        for task in tasks:
            if task is not None:
                task.cancel()
        if self._connection is not None:
            self._connection.on_reconnect.remove(self._ping_soon)
        self._connection = self._refreshing = None
        self._peers.clear()
        await self._stack.aclose()

    # Which workers there are.

    @property
    def offered(self) -> dict[str, OfferedModel]:
        """The models that workers offer, by their ids."""
        return {model.info.id: model for status in self.nodes for model in status.models}

    @property
    def nodes(self) -> list[NodeStatus]:
        return [status for _, status in self._nodes.values()]

    def nodes_with(self, model: str, labels: Iterable[str] = ()) -> list[NodeStatus]:
        """The workers that offer a model, and have these labels."""
        return [
            status
            for status in self.nodes
            if set(labels) <= set(status.labels) and any(each.info.id == model for each in status.models)
        ]

    async def refresh(self) -> None:
        """Ask all workers what they offer."""
        connection = await self.connected()
        if not connection.is_connected:
            # Nobody can be heard. The models are not gone for that.
            return
        before = self.offered
        known = len(self.nodes)
        count = 0

        def is_last(_answer: bytes) -> bool:
            nonlocal count
            count += 1
            # One more than are known: perhaps there are others.
            return 0 < known < count

        answers = await connection.collect(STATUS, b"", _STATUS_SECONDS, is_last)
        now = self.clock()
        for answer in answers:
            status = _read(STATUS_FORM, answer, "a node's status")
            if status is not None and status.role == "worker":
                self._nodes[status.name] = now, status
                self._silent.discard(status.name)
                for response, stream in itertools.islice(status.orphans.items(), MOST_ORPHANS):
                    self._look_after(status.name, response, stream)
        # One drops out when it has been silent for a while: answers may be lost.
        silent = [name for name, (heard, _) in self._nodes.items() if now - heard >= _FORGET_SECONDS]
        for name, is_gone in zip(silent, await asyncio.gather(*map(self._is_gone, silent)), strict=True):
            # Another refresh may have heard it meanwhile, or dropped it.
            if is_gone and name in self._nodes and self._nodes[name][0] < now:
                del self._nodes[name]
                self._silent.discard(name)
        if before != self.offered:
            for notify in self.on_change:
                notify()

    def _look_after(self, node: str, response: str, stream: str) -> None:
        async def looked_after() -> None:
            try:
                if self.on_orphan is not None and await self.on_orphan(response):
                    # Only the last receipt was lost.
                    await self._say(node, DropOrphan(stream, response))
            finally:
                del self._orphans[response]

        if response not in self._orphans:
            self._orphans[response] = asyncio.create_task(looked_after())

    async def _is_gone(self, node: str) -> bool:
        """Whether a worker has no lease. Its silence may be that of a NATS server which is cut off from the others."""
        try:
            return await find_lease(await self.connected(), node) is None
        except (FleetUnavailable, NoAnswer):
            return False

    async def _is_in_touch(self, node: str) -> bool:
        """Whether leases can be read. If not, this gateway's NATS server may be cut off from the others.

        A server that led the leases when it was cut off still reads them for some seconds.
        """
        try:
            await find_lease(await self.connected(), node)
        except (FleetUnavailable, NoAnswer):
            return False
        return True

    async def _keep_fresh(self) -> None:
        while True:
            try:
                await self.refresh()
            except FleetUnavailable as error:
                _log.debug("workers cannot be asked what they offer: %s", error)
            await asyncio.sleep(_REFRESH_SECONDS)

    async def bids(
        self, model: str, hints: Iterable[str], first_seconds: float = ELECTION_SECONDS
    ) -> list[Bid]:
        """What workers with this model say to a request. Empty at once if the NATS server knows of none.

        `first_seconds`: so long it waits for the first bid. Workers that are known may be busy, or the server may hang.
        """
        connection = await self.connected()
        hinted = tuple(hints)
        known = {status.name for status in self.nodes_with(model)}

        # One that did not answer in time delays no other new conversation until it is heard again.
        awaited = known if hinted else known - self._silent
        missing = set(awaited)
        bids: list[Bid] = []

        def is_last(answer: bytes) -> bool:
            bid = _read(BID_FORM, answer, "a bid")
            if bid is not None:
                bids.append(bid)
                self._silent.discard(bid.node)
                missing.discard(bid.node)
            return bool(awaited) and not missing

        asked = BID_REQUEST_FORM.encode(BidRequest(model, hinted))
        await connection.collect(
            bids_subject(model), asked, _BID_SECONDS, is_last, first_seconds if known else 0.0
        )
        self._silent |= missing
        return bids

    @property
    def streams_with(self) -> Mapping[str, int]:
        """How many streams there are with each worker, and requests that it has not answered yet."""
        counts = Counter(self._opening)
        for peer in self._peers.values():
            counts[peer.node] += len(peer.streams)
        return counts

    # Streams.

    async def open(
        self, node: str, message: RequestMessage, background_id: str = ""
    ) -> tuple[WorkerPeer, RemoteStream] | None:
        """Send a request to a worker. None: it has not got it, or does not answer. It does nothing before it is confirmed.

        `background_id`: the response that it is for, if the worker is to keep what is not stored.

        Raises `Unwilling`, or the `LanguageModelError` with which the worker refuses.
        """
        connection = await self.connected()
        data = REQUEST_FORM.encode(message)
        stream = RemoteStream(message.stream, node, self.gateway)
        sent_at = self.clock()
        self._opening[node] += 1
        try:
            answer = await _asked(connection, node, data)
        except asyncio.CancelledError:
            # The worker may have accepted it, and would keep a place for it until it is confirmed.
            await self._say(node, Cancel(stream.id, self.gateway))
            raise
        finally:
            self._opening[node] -= 1
        if answer is None:
            # It may get the request late, and would keep a place for it until it is confirmed.
            await self._say(node, Cancel(stream.id, self.gateway))
            return None
        stream.background_id = background_id
        return await self._begun(stream, sent_at, answer)

    async def resume(self, stream: RemoteStream, incarnation: str) -> tuple[WorkerPeer, RemoteStream] | None:
        """Take a stream whose gateway is gone, after the batches that it has. None: its worker does not answer.

        Raises `Unwilling` while the worker still counts on the other gateway, or the `LanguageModelError` of a stream that is
        not there any more.
        """
        connection = await self.connected()
        message = ResumeStream(stream.id, self.gateway, stream.background_id, stream.window.number)
        sent_at = self.clock()
        # What comes next may overtake the answer.
        stream.incarnation = incarnation
        self._streams[stream.id] = stream
        begun = None
        try:
            answer = await connection.request(
                streams_subject(stream.node), STREAM_FORM.encode(message), _ACCEPT_SECONDS
            )
            begun = await self._begun(stream, sent_at, answer)
        except (NobodyThere, NoAnswer):
            pass
        except asyncio.CancelledError:
            # The worker may have given it to this gateway. If the response is cancelled, its journal says so, and another
            # gateway lets the worker drop it.
            await self._say(stream.node, HandOver(stream.id, self.gateway))
            raise
        finally:
            if begun is None:
                self._streams.pop(stream.id, None)
        return begun

    async def _begun(
        self, stream: RemoteStream, sent_at: float, answer: bytes
    ) -> tuple[WorkerPeer, RemoteStream] | None:
        """Read a worker's answer to a request for a stream, and confirm the stream."""
        node = stream.node
        accepted = _read(ACCEPTED_FORM, answer, f"the answer of {node} to a request")
        if accepted is None:
            return None
        if accepted.error is not None:
            error = accepted.error.error()
            raise Unwilling(error) if accepted.is_unwilling else error
        if stream.incarnation not in ("", accepted.incarnation):
            raise WorkerLost(node)
        key = node, accepted.incarnation
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = WorkerPeer(*key, Validity.heard(sent_at, accepted.seconds_left))
        peer.validity.extend(sent_at, accepted.seconds_left)
        if peer.validity.seconds_left(self.clock()) <= 0:
            return None
        stream.incarnation = accepted.incarnation
        stream.sent_before = accepted.sent
        self._streams[stream.id] = peer.streams[stream.id] = stream
        if peer.pinging is None or peer.pinging.done():
            peer.pinging = asyncio.create_task(self._ping(peer))
        try:
            # Now the worker begins.
            await self._say(node, stream.receipt)
        except asyncio.CancelledError:
            await self.leave(peer, stream, is_over=False, hands_over=bool(stream.background_id))
            raise
        return peer, stream

    async def receipt(self, stream: RemoteStream) -> None:
        await self._say(stream.node, stream.receipt)

    async def leave(
        self, peer: WorkerPeer, stream: RemoteStream, *, is_over: bool, hands_over: bool = False
    ) -> None:
        """Forget a stream. If it is not over, its worker cancels it, or keeps it for another gateway."""
        self._streams.pop(stream.id, None)
        peer.streams.pop(stream.id, None)
        if hands_over:
            await self._say(stream.node, HandOver(stream.id, self.gateway))
        elif not is_over:
            await self._say(stream.node, Cancel(stream.id, self.gateway))

    async def delivered(self, node: str, model: str, conversation: str, *, whole: bool) -> None:
        await self._say(node, Delivered(model, conversation, whole))

    async def _say(self, node: str, message: StreamMessage) -> None:
        """Tell a worker something about streams. If it is lost, the next ping makes up for it."""
        if self._connection is not None:
            try:
                await self._connection.publish(streams_subject(node), STREAM_FORM.encode(message))
            except FleetUnavailable as error:
                _log.debug("a message to %s was not sent: %s", node, error)

    async def _on_batches(self, received: Received) -> None:
        for data in _read(BATCHES_FORM, received.data, "a message with parts of responses") or ():
            try:
                batch = BATCH_FORM.decode(data)
            except msgspec.MsgspecError as error:
                self._fail_unread(data, error)
                continue
            stream = self._streams.get(batch.stream)
            # Of a stream that is over, or of another process with this name.
            if stream is not None and stream.take(batch, len(data)):
                await self._say(stream.node, Resend(stream.id, stream.window.number))

    def _fail_unread(self, data: bytes, error: msgspec.MsgspecError) -> None:
        """A batch cannot be read. Sent again, it would be the same, so its stream fails."""
        _log.warning("parts of a response cannot be read: %s", error)
        try:
            stream = self._streams.get(BATCH_START_FORM.decode(data).stream)
        except msgspec.MsgspecError:
            return
        if stream is not None:
            stream.fail(_unread_error(stream.node))

    # Pings.

    def _ping_soon(self) -> None:
        """The connection was lost and is there again: compare at once."""
        for peer in self._peers.values():
            if peer.pinging is not None:
                peer.pinging.cancel()
            peer.pinging = asyncio.create_task(self._ping(peer))

    async def _ping(self, peer: WorkerPeer) -> None:
        """Ping a worker while there are streams with it, and once more: then it knows that all are over."""
        is_over = False
        while not is_over:
            was_empty = not peer.streams
            sent_at = self.clock()
            left = peer.validity.seconds_left(sent_at)
            if left <= 0:
                break
            try:
                await self._compare(peer, sent_at, min(PING_SECONDS, left))
            except NobodyThere:
                if peer.absent_since is None:
                    peer.absent_since = sent_at
                if sent_at - peer.absent_since >= _ABSENT_SECONDS and await self._is_in_touch(peer.node):
                    # Its process has ended.
                    break
            except (NoAnswer, FleetUnavailable) as error:
                # It may be there, and hang.
                peer.absent_since = None
                _log.debug("%s has not answered a ping: %s", peer.node, error)
            except msgspec.MsgspecError:
                _log.exception("the answer of %s to a ping cannot be read", peer.node)
            is_over = was_empty and not peer.streams
            if not is_over:
                now = self.clock()
                wait = min(sent_at + PING_SECONDS - now, peer.validity.seconds_left(now))
                await asyncio.sleep(max(wait, _SHORTEST_WAIT))
        if peer.streams:
            kept = sum(bool(each.background_id) for each in peer.streams.values())
            _log.warning(
                "the worker %s does not answer any more: answers that fail: %d; background responses that are tried again: %d",
                peer.node,
                len(peer.streams) - kept,
                kept,
            )
        # Without a wait since the last look: nobody has opened a stream in between.
        peer.fail()
        del self._peers[peer.node, peer.incarnation]

    async def _compare(self, peer: WorkerPeer, sent_at: float, seconds: float) -> None:
        connection = await self.connected()
        streams = tuple(peer.streams.values())
        had = {stream.id: stream.window.number for stream in streams}
        # Those of all lives of this worker: it gives up what a ping does not name, and they take pings at one subject.
        lives = (each for each in self._peers.values() if each.node == peer.node)
        named = tuple(stream.receipt for each in lives for stream in each.streams.values())
        ping = Ping(self.gateway, named)
        answer = await connection.request(streams_subject(peer.node), STREAM_FORM.encode(ping), seconds)
        pong = PONG_FORM.decode(answer)
        if pong.incarnation != peer.incarnation:
            peer.fail()
            return
        peer.absent_since = None
        peer.validity.extend(sent_at, pong.seconds_left)
        for stream in streams:
            sent = pong.sent.get(stream.id)
            if sent is None:
                # A worker forgets a stream whose end has arrived, if the receipt for it was lost.
                if stream.id in self._streams and not stream.has_end:
                    stream.fail(WorkerLost(peer.node))
            elif stream.window.is_behind(sent, had[stream.id]):
                stream.resends += 1
                if stream.resends > _MOST_RESENDS:
                    # It arrives, and cannot be read.
                    stream.fail(_unread_error(peer.node))
                await self._say(peer.node, Resend(stream.id, stream.window.number))


async def _asked(connection: FleetConnection, node: str, request: bytes) -> bytes | None:
    """A worker's answer to a request. None: it has not got it, or does not answer."""
    for _ in range(2):
        try:
            seconds = _ACCEPT_SECONDS + len(request) / _BYTES_A_SECOND
            return await connection.request(requests_subject(node), request, seconds)
        except NobodyThere:
            return None
        except NoAnswer:
            continue
    return None


def _read(form: Form[_T], data: bytes, what: str) -> _T | None:
    """A message. None if it cannot be read: what one node says wrong concerns no other."""
    try:
        return form.decode(data)
    except msgspec.MsgspecError as error:
        _log.warning("%s cannot be read: %s", what, error)
        return None


def _unread_error(node: str) -> LanguageModelError:
    return machine_error("internal", node, "has sent something that cannot be read here.", SAME_VERSION)
