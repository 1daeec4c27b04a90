"""A model on a worker of the fleet, as a language model.

A request goes to one worker. Which one is looked for until a worker has confirmed it; from then on it is never sent to
another one, because the agent may have acted. If that worker dies, the response fails, and the next request of the
conversation continues elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from dragoman.backends.remote.fleet import Fleet
from dragoman.backends.remote.kept_streams import KeptStreams
from dragoman.backends.remote.reading import StreamReader
from dragoman.backends.remote.stream import RemoteStream, StreamPosition, machine_error
from dragoman.backends.remote.worker_streams import Unwilling, WorkerLost, WorkerPeer
from dragoman.fleet.connection import FleetUnavailable
from dragoman.fleet.hints import hints_of
from dragoman.fleet.lease import NODE_LEASE_SECONDS
from dragoman.fleet.messages import ApprovedCall, Bid, OfferedModel, RequestMessage, StreamEnd
from dragoman.fleet.placement import Place, WorkerChoice, choose
from dragoman.fleet.stored import ELECTION_SECONDS
from dragoman.fleet.window import ReceivingWindow
from dragoman.lm import (
    CancellationError,
    CancellationSource,
    CancellationToken,
    Capabilities,
    LanguageModelError,
    Message,
    ModelInfo,
    Request,
    Sink,
    estimate_tokens,
    until_cancelled,
)
from dragoman.lm.model import ResponseTaken
from dragoman.lm.offering import ModelOffer
from dragoman.permissions.pipeline import PermissionServices
from dragoman.store.errors import JournalStoreError

__all__ = ["RemoteModel"]

_log = logging.getLogger(__name__)

# A conversation moves when its owner ends. More than some moves in one request are a fault.
_MOST_MOVES = 5
# A dead owner's lease ends by then.
_LEASE_WAIT_SECONDS = NODE_LEASE_SECONDS + 5.0
_LOOK_SECONDS = 0.5
# For the batches that another gateway may have shown. A worker sends them at once.
_CATCH_UP_SECONDS = 5.0
# Hinted conversations that are looked up: the best evidence comes first.
_MOST_HINTS = 8
# Conversations whose worker is remembered, for what front ends say about their delivery.
_MOST_REMEMBERED = 1_024

# Why a worker does not have the stream of a background response.
_DROPPED = "has this response no longer: no gateway took it within two minutes."

# Until a worker has described the model.
_UNKNOWN_TOKENS = 200_000


class RemoteModel:
    # The worker presents its replies.
    presents = True

    def __init__(
        self,
        fleet: Fleet,
        model_id: str,
        remote_id: str | None = None,
        labels: tuple[str, ...] = (),
        *,
        name: str | None = None,
        permissions: PermissionServices | None = None,
    ) -> None:
        """`remote_id` is the model's id at the workers, if it is another one there."""
        self._fleet = fleet
        self._id = model_id
        self._remote_id = remote_id or model_id
        self._labels = labels
        self._name = name
        # The permission requests that a person can be asked about here.
        self._mirror = None if permissions is None else fleet.permission_mirror(permissions.grants)
        # Which worker gave the last reply of each conversation.
        self._nodes: dict[str, str] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._kept = KeptStreams(fleet.streams, self._tell)
        self._last_described: OfferedModel | None = None
        # What front ends were last told of.
        self._announced: OfferedModel | None = None
        self._on_offer: Callable[[], None] | None = None
        fleet.workers.on_change.append(self._changed)

    # What it is.

    @property
    def _described(self) -> OfferedModel | None:
        """What the workers say of it. If none is there, what they said last."""
        nodes = self._fleet.workers.nodes_with(self._remote_id, self._labels)
        described = (each for node in nodes for each in node.models if each.info.id == self._remote_id)
        self._last_described = next(described, self._last_described)
        return self._last_described

    @property
    def info(self) -> ModelInfo:
        status = self._described
        if status is not None:
            return replace(status.info, id=self._id, name=self._name or status.info.name)
        return ModelInfo(
            id=self._id,
            name=self._name or self._id,
            family=self._remote_id,
            version="1",
            max_input_tokens=_UNKNOWN_TOKENS,
            max_output_tokens=_UNKNOWN_TOKENS,
            capabilities=Capabilities(tool_calling=True, image_input=True),
            required_calls=True,
            takes_forms=True,
            detail="A model of the fleet.",
            is_byok=True,
            is_user_selectable=True,
        )

    @property
    def folder(self) -> Path | None:
        """The folder in which its agents work on the workers, unless a consumer has its own. None: it is no agent."""
        status = self._described
        return Path(status.folder) if status is not None and status.folder is not None else None

    def count_tokens(self, text: str | Message) -> int:
        return estimate_tokens(text)

    async def learn(self) -> None:
        """Ask the workers what they offer."""
        try:
            await self._fleet.workers.refresh()
        except FleetUnavailable as error:
            _log.warning("%s: %s", self._id, error)

    @property
    def offer(self) -> ModelOffer:
        status = self._described
        return (status.offer if status is not None else None) or ModelOffer()

    def watch_offer(self, on_change: Callable[[], None]) -> None:
        self._on_offer = on_change
        self._announced = self._described

    def _changed(self) -> None:
        before, self._announced = self._announced, self._described
        if self._announced != before and self._on_offer is not None:
            self._on_offer()

    async def look(self, folder: str | None = None) -> ModelOffer:  # noqa: ARG002 - the folder is one of this machine
        """What the workers know of it: they have asked their agents."""
        await self.learn()
        return self.offer

    async def log_in(self, method: str) -> None:
        raise LanguageModelError(
            "bad_request",
            f"{self.info.name} runs on another machine, where the login {method!r} must be done.",
            hint="Log in there, as the user of the worker: `dragoman doctor` on that machine says how.",
        )

    def delivered(self, conversation: str, *, whole: bool) -> None:
        node = self._nodes.get(conversation)
        if node is not None:
            self._tell(self._fleet.streams.delivered(node, self._remote_id, conversation, whole=whole))

    def _tell(self, saying: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(saying)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def keep(self, response_id: str) -> None:
        self._kept.keep(response_id)

    def stored(self, response_id: str, position: str) -> None:
        self._kept.stored(response_id, msgspec.json.decode(position, type=StreamPosition))

    def release(self, response_id: str) -> None:
        self._kept.release(response_id)

    def hand_over(self, response_id: str) -> None:
        self._kept.hand_over(response_id)

    async def close(self) -> None:
        self._fleet.workers.on_change.remove(self._changed)
        if self._telling:
            await asyncio.wait(self._telling)

    # Requests.

    async def recall(self, call_ids: Iterable[str]) -> None:
        """Make those of these permission calls known that wait at a worker. Raises `LanguageModelError`."""
        if self._mirror is not None:
            await self._mirror.recall(call_ids)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        await self._until_cancelled(self._respond(request, sink), token)

    async def resume(self, response_id: str, position: str, sink: Sink, token: CancellationToken) -> None:
        """Report the rest of a response. If it is cancelled, what another gateway may have shown of it is reported first."""
        at = msgspec.json.decode(position, type=StreamPosition)
        self._kept.keep(response_id)
        reader = StreamReader(self._fleet.streams, sink, response_id, self._mirror, None)
        source = CancellationSource()

        async def cancel() -> None:
            await token.wait()
            if not self._kept.is_handed_over(response_id):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CATCH_UP_SECONDS):
                        await reader.has_caught_up.wait()
            source.cancel()

        cancelling = asyncio.create_task(cancel())
        try:
            await self._until_cancelled(self._resume(reader, at), source.token)
        finally:
            cancelling.cancel()

    async def _until_cancelled(self, work: Awaitable[None], token: CancellationToken) -> None:
        try:
            await until_cancelled(work, token)
        except CancellationError:
            # What was sent stays; the worker was told.
            return
        except FleetUnavailable as error:
            raise _unreachable(str(error)) from error

    async def _respond(self, request: Request, sink: Sink) -> None:
        hints = await self._hints(request)
        approved: tuple[ApprovedCall, ...] = ()
        if self._mirror is not None:
            request, approved = self._mirror.outgoing(request)
        message = RequestMessage("", self._fleet.link.gateway, self._remote_id, request, hints, approved)
        reader = StreamReader(
            self._fleet.streams, sink, request.consumer.response_id or "", self._mirror, request
        )
        owner = ""
        for _ in range(_MOST_MOVES):
            peer, stream = await self._opened(message, owner)
            reader.begin(StreamPosition(stream.node, stream.incarnation, stream.id))
            end = await self._read(peer, stream, reader)
            if end.moved_to is None:
                if end.error is not None:
                    raise end.error.error()
                return
            owner = end.moved_to
            _log.info("a request of %s goes to %s, which owns its conversation", self._id, owner)
        raise _unreachable("The conversation moves from machine to machine.")

    async def _resume(self, reader: StreamReader, position: StreamPosition) -> None:
        reader.begin(position)
        end = await self._read(*await self._resumed(reader, position), reader)
        if end.error is not None:
            raise end.error.error()
        if end.moved_to is not None:
            # Only the gateway that is gone had the request.
            raise _not_begun()

    async def _read(self, peer: WorkerPeer, stream: RemoteStream, reader: StreamReader) -> StreamEnd:
        """Read a response to its end. The stream of a background response is resumed if its worker is there after all."""
        while True:
            end: StreamEnd | None = None
            is_resumed = False
            self._kept.begin(reader.response, peer, stream)
            try:
                end = await reader.read(peer, stream)
            except WorkerLost:
                if not stream.background_id:
                    raise
                is_resumed = True
            finally:
                self._note(reader.conversation, peer.node)
                # If the response was cancelled, the worker learns it now.
                await self._kept.end(
                    reader.response, peer, stream, is_over=end is not None, is_resumed=is_resumed
                )
            if end is not None:
                return end
            peer, stream = await self._resumed(reader, stream.stored)

    async def _resumed(self, reader: StreamReader, stored: StreamPosition) -> tuple[WorkerPeer, RemoteStream]:
        """The stream of a background response, after what was reported of it. Raises `WorkerLost`."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + _LEASE_WAIT_SECONDS
        at = reader.position
        is_taken = False
        while loop.time() < limit:
            stream = RemoteStream(
                at.stream,
                at.node,
                self._fleet.link.gateway,
                ReceivingWindow(number=at.number, consumed=at.consumed),
            )
            stream.background_id, stream.stored = reader.response, stored
            try:
                resumed = await self._fleet.streams.resume(stream, at.incarnation)
            except (Unwilling, FleetUnavailable) as error:
                # The worker still counts on the other gateway, or NATS is away.
                is_taken = isinstance(error, Unwilling)
                _log.debug("%s is not resumed yet: %s", reader.response, error)
                resumed = None
            except WorkerLost:
                raise
            except LanguageModelError as error:
                raise machine_error("unavailable", at.node, _DROPPED, "Send the request again.") from error
            if resumed is not None:
                _log.warning("%s goes on here, with stream %s of %s", reader.response, at.stream, at.node)
                return resumed
            await asyncio.sleep(_LOOK_SECONDS)
            if await self._fleet.link.has_lease(at.node) is False:
                break
        if is_taken:
            raise ResponseTaken(at.node)
        is_cut_off = await self._fleet.link.has_lease(at.node, _LOOK_SECONDS) is None
        raise WorkerLost(at.node, "cut off" if is_cut_off else "silent")

    def _note(self, conversation: str | None, node: str) -> None:
        """Remember the worker of a conversation."""
        if conversation is not None:
            self._nodes.pop(conversation, None)
            self._nodes[conversation] = node
            while len(self._nodes) > _MOST_REMEMBERED:
                del self._nodes[next(iter(self._nodes))]

    async def _hints(self, request: Request) -> tuple[str, ...]:
        """The conversations that a request may belong to, the best evidence first."""
        hints = hints_of(request, self._remote_id)
        indexed: Iterable[str] = ()
        # An id in the request says more than the index does.
        if self._fleet.store is not None and hints.keys and not hints.named:
            try:
                indexed = await self._fleet.store.hinted(hints.keys)
            except JournalStoreError as error:
                # Losing the index costs recognition by history, nothing else.
                _log.warning("the index of conversations cannot be read: %s", error)
        return tuple(dict.fromkeys((*hints.named, *indexed)))[:_MOST_HINTS]

    async def _opened(self, message: RequestMessage, owner: str) -> tuple[WorkerPeer, RemoteStream]:
        """A stream with a worker that takes a request: with `owner`, if a worker has found that it owns the conversation."""
        if owner and (opened := await self._opened_by_owner(message, owner)) is not None:
            return opened
        unwilling: dict[str, LanguageModelError] = {}
        places = await self._places(message.hints)
        # An owner needs no bids.
        opened = await self._first(message, choose(places, ()), unwilling)
        return opened or await self._opened_by_bids(message, places, unwilling)

    async def _opened_by_bids(
        self, message: RequestMessage, places: list[Place], unwilling: dict[str, LanguageModelError]
    ) -> tuple[WorkerPeer, RemoteStream]:
        """A stream with the best worker that takes a request.

        A NATS server says that nobody listens by what it knows itself. One that has just started, or is cut off from the
        others, knows no worker of theirs. So workers that live are asked again, for as long as an election takes.
        """
        loop = asyncio.get_running_loop()
        limit = loop.time() + ELECTION_SECONDS
        while True:
            bids = await self._fleet.workers.bids(
                self._remote_id, message.hints, limit - loop.time(), self._labels
            )
            choice = choose(places, bids, self._labels, self._fleet.streams.counts)
            opened = await self._first(message, choice, unwilling)
            if opened is not None:
                return opened
            silent = await self._without_answer(bids, choice, unwilling)
            error = self._nobody(choice, unwilling, silent)
            if not silent or error.retry_after is not None or loop.time() >= limit:
                if not self._fleet.link.is_connected:
                    raise _unreachable("There is no connection to NATS.")
                raise error
            await asyncio.sleep(_LOOK_SECONDS)

    async def _without_answer(
        self, bids: list[Bid], choice: WorkerChoice, unwilling: dict[str, LanguageModelError]
    ) -> list[str]:
        """The workers for this model that have leases, and have neither taken nor refused a request."""
        known = {node.name for node in self._fleet.workers.nodes_with(self._remote_id, self._labels)}
        asked = known - {bid.node for bid in bids} | set(choice.nodes)
        names = sorted(asked - unwilling.keys())
        leases = await asyncio.gather(*(self._fleet.link.has_lease(name, _LOOK_SECONDS) for name in names))
        return [name for name, has_lease in zip(names, leases, strict=True) if has_lease is not False]

    async def _opened_by_owner(
        self, message: RequestMessage, owner: str
    ) -> tuple[WorkerPeer, RemoteStream] | None:
        """A stream with the owner. None: its lease has ended, and others may have the conversation."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + _LEASE_WAIT_SECONDS
        choice = WorkerChoice((owner,))
        while loop.time() < limit:
            opened = await self._first(replace(message, is_moved=True), choice, {})
            if opened is not None:
                return opened
            # It may be back in a moment.
            await asyncio.sleep(_LOOK_SECONDS)
            if await self._fleet.link.has_lease(owner) is False:
                return None
        raise WorkerLost(owner)

    async def _first(
        self, message: RequestMessage, choice: WorkerChoice, unwilling: dict[str, LanguageModelError]
    ) -> tuple[WorkerPeer, RemoteStream] | None:
        """A stream with the first of these workers that takes the request."""
        for node in choice.nodes:
            if node not in unwilling:
                response = message.request.consumer.response_id or ""
                try:
                    opened = await self._fleet.streams.open(
                        node,
                        replace(message, stream=secrets.token_hex(8)),
                        response if self._kept.is_kept(response) else "",
                    )
                except Unwilling as refused:
                    unwilling[node] = refused.error
                    continue
                if opened is not None:
                    return opened
        return None

    async def _places(self, hints: Iterable[str]) -> list[Place]:
        store = self._fleet.store
        if store is None:
            return []
        try:
            found = await asyncio.gather(*map(store.place_of, hints))
        except JournalStoreError as error:
            raise _unreachable(str(error)) from error
        return [each for each in found if each is not None]

    def _nobody(
        self, choice: WorkerChoice, unwilling: dict[str, LanguageModelError], silent: list[str]
    ) -> LanguageModelError:
        waits = [error.retry_after for error in unwilling.values() if error.retry_after is not None]
        retry_after = choice.retry_after or min(waits, default=None)
        if retry_after is not None:
            return LanguageModelError(
                "rate_limited",
                f"All workers with the model {self._remote_id!r} are full.",
                hint=f"Try again in {retry_after:g} seconds, or start another worker.",
                retry_after=retry_after,
                public=f"All machines are busy. Try again in {retry_after:g} seconds.",
            )
        with_labels = f" and the labels {', '.join(self._labels)}" if self._labels else ""
        if silent:
            return LanguageModelError(
                "unavailable",
                f"These workers have the model {self._remote_id!r}{with_labels}, and do not answer now: "
                f"{', '.join(silent)}. NATS or these machines may be down or hang.",
                hint="Try again in a moment. `dragoman fleet status` shows the workers.",
                public="The machines for this model do not answer now. Try again in a moment.",
            )
        return LanguageModelError(
            "unavailable",
            f"No worker with the model {self._remote_id!r}{with_labels} takes requests now.",
            hint="`dragoman fleet status` shows the workers; `dragoman worker` starts one.",
            public="No machine for this model is there now. Try again later.",
        )


def _not_begun() -> LanguageModelError:
    text = "The conversation of this response runs on another machine, and its gateway ended before it was sent there."
    return LanguageModelError("unavailable", text, hint="Send the request again.", public=text)


def _unreachable(why: str) -> LanguageModelError:
    return LanguageModelError(
        "unavailable",
        f"The fleet cannot be used now. {why}",
        hint="Try again in a moment.",
        public="The machines for this model cannot be reached now. Try again in a moment.",
    )
