"""One life of a worker: it takes requests from NATS and calls `respond` of the models of its machine.

Everything here ends at the fence. Nothing is published after it: the lease is looked at right before each message.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec.structs import replace

from dragoman import __version__
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, Received
from dragoman.fleet.messages import (
    ACCEPTED_FORM,
    BID_FORM,
    BID_REQUEST_FORM,
    MOST_ORPHANS,
    PONG_FORM,
    REQUEST_FORM,
    STATUS_FORM,
    STREAM_FORM,
    Accepted,
    Bid,
    Cancel,
    Delivered,
    DropOrphan,
    ErrorMessage,
    HandOver,
    NodeStatus,
    OfferedModel,
    Ping,
    Pong,
    Receipt,
    RequestMessage,
    Resend,
    ResumeStream,
    StreamEnd,
)
from dragoman.fleet.subjects import (
    BIDS,
    STATUS,
    bids_subject,
    is_node_name,
    parts_subject,
    requests_subject,
    streams_subject,
)
from dragoman.frontends.worker.batch_sender import BatchSender
from dragoman.frontends.worker.permission_service import PermissionService
from dragoman.frontends.worker.stream import WorkerStream
from dragoman.journal.store import HeldElsewhere
from dragoman.lm import GuardedModel, LanguageModelError, with_capability_tags
from dragoman.models import Models
from dragoman.models.folder_choice import with_chosen_folder
from dragoman.process.deadline import boot_seconds, set_deadline
from dragoman.process.memory import measure_below

__all__ = ["ConversationLoader", "Lease", "ServingWorker", "WorkerLimits"]

_log = logging.getLogger(__name__)

# A gateway pings every two seconds. One that has not for so long is gone, or counts this worker as gone.
GATEWAY_SILENCE_SECONDS = 16.0
# A background response waits for another gateway, or for its own to be started again. A gateway's lease ends after 20 seconds.
ORPHAN_SECONDS = 120.0
# Until a gateway confirms its request. It does so at once, and again with its next ping.
_CONFIRM_SECONDS = 10.0
# Cancellations that are remembered for requests which may still come.
_MOST_CANCELLED = 256
_TICK_SECONDS = 1.0
# For what is under way when the worker stops. After a fence there is not much time.
_STOP_SECONDS = 1.0
# How old the measured memory of agents may be.
_MEMORY_SECONDS = 5.0
_RETRY_SECONDS = 5.0
_SAME_VERSION = "Gateways and workers should have the same version of Dragoman."


class Lease(Protocol):
    """What proves that this life of the worker goes on: `fleet.lease.NodeLease`."""

    @property
    def node(self) -> str: ...

    @property
    def incarnation(self) -> str: ...

    @property
    def fenced(self) -> asyncio.Event: ...

    @property
    def renewal_seconds(self) -> float: ...

    def seconds_left(self) -> float: ...


class ConversationLoader(Protocol):
    """A store that loads conversations when a request hints at them."""

    async def consider(self, ids: Iterable[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    max_agents: int = 32
    # In bytes, of all agents. None: no limit.
    max_memory: int | None = None
    labels: tuple[str, ...] = ()


class ServingWorker:
    """A worker for as long as its lease lasts."""

    def __init__(
        self,
        connection: FleetConnection,
        lease: Lease,
        models: Models,
        store: ConversationLoader | None,
        limits: WorkerLimits,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._connection = connection
        self._lease = lease
        self._models = models
        self.calls = PermissionService(models.permissions.grants)
        self._store = store
        self._limits = limits
        self._clock = clock
        self.is_draining = False
        # The models that this worker offers.
        self._offered: tuple[str, ...] = ()
        self._streams: dict[str, WorkerStream] = {}
        # Streams that were cancelled before their request was here.
        self._cancelled: deque[str] = deque(maxlen=_MOST_CANCELLED)
        self._sender = BatchSender(lambda gateway, data: self._publish(parts_subject(gateway), data))
        self._sending: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # When each gateway with streams was heard last.
        self._heard: dict[str, float] = {}
        self._unsubscribe: dict[str, Callable[[], Awaitable[None]]] = {}
        self._memory: tuple[float, int] = (-_MEMORY_SECONDS, 0)
        self._ticking: asyncio.Task[None] | None = None
        self.has_started = False
        # How many requests it has accepted.
        self.accepted = 0
        # Set when a stream has ended: a drain looks again.
        self._stream_ended = asyncio.Event()

    async def start(self) -> None:
        set_deadline(self._clock() + self._lease.seconds_left())
        self._sending = asyncio.create_task(self._sender.run())
        name = self._lease.node
        await self._listen(streams_subject(name), self._on_stream)
        await self._listen(requests_subject(name), self._on_request)
        await self._listen(STATUS, self._on_status)
        await self.offer()
        await self._connection.flush()
        self._ticking = asyncio.create_task(self._tick())
        self.has_started = True

    async def until_idle(self) -> None:
        """Wait until nothing is under way and gateways have got everything."""
        while self._streams or any(each.is_busy for each in self._models.conversations()):
            self._stream_ended.clear()
            # A turn may also end without a stream.
            try:
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._stream_ended.wait()
            except TimeoutError:
                pass

    async def stop(self, error: LanguageModelError) -> None:
        """Take nothing more. Streams that are left end with this error, as far as it can still be sent."""
        if self._ticking is not None:
            self._ticking.cancel()
        for end in self._unsubscribe.values():
            await end()
        self._unsubscribe.clear()
        for stream in tuple(self._streams.values()):
            if self._lease.seconds_left() > 0:
                await self._sender.send_end(stream, StreamEnd(ErrorMessage.of(error)))
            stream.give_up()
        if self._sending is not None:
            self._sending.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)

    # What comes.

    async def _listen(self, subject: str, handle: Callable[[Received], Awaitable[None]]) -> None:
        self._unsubscribe[subject] = await self._connection.subscribe(subject, handle)

    async def offer(self) -> None:
        """Bid for the models that are there now. The caller repeats it when the configuration has changed."""
        usable = (info.id for info in self._models.infos())
        self._offered = tuple(each for each in usable if not self._models.is_remote(each))
        subjects = {bids_subject(model) for model in self._offered}
        bidding = {each for each in self._unsubscribe if each.startswith(f"{BIDS}.")}
        for subject in bidding - subjects:
            await self._unsubscribe.pop(subject)()
        for subject in subjects - bidding:
            await self._listen(subject, self._on_bid_request)

    async def _on_bid_request(self, received: Received) -> None:
        asked = BID_REQUEST_FORM.decode(received.data)
        memory = None if self._limits.max_memory is None else self._limits.max_memory - self._memory_now()
        bid = Bid(
            self._lease.node,
            self._lease.incarnation,
            self._turns,
            self._agents,
            self._limits.max_agents,
            memory,
            self._limits.labels,
            self.is_draining,
            self._is_full_for(asked.model),
            _RETRY_SECONDS,
            holds=self._holds(asked.hints, only_busy=self.is_draining),
        )
        await self._answer(received, BID_FORM.encode(bid))

    async def _on_request(self, received: Received) -> None:
        accepted = Accepted(self._lease.incarnation, self._lease.seconds_left())
        try:
            message = REQUEST_FORM.decode(received.data)
        except msgspec.MsgspecError as error:
            _log.warning("a request could not be read: %s", error)
            refused = LanguageModelError(
                "internal",
                f"The worker {self._lease.node} cannot read the request: {error}.",
                hint=_SAME_VERSION,
                public=f"The machine for this model cannot read the request. {_SAME_VERSION}",
            )
            accepted = replace(accepted, error=ErrorMessage.of(refused))
        else:
            # The same request again: the answer to it was lost.
            if message.stream in self._cancelled:
                return
            if message.stream not in self._streams and self._lease.seconds_left() > 0:
                refused_because = self._refusal(message)
                if refused_because is not None:
                    accepted = replace(accepted, is_unwilling=True, error=ErrorMessage.of(refused_because))
                else:
                    self._open(message)
        await self._answer(received, ACCEPTED_FORM.encode(accepted))

    def _refusal(self, message: RequestMessage) -> LanguageModelError | None:
        """Why this worker does not take a request now. What is under way here goes on, whatever else holds."""
        named = message.hints if message.is_moved else self._named(message)
        if self.is_draining and not self._holds(named, only_busy=True):
            return LanguageModelError(
                "unavailable",
                f"The worker {self._lease.node} takes no new requests: it stops soon.",
                public="The machine for this model takes no new requests: it stops soon.",
            )
        if self._is_full_for(message.model) and not self._holds(named, only_busy=False):
            return LanguageModelError(
                "rate_limited",
                f"The worker {self._lease.node} is full.",
                retry_after=_RETRY_SECONDS,
                public="The machine for this model is busy.",
            )
        return None

    def _named(self, message: RequestMessage) -> Iterable[str]:
        """The conversations that a request names with ids of ours. Anybody can write others."""
        model = self._models.conversing(message.model) if message.model in self._offered else None
        return model.named(message.request) if model is not None else ()

    def _open(self, message: RequestMessage) -> None:
        stream = WorkerStream(message, self._sender.wake, self.calls.pending, self._lease.incarnation)
        self._streams[stream.id] = stream
        self.accepted += 1
        self._heard[stream.gateway] = self._clock()
        task = asyncio.create_task(self._serve(stream, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_stream(self, received: Received) -> None:
        match STREAM_FORM.decode(received.data):
            case Receipt() as receipt:
                self._note(receipt)
            case Resend(stream=id_, after=after):
                if (stream := self._streams.get(id_)) is not None:
                    await self._sender.resend(stream, after)
            case Cancel() as cancel:
                self._on_cancel(cancel)
            case DropOrphan() as drop:
                self._on_drop(drop)
            case HandOver() as message:
                self._on_hand_over(message)
            case ResumeStream() as resume:
                await self._on_resume(received, resume)
            case Delivered(model=model, conversation=conversation, whole=whole):
                if model in self._offered:
                    self._models.get(model).delivered(conversation, whole=whole)
            case Ping(gateway=gateway, receipts=receipts):
                await self._answer(received, PONG_FORM.encode(self._on_ping(gateway, receipts)))

    def _on_cancel(self, cancel: Cancel) -> None:
        stream = self._streams.get(cancel.stream)
        if stream is None:
            # It may have overtaken its request, which is larger and comes to another subject.
            self._cancelled.append(cancel.stream)
        elif cancel.gateway != stream.gateway:
            _log.info("%s cancels a stream that %s has by now", cancel.gateway, stream.gateway)
        else:
            stream.give_up()

    def _on_drop(self, message: DropOrphan) -> None:
        stream = self._streams.get(message.stream)
        is_orphan = stream is not None and stream.orphaned_at is not None
        if stream is not None and is_orphan and stream.background_id == message.background_id:
            stream.give_up()

    def _on_hand_over(self, message: HandOver) -> None:
        stream = self._streams.get(message.stream)
        if stream is None or stream.gateway != message.gateway:
            return
        _log.info("%s hands over stream %s of %s", stream.gateway, stream.id, stream.background_id)
        self._give_up_or_keep(stream)

    async def _on_resume(self, received: Received, resume: ResumeStream) -> None:
        """A gateway takes a stream whose gateway is gone. One that lives loses no stream, whatever a late message says."""
        accepted = Accepted(self._lease.incarnation, self._lease.seconds_left())
        stream = self._streams.get(resume.stream)
        is_ours = stream is not None and stream.background_id == resume.background_id
        is_free = stream is not None and (stream.orphaned_at is not None or stream.gateway == resume.gateway)
        if stream is None or not (is_ours and is_free and stream.window.has_all_after(resume.after)):
            is_taken = is_ours and not is_free
            why = "still has a gateway" if is_taken else "is not here"
            _log.info("stream %s is not given to %s: it %s", resume.stream, resume.gateway, why)
            refused = ErrorMessage("unavailable", f"The stream {why}.")
            accepted = replace(accepted, error=refused, is_unwilling=is_taken)
            await self._answer(received, ACCEPTED_FORM.encode(accepted))
            return
        _log.warning(
            "%s: stream %s goes from gateway %s to %s, after batch %d",
            stream.background_id,
            stream.id,
            stream.gateway,
            resume.gateway,
            resume.after,
        )
        stream.give_to(resume.gateway, self._clock())
        self._heard[resume.gateway] = self._clock()
        await self._answer(received, ACCEPTED_FORM.encode(replace(accepted, sent=stream.window.number)))
        await self._sender.resend(stream, resume.after)

    def _on_ping(self, gateway: str, receipts: Sequence[Receipt]) -> Pong:
        self._heard[gateway] = self._clock()
        for receipt in receipts:
            self._note(receipt)
        listed = {receipt.stream for receipt in receipts}
        sent: dict[str, int] = {}
        for stream in [each for each in self._streams.values() if each.gateway == gateway]:
            if stream.id in listed:
                stream.orphaned_at = None
                sent[stream.id] = stream.window.number
            elif stream.is_known or self._clock() - stream.given_at >= _CONFIRM_SECONDS:
                # Its confirmation came the same way as this ping, so the gateway knew it: it has given it up since.
                self._give_up_or_keep(stream)
        return Pong(self._lease.incarnation, self._lease.seconds_left(), sent)

    def _note(self, receipt: Receipt) -> None:
        stream = self._streams.get(receipt.stream)
        if stream is not None and receipt.gateway in ("", stream.gateway):
            stream.background_id = stream.background_id or receipt.background_id
            stream.note_receipt(receipt.number, receipt.consumed)

    async def _on_status(self, received: Received) -> None:
        await self._answer(received, STATUS_FORM.encode(self.status()))

    # What goes.

    async def _publish(self, subject: str, data: bytes) -> None:
        if self._lease.seconds_left() <= 0:
            return
        try:
            await self._connection.publish(subject, data)
        except FleetUnavailable as error:
            # As if it were lost: it is sent again when the gateway asks for it.
            _log.debug("a message was not sent: %s", error)

    async def _answer(self, received: Received, data: bytes) -> None:
        if received.reply:
            await self._publish(received.reply, data)

    # Streams.

    async def _serve(self, stream: WorkerStream, message: RequestMessage) -> None:
        try:
            async with asyncio.timeout(_CONFIRM_SECONDS):
                await stream.confirmed.wait()
            if not stream.is_dropped:
                end = await self._respond(stream, message)
                stream.is_under_way = False
                await stream.finish(end)
        except TimeoutError:
            _log.info("a request of %s was not confirmed", stream.gateway)
        finally:
            stream.drop()
            self._streams.pop(stream.id, None)
            self._stream_ended.set()

    async def _respond(self, stream: WorkerStream, message: RequestMessage) -> StreamEnd:
        try:
            if self._store is not None:
                await self._store.consider(message.hints)
            request = self.calls.proved(message.request, message.approved)
            model = self._model(message.model)
            request = with_chosen_folder(request, self._models.folder(message.model))
            await model.respond(request, stream, stream.source.token)
        except LanguageModelError as error:
            held = error.__cause__
            if isinstance(held, HeldElsewhere) and is_node_name(held.owner):
                return StreamEnd(moved_to=held.owner)
            return StreamEnd(ErrorMessage.of(error))
        except Exception as error:
            _log.exception("a request of %s failed", stream.gateway)
            failed = LanguageModelError(
                "unavailable",
                f"The worker {self._lease.node} could not take the request: {type(error).__name__}: {error}.",
                hint="Try again.",
                public="The request could not be taken. Try again.",
            )
            return StreamEnd(ErrorMessage.of(failed))
        return StreamEnd()

    def _model(self, model_id: str) -> GuardedModel:
        if model_id not in self._offered:
            raise LanguageModelError(
                "not_found",
                f"The worker {self._lease.node} has no model {model_id!r}.",
                public=f"There is no model {model_id!r} any more.",
            )
        return self._models.get(model_id)

    async def _tick(self) -> None:
        """Expire gateways that are gone, and follow the lease."""
        while True:
            left = self._lease.seconds_left()
            if left > 0:
                # Agents end at the fence even if this process is suspended by then.
                set_deadline(self._clock() + left)
            now = self._clock()
            for gateway, heard in tuple(self._heard.items()):
                if now - heard >= GATEWAY_SILENCE_SECONDS:
                    self._expire(gateway)
            for stream in self._orphans:
                if stream.orphaned_at is not None and now - stream.orphaned_at >= ORPHAN_SECONDS:
                    _log.warning("no gateway has taken %s; its request is cancelled", stream.background_id)
                    stream.give_up()
            await asyncio.sleep(_TICK_SECONDS)

    def _expire(self, gateway: str) -> None:
        del self._heard[gateway]
        streams = [each for each in self._streams.values() if each.gateway == gateway]
        for stream in streams:
            self._give_up_or_keep(stream)
        if streams:
            kept = [each.background_id for each in streams if each.background_id]
            _log.warning(
                "gateway %s is gone: %d of its requests are cancelled; these wait for another gateway: %s",
                gateway,
                len(streams) - len(kept),
                ", ".join(kept) or "none",
            )

    def _give_up_or_keep(self, stream: WorkerStream) -> None:
        """Its gateway has it no longer. That of a background response waits: only its journal says whether it has ended."""
        if not stream.background_id:
            stream.give_up()
        elif stream.orphaned_at is None:
            stream.orphaned_at = self._clock()

    @property
    def _orphans(self) -> list[WorkerStream]:
        return [each for each in self._streams.values() if each.orphaned_at is not None]

    # What it says of itself.

    @property
    def _turns(self) -> int:
        busy = sum(each.is_busy for each in self._models.conversations())
        return max(busy, sum(each.is_under_way for each in self._streams.values()))

    @property
    def _agents(self) -> int:
        return sum(each.stage != "stored" for each in self._models.conversations())

    def _is_full_for(self, model: str) -> bool:
        """Whether it has no room for another conversation with this model. Models that are no agents take none."""
        if model not in self._offered or self._models.conversing(model) is None:
            return False
        busy = sum(each.is_busy for each in self._models.conversations())
        # One that has just been accepted has no conversation yet.
        with_agents = sum(
            each.is_under_way and self._models.conversing(each.model) is not None
            for each in self._streams.values()
            if each.model in self._offered
        )
        most = self._limits.max_memory
        is_out_of_memory = most is not None and self._memory_now() >= most
        return max(busy, with_agents) >= self._limits.max_agents or is_out_of_memory

    def _memory_now(self) -> int:
        at, memory = self._memory
        if self._clock() - at >= _MEMORY_SECONDS:
            usage = measure_below(())
            memory = usage.total if usage is not None else 0
            self._memory = self._clock(), memory
        return memory

    def _holds(self, hints: Iterable[str], *, only_busy: bool) -> bool:
        hinted = set(hints)
        return any(
            each.id in hinted and (each.is_busy or not only_busy) for each in self._models.conversations()
        )

    def status(self) -> NodeStatus:
        models, orphans = self._models, self._orphans
        described = []
        for id_ in self._offered:
            offering, folder = models.offering(id_), models.folder(id_)
            described.append(
                OfferedModel(
                    with_capability_tags(models.get(id_).info),
                    offering.offer if offering is not None else None,
                    models.conversing(id_) is not None,
                    str(folder) if folder is not None else None,
                )
            )
        return NodeStatus(
            self._lease.node,
            self._lease.incarnation,
            "worker",
            __version__,
            tuple(described),
            self._limits.labels,
            self.is_draining,
            self._turns,
            self._agents,
            self._limits.max_agents,
            self._memory_now(),
            self._limits.max_memory,
            len(models.conversations()),
            len(self._streams),
            self._lease.seconds_left(),
            self._lease.renewal_seconds,
            socket.gethostname(),
            os.getpid(),
            # Others than last time: some may never be taken.
            {each.background_id: each.id for each in random.sample(orphans, min(len(orphans), MOST_ORPHANS))},
            len(orphans),
        )
