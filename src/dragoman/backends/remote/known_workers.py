"""The workers that a gateway knows: what they offer, what they bid for a request, and the responses that wait there."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack

from dragoman.backends.remote.link import FleetLink, read_message
from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.messages import (
    BID_FORM,
    BID_REQUEST_FORM,
    MOST_ORPHANS,
    STATUS_FORM,
    Bid,
    BidRequest,
    DropOrphan,
    NodeStatus,
    OfferedModel,
)
from dragoman.fleet.stored import ELECTION_SECONDS
from dragoman.fleet.subjects import STATUS, bids_subject

__all__ = ["KnownWorkers"]

_log = logging.getLogger(__name__)

# This long, bids of workers that are known are waited for.
_BID_SECONDS = 0.5
_STATUS_SECONDS = 0.5
_REFRESH_SECONDS = 5.0
# A worker that has said nothing for this long, and has no lease, is not there.
_FORGET_SECONDS = 16.0


class KnownWorkers:
    """What the workers say of themselves, by their statuses and bids."""

    def __init__(self, link: FleetLink) -> None:
        self._link = link
        link.on_connected.append(self._begin)
        self._nodes: dict[str, tuple[float, NodeStatus]] = {}
        # Those that did not answer when they were last asked for a bid.
        self._late_bidders: set[str] = set()
        # Called when the models that workers offer have changed.
        self.on_change: list[Callable[[], None]] = []
        # Called with the id of a background response whose gateway is gone, as often as its worker says so. It continues the
        # response if that is possible here, and returns whether the response has ended already.
        self.on_orphan: Callable[[str], Awaitable[bool]] | None = None
        self._orphans: dict[str, asyncio.Task[None]] = {}

    async def _begin(self, _connection: FleetConnection, stack: AsyncExitStack) -> None:
        stack.callback(asyncio.create_task(self._keep_fresh()).cancel)

    def close(self) -> None:
        for task in self._orphans.values():
            task.cancel()

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
        connection = await self._link.connected()
        if not connection.is_connected:
            # Nobody can be heard. The models are not gone for that.
            return
        before = self.offered
        answers = await connection.collect(STATUS, b"", _STATUS_SECONDS)
        now = self._link.clock()
        for answer in answers:
            status = read_message(STATUS_FORM, answer, "a node's status")
            if status is not None and status.role == "worker":
                self._nodes[status.name] = now, status
                self._late_bidders.discard(status.name)
                for response, stream in itertools.islice(status.orphans.items(), MOST_ORPHANS):
                    self._look_after(status.name, response, stream)
        # One drops out when it has been silent for a while: answers may be lost.
        unheard = [name for name, (heard, _) in self._nodes.items() if now - heard >= _FORGET_SECONDS]
        leases = await asyncio.gather(*map(self._link.has_lease, unheard))
        for name, has_lease in zip(unheard, leases, strict=True):
            # Its silence may be that of a NATS server which is cut off from the others. And another refresh may have heard it
            # meanwhile, or dropped it.
            if has_lease is False and name in self._nodes and self._nodes[name][0] < now:
                del self._nodes[name]
                self._late_bidders.discard(name)
        if before != self.offered:
            for notify in self.on_change:
                notify()

    def _look_after(self, node: str, response: str, stream: str) -> None:
        async def looked_after() -> None:
            try:
                if self.on_orphan is not None and await self.on_orphan(response):
                    # Only the last receipt was lost.
                    await self._link.say(node, DropOrphan(stream, response))
            finally:
                del self._orphans[response]

        if response not in self._orphans:
            self._orphans[response] = asyncio.create_task(looked_after())

    async def _keep_fresh(self) -> None:
        while True:
            try:
                await self.refresh()
            except FleetUnavailable as error:
                _log.debug("workers cannot be asked what they offer: %s", error)
            await asyncio.sleep(_REFRESH_SECONDS)

    async def bids(
        self,
        model: str,
        hints: Iterable[str],
        first_seconds: float = ELECTION_SECONDS,
        labels: Iterable[str] = (),
    ) -> list[Bid]:
        """What workers with this model say to a request. Empty at once if the NATS server knows of none.

        `first_seconds`: so long it waits for the first bid. Workers that are known may be busy, or the server may hang.
        """
        connection = await self._link.connected()
        hinted, needed = tuple(hints), set(labels)
        known = {status.name for status in self.nodes_with(model)}

        # One that did not answer in time delays no other new conversation until it is heard again.
        awaited = known if hinted else known - self._late_bidders
        missing = set(awaited)
        bids: list[Bid] = []

        def takes(bid: Bid) -> bool:
            return needed <= set(bid.labels) and (bid.holds or not (bid.is_draining or bid.is_full))

        def is_last(answer: bytes) -> bool:
            bid = read_message(BID_FORM, answer, "a bid")
            if bid is not None:
                bids.append(bid)
                self._late_bidders.discard(bid.node)
                missing.discard(bid.node)
            # If all that are known decline, others may have just started.
            return bool(awaited) and not missing and any(map(takes, bids))

        asked = BID_REQUEST_FORM.encode(BidRequest(model, hinted))
        await connection.collect(
            bids_subject(model), asked, _BID_SECONDS, is_last, first_seconds if known else 0.0
        )
        self._late_bidders |= missing
        return bids
