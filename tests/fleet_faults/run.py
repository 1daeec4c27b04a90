"""One run: a fleet under load, some faults one after the other, and what became of it all."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dragoman.fleet.lease import NodeLease
from dragoman.journal.jetstream.journals import JetStreamJournals
from faults.chat import Chat, turn_of
from faults.invariants import Account, broken_in, by_method
from faults.journals import journalled_in, lost_words
from faults.world import until
from fleet_faults.cluster import NatsServer
from fleet_faults.journals import (
    fenced_agents,
    former_agents_at_work,
    former_owners_shown,
    one_history,
    pid_of,
    read_leases,
    read_writes,
    takeovers_of,
    unanswered,
)
from fleet_faults.plan import FleetFault, FleetPlan
from fleet_faults.talk import Talk
from fleet_faults.world import FleetNode, FleetWorld

__all__ = ["FleetOutcome", "FleetRun", "Happened", "run_plan"]

# Until every chat has an answer again: a lease, an election, a start, and a turn, on a busy machine.
_RECOVERY_SECONDS = 120.0
# However the nodes went, nothing of theirs is left after this.
_GONE_SECONDS = 10.0
# What is under way ends by then, unless it waits for a chat. A gateway gives clients half a minute.
_DRAIN_SECONDS = {"worker": 30.0, "gateway": 60.0}
_MOST_SHOWN = 5
# Of the chats, the last ones: their responses run in the background.
_BACKGROUND_CHATS = 2
# Which worker is hit: usually the one that is busiest.
_BUSIEST = 0.9


@dataclass
class Happened:
    """A fault that was injected."""

    fault: FleetFault
    who: str
    # How long it lasted, and how long after its end every chat had an answer again.
    lasted: float
    recovered: float = 0.0
    # Turns that failed in this time.
    failures: list[str] = field(default_factory=list)


@dataclass
class FleetOutcome:
    plan: FleetPlan
    broken: list[str] = field(default_factory=list)
    happened: list[Happened] = field(default_factory=list)
    turns: int = 0
    failed: int = 0
    seconds: float = 0.0
    # Whether the history of leases was complete, so that every claim was checked against it.
    has_all_leases: bool = False
    # The logs of all nodes, for whoever looks into it.
    logs: str = ""


class FleetRun:
    def __init__(self, plan: FleetPlan, folder: Path) -> None:
        self.plan = plan
        self.world = FleetWorld(folder, plan.lease_seconds)
        self.talks = [
            Talk(
                Chat(chr(ord("A") + number)),
                self.world,
                Random(f"{plan.seed} {number}"),  # noqa: S311 - the same each time
                is_background=number >= plan.chats - _BACKGROUND_CHATS,
            )
            for number in range(plan.chats)
        ]
        self.broken: list[str] = []
        self.happened: list[Happened] = []
        # Agents that ended with their worker, or at its fence.
        self.spoilt: set[int] = set()
        # Of those, the latter: what a worker could not store before its fence is lost.
        self.fenced: set[int] = set()
        # When the worker of an agent was killed, or ended before the agent's turn: nobody heard what it said after that.
        self.alone_since: dict[int, float] = {}
        # The worker whose drain the last fault ended with a second signal.
        self.hurried = ""
        self.has_all_leases = False
        self.going: list[asyncio.Task[None]] = []

    async def drive(self) -> None:
        await self.world.start()
        self.going = going = [asyncio.create_task(talk.go_on()) for talk in self.talks]
        try:
            await self._answered(time.time())
            for fault in self.plan.faults:
                await asyncio.sleep(fault.after)
                await self._inject(fault)
            for talk in self.talks:
                talk.is_over = True
            await asyncio.wait_for(asyncio.gather(*going), _RECOVERY_SECONDS)
        finally:
            for task in going:
                task.cancel()
            await asyncio.gather(*going, return_exceptions=True)
        await self._end()
        await self._check()

    async def _answered(self, since: float) -> float:
        """Wait until every chat has an answer to something that it asked after this moment. Returns how long it took."""

        def are_all() -> bool:
            for task in self.going:
                if task.done():
                    # A chat that has found something wrong has ended; one that fails itself says why.
                    task.result()
            return all(talk.broken or talk.has_answer_since(since) for talk in self.talks)

        waiting = ", ".join(talk.chat.name for talk in self.talks if not talk.has_answer_since(since))
        await until(are_all, f"I6: chats have no answer since the fault: {waiting}", _RECOVERY_SECONDS)
        return time.time() - since

    # Faults.

    async def _inject(self, fault: FleetFault) -> None:
        began = time.time()
        self.hurried = ""
        logged = {worker.name: len(worker.stderr) for worker in self.world.workers}
        who: FleetNode | NatsServer
        if fault.role in ("worker", "gateway"):
            who = self._node(fault)
            await self._hit_node(who, fault)
        else:
            who = await self._server(fault)
            await self._hit_server(who, fault)
        healed = time.time()
        happened = Happened(fault, who.name, healed - began)
        self.happened.append(happened)
        happened.recovered = await self._answered(healed)
        for worker in self.world.workers:
            agents = fenced_agents(worker.notes, worker.stderr[logged[worker.name] :])
            self.spoilt |= agents
            self.fenced |= agents
        happened.failures = [
            turn.failure for talk in self.talks for turn in talk.turns if turn.failure and turn.ended > began
        ]
        if fault.role == "gateway":
            self.broken += [
                f"{fault}: a background response did not outlive its gateway: {turn.failure}"
                for talk in self.talks
                for turn in talk.turns
                if turn.is_cut and turn.ended > began
            ]
        self.broken += [
            f"{fault}: a turn failed that had to go on: {failure}"
            for failure in dict.fromkeys(happened.failures)
            if not fault.may_fail_with(failure, self.hurried)
        ]

    def _node(self, fault: FleetFault) -> FleetNode:
        if fault.role == "gateway":
            return self.world.gateways[int(fault.choice * len(self.world.gateways))]
        busiest, *others = sorted(self.world.workers, key=_last_note, reverse=True)
        return busiest if fault.choice < _BUSIEST else others[int(fault.choice * 1_000) % len(others)]

    async def _server(self, fault: FleetFault) -> NatsServer:
        leader = await self.world.leader()
        followers = [server for server in self.world.cluster.servers if server is not leader]
        return leader if fault.role == "leader" else followers[int(fault.choice * len(followers))]

    async def _hit_node(self, node: FleetNode, fault: FleetFault) -> None:
        seconds = fault.seconds(self.plan.lease_seconds)
        match fault.kind:
            case "killed" | "terminated" as how:
                node.is_spoilt = True
                hit = time.time()
                node.signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
                status = await self._ended(node)
                if how == "terminated" and status != 0:
                    self.broken.append(f"{node.name} ended with status {status} after SIGTERM")
                await asyncio.sleep(seconds)
                if how == "killed":
                    self._leave_alone(node, hit)
                await node.start()
            case "suspended" | "suspended long":
                node.signal(signal.SIGSTOP)
                await asyncio.sleep(seconds)
                node.signal(signal.SIGCONT)
            case _:
                node.cut()
                await asyncio.sleep(seconds)
                node.heal()

    async def _hit_server(self, server: NatsServer, fault: FleetFault) -> None:
        seconds = fault.seconds(self.plan.lease_seconds)
        match fault.kind:
            case "killed" | "terminated" as how:
                server.signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
                assert server.process is not None
                await asyncio.to_thread(server.process.wait)
                await asyncio.sleep(seconds)
                await server.start()
            case "suspended" | "suspended long":
                server.signal(signal.SIGSTOP)
                await asyncio.sleep(seconds)
                server.signal(signal.SIGCONT)
            case _:
                number = self.world.cluster.servers.index(server)
                to_nodes = (
                    [] if fault.kind.startswith("split") else [n.ways[number] for n in self.world.nodes]
                )
                for way in (*server.routes, *to_nodes):
                    way.cut()
                await asyncio.sleep(seconds)
                for way in (*server.routes, *to_nodes):
                    way.heal()

    # The end.

    async def _end(self) -> None:
        """All nodes end by themselves, and leave nothing behind."""
        for nodes in (self.world.gateways, self.world.workers):
            for node in nodes:
                node.signal(signal.SIGTERM)
            for node in nodes:
                status = await self._ended(node)
                if status != 0:
                    self.broken.append(f"{node.name} ended with status {status}")
        try:
            await until(lambda: not self.world.remaining(), "", _GONE_SECONDS)
        except TimeoutError:
            self.broken.append(f"I7: processes are left: {self.world.remaining()}")

    async def _ended(self, node: FleetNode) -> int:
        """Its exit status. A drain waits for answers to calls that a chat has left behind; a second signal does not."""
        try:
            return await node.ended(_DRAIN_SECONDS[node.role])
        except TimeoutError:
            if not unanswered(node.notes, set(self.world.remaining())):
                raise
            self.hurried = node.name
            self._leave_alone(node, time.time())
            node.signal(signal.SIGTERM)
            return await node.ended()

    def _leave_alone(self, worker: FleetNode, since: float) -> None:
        """The agents that this worker has started so far end with it: at this moment, if not before."""
        agents = {note["pid"] for note in worker.notes}
        self.spoilt |= agents
        self.alone_since = {**dict.fromkeys(agents, since), **self.alone_since}

    async def _check(self) -> None:
        # When a word was said, or what it asked was answered.
        noted_at = {
            note["params"] if note["method"] == "said" else note["params"]["word"]: note["at"]
            for note in self.world.notes()
            if note["method"] in ("said", "outcome")
        }
        chats = tuple(talk.chat for talk in self.talks)
        self.broken += [line for talk in self.talks for line in talk.broken]
        self.broken += self.world.complaints()[:_MOST_SHOWN]

        def is_excused(word: str, pid: int) -> bool:
            chat, turn = account.chat_of(word), turn_of(word)
            is_cut = turn < 0 or turn in chat.stopped or turn in chat.lost or pid in self.fenced
            return is_cut or noted_at[word] >= self.alone_since.get(pid, math.inf)

        account = Account(chats, by_method(self.world.notes()), is_excused, self.spoilt)
        self.broken += broken_in(account)
        async with self.world.connection("admin", "admin") as connection:
            writes = await read_writes(connection)
            leases, self.has_all_leases = await read_leases(connection, self.plan.lease_seconds)
        async with (
            self.world.connection("gateway", "reader") as connection,
            NodeLease.held(connection, "reader", "gateway") as lease,
        ):
            found = await journalled_in(JetStreamJournals(connection, lease))
        self.broken += found.broken
        for journal, messages in writes.items():
            lives = {life.incarnation: life for life in leases}
            self.broken += one_history(journal, messages, lives, are_all=self.has_all_leases)
        takeovers = takeovers_of(writes, found.places)
        self.broken += former_owners_shown(self.talks, takeovers)[:_MOST_SHOWN]
        self.broken += former_agents_at_work(self.world.notes(), takeovers)[:_MOST_SHOWN]
        for chat in chats:
            lost = [
                word
                for word in lost_words(found, chat)
                if turn_of(word) not in chat.stopped and pid_of(word) not in self.fenced
            ]
            if lost:
                self.broken.append(f"J1: acknowledged and not journalled ({len(lost)} words): {lost[:5]}")


def _last_note(node: FleetNode) -> float:
    file = node.folder / "agents" / "journal"
    return file.stat().st_mtime if file.exists() else 0.0


async def run_plan(plan: FleetPlan, folder: Path) -> FleetOutcome:
    """Never raises: whatever goes wrong is what was found."""
    run = FleetRun(plan, folder)
    began = time.monotonic()
    try:
        await run.drive()
    except Exception as error:
        run.broken.append(f"{type(error).__name__}: {error}")
        run.broken += [line for talk in run.talks for line in talk.broken]
    finally:
        logs = "".join(f"== {node.name}\n{node.stderr}" for node in run.world.nodes)
        await run.world.close()
    turns = [turn for talk in run.talks for turn in talk.turns]
    return FleetOutcome(
        plan,
        run.broken,
        run.happened,
        len(turns),
        sum(bool(turn.failure) for turn in turns),
        time.monotonic() - began,
        run.has_all_leases,
        logs,
    )
