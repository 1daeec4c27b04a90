"""Two nodes and one history: whatever they do, in whatever order, each journal is one list of events."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.streams import make_streams
from dragoman.journal.agent_events import SessionChanged
from dragoman.journal.events import AnyEvent
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.journal.store import HeldElsewhere, JournalConflict
from journal.store_kits import node
from journal.store_samples import stamped, started
from nats_servers import nats_server

_T = TypeVar("_T")
_NODES = st.sampled_from(["w1", "w2"])
_JOURNALS = st.sampled_from(["one", "two"])


class _Histories(RuleBasedStateMachine):
    """The model: of each journal its events and its owner. A node that is replaced gives its journals up."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._nodes: dict[str, tuple[JetStreamJournals, AsyncExitStack]] = {}
        self._events: dict[str, list[AnyEvent]] = {}
        self._owner: dict[str, str] = {}
        self._count = 0
        self._url = ""

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        async def begun() -> None:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            self._url = await self._stack.enter_async_context(nats_server(folder))
            async with FleetConnection.open((self._url,), "operator") as operator:
                await make_streams(operator, 1, None)
            for name in ("w1", "w2"):
                await self._start(name)

        self._do(begun())

    async def _start(self, name: str) -> None:
        stack = AsyncExitStack()
        self._nodes[name] = (await stack.enter_async_context(node(self._url, name)), stack)

    @rule(name=_NODES)
    def restart(self, name: str) -> None:
        async def restarted() -> None:
            await self._nodes[name][1].aclose()
            await self._start(name)

        self._do(restarted())
        self._owner = {id_: owner for id_, owner in self._owner.items() if owner != name}

    @rule(name=_NODES, id_=_JOURNALS, behind=st.integers(0, 1), size=st.integers(0, 3), holds=st.booleans())
    def append(self, name: str, id_: str, behind: int, size: int, holds: bool) -> None:  # noqa: FBT001 - Hypothesis gives it
        known = self._events.get(id_, [])
        expected = max(len(known) - behind, 0)
        new: list[AnyEvent] = [started()] if expected == 0 else []
        for _ in range(size):
            self._count += 1
            new.append(SessionChanged(f"{self._count}"))
        may = expected == len(known) and self._owner.get(id_, name) == name
        try:
            last = self._do(self._nodes[name][0].append(id_, expected, stamped(*new), holds=holds))
        except JournalConflict:
            assert not may
            return
        assert may
        assert last == expected + len(new)
        self._events[id_] = [*known, *new]
        self._note(id_, name if holds else None)

    @rule(name=_NODES, id_=_JOURNALS, behind=st.integers(0, 1))
    def claim(self, name: str, id_: str, behind: int) -> None:
        known = self._events.get(id_)
        expected = len(known or ()) - behind
        owner = self._owner.get(id_, name)
        if owner != name:
            with pytest.raises(HeldElsewhere, match=owner):
                self._do(self._nodes[name][0].claim(id_, expected))
            return
        claim = self._do(self._nodes[name][0].claim(id_, expected))
        assert claim == ("gone" if known is None else "changed" if behind else "ours")
        if claim == "ours":
            self._note(id_, name)

    @rule(name=_NODES, id_=_JOURNALS)
    def release(self, name: str, id_: str) -> None:
        self._do(self._nodes[name][0].release(id_))
        if self._owner.get(id_) == name:
            self._note(id_, None)

    def _note(self, id_: str, owner: str | None) -> None:
        if owner is None:
            self._owner.pop(id_, None)
        else:
            self._owner[id_] = owner

    @invariant()
    def both_read_the_same(self) -> None:
        for id_, events in self._events.items():
            for store, _ in self._nodes.values():
                entries = self._do(store.read(id_))
                assert [entry.event for entry in entries] == events
                assert [entry.sequence for entry in entries] == list(range(1, len(events) + 1))
                found = self._do(store.state(id_))
                assert found is not None
                assert found[1] == len(events)

    @invariant()
    def each_owner_knows_what_it_owns(self) -> None:
        for name, (store, _) in self._nodes.items():
            owned = {id_ for id_, owner in self._owner.items() if owner == name}
            assert self._do(store.renew()) == owned

    def teardown(self) -> None:
        async def ended() -> None:
            for _, stack in self._nodes.values():
                await stack.aclose()
            await self._stack.aclose()

        self._do(ended())
        self._loop.close()


def test_n2_two_nodes_make_one_history() -> None:
    run_state_machine_as_test(
        _Histories, settings=settings(max_examples=8, stateful_step_count=25, deadline=None)
    )
