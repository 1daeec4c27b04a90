"""The streams between a gateway and the workers: requests go out, and the batches of responses arrive.

It pings every worker with which it has streams, and counts until when that worker may be believed (`validity`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from dragoman.backends.remote.link import FleetLink, read_message
from dragoman.backends.remote.stream import SAME_VERSION, RemoteStream, machine_error
from dragoman.backends.remote.validity import Validity
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, NobodyThere, Received
from dragoman.fleet.messages import (
    ACCEPTED_FORM,
    BATCH_FORM,
    BATCH_START_FORM,
    BATCHES_FORM,
    PONG_FORM,
    REQUEST_FORM,
    STREAM_FORM,
    Cancel,
    Delivered,
    HandOver,
    Ping,
    RequestMessage,
    Resend,
    ResumeStream,
)
from dragoman.fleet.subjects import parts_subject, requests_subject, streams_subject
from dragoman.lm import LanguageModelError

__all__ = ["Unwilling", "WhyLost", "WorkerLost", "WorkerPeer", "WorkerStreams"]

_log = logging.getLogger(__name__)

PING_SECONDS = 2.0
# Pings in a row after which the same batch is asked for again. Many messages in a row are not lost by chance.
_MOST_RESENDS = 8
# Between two pings, if the first took long.
_SHORTEST_WAIT = 0.01
# For a look at a lease, after a ping without an answer.
_SHORT_SECONDS = 0.5
# A worker answers in milliseconds. Twice, because a message may be lost.
_ACCEPT_SECONDS = 1.5
# A large request is on its way for longer: pictures and files.
_BYTES_A_SECOND = 8 * 1024 * 1024
# NATS says at once that nobody listens at a worker's subject. A worker that connects to another server is back in two seconds.
_ABSENT_SECONDS = 5.0


class Unwilling(Exception):
    """A worker does not take a request now, because it drains or is full; or a stream still has another gateway."""

    def __init__(self, error: LanguageModelError) -> None:
        super().__init__(error.message)
        self.error = error


# silent: it does not answer. cut off: this gateway could not use NATS either, so the worker may be well. began again: it
# answers, and has ended what it did.
WhyLost: TypeAlias = Literal["silent", "cut off", "began again"]


class _Words(NamedTuple):
    """Why a worker is lost, in words: for clients, more of it for operators, and what to do."""

    public: str
    more: str
    hint: str


_ELSEWHERE = "Send the request again: the conversation continues on another machine."
_WORDS: dict[WhyLost, _Words] = {
    "silent": _Words("no longer answers", "", _ELSEWHERE),
    "cut off": _Words("cannot be reached", ": NATS is away", "Send the request again in a moment."),
    "began again": _Words("was restarted", ", or could not reach NATS in time", _ELSEWHERE),
}


class WorkerLost(LanguageModelError):
    """The worker of a response is gone, or this gateway cannot know whether it is."""

    def __init__(self, node: str, why: WhyLost = "silent") -> None:
        public, more, hint = _WORDS[why]
        lost = "What it did last may be lost."
        super().__init__(
            "unavailable",
            f"The machine {node}, on which this conversation runs, {public}{more}. {lost}",
            hint=hint,
            public=f"The machine on which this conversation runs {public}. {lost} {hint}",
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
        # Why it does not answer, if it does not.
        self.why: WhyLost = "silent"
        self.is_given_up = False

    def fail(self) -> None:
        """Nothing more of this incarnation is shown."""
        for stream in self.streams.values():
            stream.fail(WorkerLost(self.node, self.why))


class WorkerStreams:
    """The streams of all responses that come to this process, and pings to the workers that they come from."""

    def __init__(self, link: FleetLink) -> None:
        self._link = link
        link.on_connected.append(self._begin)
        self._streams: dict[str, RemoteStream] = {}
        self._peers: dict[tuple[str, str], WorkerPeer] = {}
        # Requests to each worker that it has not answered yet.
        self._opening: Counter[str] = Counter()
        # How often a worker with streams was given up.
        self.lost_workers = 0

    async def _begin(self, connection: FleetConnection, stack: AsyncExitStack) -> None:
        forget = await connection.subscribe(parts_subject(self._link.name), self._on_batches)
        stack.push_async_callback(forget)
        await connection.flush()
        connection.on_reconnect.append(self._ping_soon)
        stack.callback(connection.on_reconnect.remove, self._ping_soon)

    def close(self) -> None:
        for peer in self._peers.values():
            peer.fail()
            if peer.pinging is not None:
                peer.pinging.cancel()
        self._peers.clear()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many streams there are with each worker, and requests that it has not answered yet."""
        counts = Counter(self._opening)
        for peer in self._peers.values():
            counts[peer.node] += len(peer.streams)
        return counts

    async def open(
        self, node: str, message: RequestMessage, background_id: str = ""
    ) -> tuple[WorkerPeer, RemoteStream] | None:
        """Send a request to a worker. None: it has not got it, or does not answer. It does nothing before it is confirmed.

        `background_id`: the response that it is for, if the worker is to keep what is not stored.

        Raises `Unwilling`, or the `LanguageModelError` with which the worker refuses.
        """
        connection = await self._link.connected()
        data = REQUEST_FORM.encode(message)
        stream = RemoteStream(message.stream, node, self._link.gateway)
        sent_at = self._link.clock()
        self._opening[node] += 1
        try:
            answer = await _asked(connection, node, data)
        except asyncio.CancelledError:
            # The worker may have accepted it, and would keep a place for it until it is confirmed.
            await self._link.say(node, Cancel(stream.id, self._link.gateway))
            raise
        finally:
            self._opening[node] -= 1
        if answer is None:
            # It may get the request late, and would keep a place for it until it is confirmed.
            await self._link.say(node, Cancel(stream.id, self._link.gateway))
            return None
        stream.background_id = background_id
        return await self._begun(stream, sent_at, answer)

    async def resume(self, stream: RemoteStream, incarnation: str) -> tuple[WorkerPeer, RemoteStream] | None:
        """Take a stream whose gateway is gone, after the batches that it has. None: its worker does not answer.

        Raises `Unwilling` while the worker still counts on the other gateway, or the `LanguageModelError` of a stream that is
        not there any more.
        """
        connection = await self._link.connected()
        message = ResumeStream(stream.id, self._link.gateway, stream.background_id, stream.window.number)
        sent_at = self._link.clock()
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
            await self._link.say(stream.node, HandOver(stream.id, self._link.gateway))
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
        accepted = read_message(ACCEPTED_FORM, answer, f"the answer of {node} to a request")
        if accepted is None:
            return None
        if stream.incarnation not in ("", accepted.incarnation):
            raise WorkerLost(node, "began again")
        if accepted.error is not None:
            error = accepted.error.error()
            raise Unwilling(error) if accepted.is_unwilling else error
        key = node, accepted.incarnation
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = WorkerPeer(*key, Validity.heard(sent_at, accepted.seconds_left))
        peer.validity.extend(sent_at, accepted.seconds_left)
        if not self.is_believed(peer):
            return None
        stream.incarnation = accepted.incarnation
        stream.sent_before = accepted.sent
        self._streams[stream.id] = peer.streams[stream.id] = stream
        if peer.pinging is None or peer.pinging.done():
            peer.pinging = asyncio.create_task(self._ping(peer))
        try:
            # Now the worker begins.
            await self._link.say(node, stream.receipt)
        except asyncio.CancelledError:
            await self.leave(peer, stream, is_over=False, hands_over=bool(stream.background_id))
            raise
        return peer, stream

    def is_believed(self, peer: WorkerPeer) -> bool:
        """Whether what arrives from a worker may be shown."""
        return peer.validity.seconds_left(self._link.clock()) > 0

    async def receipt(self, stream: RemoteStream) -> None:
        await self._link.say(stream.node, stream.receipt)

    async def leave(
        self, peer: WorkerPeer, stream: RemoteStream, *, is_over: bool, hands_over: bool = False
    ) -> None:
        """Forget a stream. If it is not over, its worker cancels it, or keeps it for another gateway."""
        self._streams.pop(stream.id, None)
        peer.streams.pop(stream.id, None)
        if hands_over:
            await self._link.say(stream.node, HandOver(stream.id, self._link.gateway))
        elif not is_over:
            await self._link.say(stream.node, Cancel(stream.id, self._link.gateway))

    async def delivered(self, node: str, model: str, conversation: str, *, whole: bool) -> None:
        await self._link.say(node, Delivered(model, conversation, whole))

    async def _on_batches(self, received: Received) -> None:
        for data in read_message(BATCHES_FORM, received.data, "a message with parts of responses") or ():
            try:
                batch = BATCH_FORM.decode(data)
            except msgspec.MsgspecError as error:
                self._fail_unread(data, error)
                continue
            stream = self._streams.get(batch.stream)
            # Of a stream that is over, or of another process with this name.
            if stream is not None and stream.take(batch, len(data)):
                await self._link.say(stream.node, Resend(stream.id, stream.window.number))

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
            sent_at = self._link.clock()
            left = peer.validity.seconds_left(sent_at)
            if left <= 0:
                break
            try:
                await self._compare(peer, sent_at, min(PING_SECONDS, left))
            except NobodyThere:
                peer.why = "silent"
                if peer.absent_since is None:
                    peer.absent_since = sent_at
                is_late = sent_at - peer.absent_since >= _ABSENT_SECONDS
                # If leases cannot be read, this gateway's NATS server may be cut off from the others. One that led the leases
                # when it was cut off still reads them for some seconds.
                if is_late and await self._link.has_lease(peer.node) is not None:
                    # Its process has ended.
                    break
            except (NoAnswer, FleetUnavailable) as error:
                # It may be there, and hang; or NATS does: then leases cannot be read either.
                peer.absent_since = None
                is_cut_off = await self._link.has_lease(peer.node, _SHORT_SECONDS) is None
                peer.why = "cut off" if is_cut_off else "silent"
                _log.debug("%s has not answered a ping: %s", peer.node, error)
            except msgspec.MsgspecError:
                _log.exception("the answer of %s to a ping cannot be read", peer.node)
            is_over = was_empty and not peer.streams
            if not is_over:
                now = self._link.clock()
                wait = min(sent_at + PING_SECONDS - now, peer.validity.seconds_left(now))
                await asyncio.sleep(max(wait, _SHORTEST_WAIT))
        # Without a wait since the last look: nobody has opened a stream in between.
        self._give_up(peer)
        del self._peers[peer.node, peer.incarnation]

    def _give_up(self, peer: WorkerPeer) -> None:
        """Fail the streams with a worker. Slow consumers leave theirs later, and it is said once."""
        if peer.streams and not peer.is_given_up:
            peer.is_given_up = True
            self.lost_workers += peer.why != "cut off"
            kept = [each.background_id for each in peer.streams.values() if each.background_id]
            _log.warning(
                "the worker %s %s%s; answers that fail: %d; background responses that are tried again: %s",
                peer.node,
                *_WORDS[peer.why][:2],
                len(peer.streams) - len(kept),
                ", ".join(kept) or "none",
            )
        peer.fail()

    async def _compare(self, peer: WorkerPeer, sent_at: float, seconds: float) -> None:
        connection = await self._link.connected()
        streams = tuple(peer.streams.values())
        had = {stream.id: stream.window.number for stream in streams}
        # Those of all lives of this worker: it gives up what a ping does not name, and they take pings at one subject.
        lives = (each for each in self._peers.values() if each.node == peer.node)
        named = tuple(stream.receipt for each in lives for stream in each.streams.values())
        ping = Ping(self._link.gateway, named)
        answer = await connection.request(streams_subject(peer.node), STREAM_FORM.encode(ping), seconds)
        pong = PONG_FORM.decode(answer)
        if pong.incarnation != peer.incarnation:
            peer.why = "began again"
            self._give_up(peer)
            return
        peer.absent_since = None
        peer.why = "silent"
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
                await self._link.say(peer.node, Resend(stream.id, stream.window.number))


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


def _unread_error(node: str) -> LanguageModelError:
    return machine_error("internal", node, "has sent something that cannot be read here.", SAME_VERSION)
