"""The suite of faults itself: its plans cover everything, its proxies cut, and its invariants can fail."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import cast

from dragoman.fleet.lease import LeaseRecord
from dragoman.journal.jetstream.head import JournalHead, ListedInfo
from faults.chat import Chat
from fleet_faults.journals import (
    JournalWrite,
    fenced_agents,
    former_agents_at_work,
    former_owners_shown,
    lives_of,
    one_history,
    takeovers_of,
    unanswered,
)
from fleet_faults.plan import CELLS, GATEWAY_GONE, SHORT_SEEDS, plan_of
from fleet_faults.proxy import Proxy
from fleet_faults.talk import Talk
from fleet_faults.world import FleetWorld

_INFO = ListedInfo("j", "agent")


def test_the_short_form_has_every_kind_of_fault_for_every_role() -> None:
    plans = [plan_of(seed) for seed in SHORT_SEEDS]
    assert {(fault.role, fault.kind) for plan in plans for fault in plan.faults} == set(CELLS)
    assert plans == [plan_of(seed) for seed in SHORT_SEEDS]
    assert {plan.lease_seconds for plan in plans} == {10, 20}


def test_a_long_fault_is_longer_than_a_lease_and_a_short_one_shorter_than_a_fence() -> None:
    for seed in range(60):
        plan = plan_of(seed)
        for fault in plan.faults:
            seconds = fault.seconds(plan.lease_seconds)
            assert seconds > plan.lease_seconds if fault.is_long else seconds < plan.lease_seconds * 0.8


def test_a_plan_may_have_only_one_kind() -> None:
    [fault] = plan_of(3, ["gateway killed"]).faults
    assert str(fault) == "gateway killed"


async def test_a_proxy_that_is_cut_passes_nothing_and_then_everything() -> None:
    echoed: list[bytes] = []
    has_come = asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            echoed.append(data)
            if data == b"beside":
                has_come.set()
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = await Proxy(server.sockets[0].getsockname()[1]).open()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"one")
    assert await reader.readexactly(3) == b"one"
    proxy.cut()
    writer.write(b"two")
    _, late = await asyncio.open_connection("127.0.0.1", proxy.port)
    late.write(b"new")
    # A second way beside it shows that time has passed.
    _, beside = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
    beside.write(b"beside")
    await has_come.wait()
    assert b"two" not in echoed
    assert b"new" not in echoed
    proxy.heal()
    assert await reader.readexactly(3) == b"two"
    for each in (writer, late, beside):
        each.close()
    await proxy.close()
    server.close()


def _write(at: float, epoch: int, owner: str, first: int = 0, count: int = 0, last: int = 0) -> JournalWrite:
    node, _, incarnation = owner.partition(" ")
    return JournalWrite(at, JournalHead(_INFO, last, epoch, node, incarnation, first=first, count=count))


_LEASES = [
    (0.0, "w1", LeaseRecord("a")),
    (4.0, "w1", LeaseRecord("a", renewals=1)),
    (1.0, "w2", LeaseRecord("b")),
    (30.0, "w2", LeaseRecord("b", renewals=1)),
    (31.0, "w1", None),
]
_LIVES = {life.incarnation: life for life in lives_of(_LEASES, 20)}


def test_lives_end_with_their_leases() -> None:
    assert (_LIVES["a"].begin, _LIVES["a"].end) == (0.0, 24.0)
    assert _LIVES["b"].end == 50.0
    given_back = lives_of([(0.0, "w", LeaseRecord("a")), (5.0, "w", LeaseRecord(""))], 20)
    assert [life.end for life in given_back] == [5.0]


def test_one_history_is_in_order() -> None:
    good = [
        _write(1, 1, "w1 a", 1, 2, 2),
        _write(2, 1, "w1 a", 3, 1, 3),
        _write(26, 2, "w2 b", last=3),
        _write(27, 2, "w2 b", 4, 1, 4),
    ]
    assert one_history("j", good, _LIVES) == []
    former = [*good, _write(28, 1, "w1 a", 5, 1, 5)]
    assert "written by a former owner, w1" in one_history("j", former, _LIVES)[0]
    gap = [good[0], replace(good[1], head=good[3].head)]
    assert any("come after event 2" in line for line in one_history("j", gap, _LIVES))
    early = [good[0], good[1], replace(good[2], at=10.0)]
    assert "taken from w1" in one_history("j", early, _LIVES)[0]
    both = [good[0], _write(2, 1, "w2 b", 3, 1, 3)]
    assert "w2 wrote, and w1 owned it" in one_history("j", both, _LIVES)[0]
    without = [good[0], _write(26, 2, "w3 c", last=2)]
    assert "wrote without a lease" in one_history("j", without, _LIVES)[0]


_PLACES = {"«A0.0@7.1»": ("j", 1)}
_TAKEN = {"j": [_write(1, 1, "w1 a", 1, 1, 1), _write(26, 2, "w2 b", last=1)]}


def test_n2_words_of_a_former_owner_are_found() -> None:
    takeovers = takeovers_of(_TAKEN, _PLACES)
    talk = Talk(Chat("A"), cast("FleetWorld", None), Random(0))  # noqa: S311 - a test
    talk.heard_at = {"«A0.0@7.1»": 1.0, "«A1.0@7.2»": 20.0}
    assert former_owners_shown([talk], takeovers) == []
    talk.heard_at["«A1.0@7.3»"] = 27.0
    assert "«A1.0@7.3» came to chat A 1.00 s after w2 b" in former_owners_shown([talk], takeovers)[0]


def test_n3_work_of_a_former_owners_agent_is_found_though_nobody_heard_it() -> None:
    takeovers = takeovers_of(_TAKEN, _PLACES)
    notes = [
        {"method": "said", "params": "«A1.0@7.2»", "pid": 7, "at": 25.0},
        {"method": "said", "params": "«A1.0@8.1»", "pid": 8, "at": 30.0},
    ]
    assert former_agents_at_work(notes, takeovers) == []
    notes.append({"method": "said", "params": "«A1.0@7.3»", "pid": 7, "at": 27.0})
    assert "said «A1.0@7.3» 1.00 s after w2 b" in former_agents_at_work(notes, takeovers)[0]


def test_agents_of_a_fenced_life_began_before_the_fence() -> None:
    log = (
        "2026-11-18 11:47:48,514 WARNING dragoman.fleet.lease: the lease of w1 is not renewed yet\n"
        "2026-11-18 11:47:58,250 ERROR dragoman.fleet.lease: the lease of w1 has ended: others may act in its place\n"
    )
    fence = datetime(2026, 11, 18, 11, 47, 58, 250_000).astimezone().timestamp()
    notes = [
        {"method": "started", "pid": 1, "at": fence - 1},
        {"method": "started", "pid": 2, "at": fence + 1},
        {"method": "said", "pid": 2, "at": fence - 1},
    ]
    assert fenced_agents(notes, log) == {1}
    assert fenced_agents(notes, log.splitlines()[0]) == set()


def test_a_call_waits_for_a_chat_only_if_its_agent_lives() -> None:
    notes = [
        {"method": "called", "params": "a", "pid": 1},
        {"method": "called", "params": "b", "pid": 2},
        {"method": "asked", "params": "c", "pid": 2},
        {"method": "result", "params": {"word": "b"}, "pid": 2},
    ]
    assert unanswered(notes, {2}) == ["c"]
    assert unanswered(notes, {3}) == []


def test_what_is_shorter_than_a_fence_interrupts_no_answer() -> None:
    lost, store = "The machine w1 no longer answers.", "The fleet's store cannot be used now."
    faults = {str(fault): fault for seed in SHORT_SEEDS for fault in plan_of(seed).faults}
    assert {name for name, fault in faults.items() if fault.may_fail_with(lost)} == {
        "worker killed",
        *(name for name in faults if name.endswith("long")),
    }
    assert faults["leader killed"].may_fail_with(store)
    assert not faults["worker terminated"].may_fail_with(store)
    nobody = "No worker with the model 'fake' takes requests now."
    assert not any(
        fault.may_fail_with(nobody)
        for fault in faults.values()
        if fault.role in ("follower", "leader") and not fault.is_long
    )
    stops = "The machine w1, on which this conversation ran, stops. Send the request again."
    assert faults["worker terminated"].may_fail_with(stops, hurried="w1")
    assert not faults["worker terminated"].may_fail_with(stops, hurried="w2")
    assert not faults["worker terminated"].may_fail_with(stops)
    assert faults["gateway terminated"].may_fail_with(GATEWAY_GONE)
    assert not faults["gateway suspended"].may_fail_with(GATEWAY_GONE)
