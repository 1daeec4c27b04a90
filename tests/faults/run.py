"""One run: a conversation of several turns through real processes, a fault in the middle, and what became of it all."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.jsonrpc import ConnectionClosed, ErrorResponse
from faults.chat import Chat, script
from faults.endpoint_run import EndpointRun
from faults.holding import Holding, held_by
from faults.invariants import broken_by
from faults.journals import journals_broken_by
from faults.plan import FAULTS, Act, Plan
from faults.world import DEADLINE_SECONDS, World, is_alive, until
from vscode.editor import Answer, Editor

__all__ = ["Outcome", "Run", "run_plan"]

# How long the person looks at a turn that does not go on before they stop it.
_PATIENCE_SECONDS = 1.0
# However we went, nothing of ours is left after this; on a busy machine a little more.
_GONE_SECONDS = 6.0
_AT_REST_SECONDS = 4.0
_SLOW_SECONDS = 0.7
_SUSPENDED_SECONDS = 0.3
_DAY = 86_400
# What an agent notes when an order that it took has come to anything.
_EFFECTS = {"late": "is late", "silent": "is silent", "twice": "answers twice", "floods": "floods"}
_HALF_SECONDS = 0.02
_HALF_LINE = b'{"jsonrpc": "2.0", "id": 77, "method": "lm/provideLang'
# The numbers of turns that no plan has.
_AFTER_IDLE = 70
_GATED = ("silent", "speaking", "gathering", "working on", "resumed")


@dataclass
class Outcome:
    plan: Plan
    broken: list[str] = field(default_factory=list)
    # Those of the plan that truly happened.
    injected: tuple[str, ...] = ()
    seconds: float = 0.0
    # What the bridge said, for whoever looks into it.
    stderr: str = ""
    errors: list[str] = field(default_factory=list)

    @property
    def missed(self) -> list[str]:
        """Faults that did not come about. A run without its fault shows nothing."""
        return [fault for fault in self.plan.faults if fault not in (*self.injected, "nothing")]


class Run:
    def __init__(self, plan: Plan, folder: Path, holding: Holding | None = None) -> None:
        """`holding` is what a bridge may hold in the end, if that is to be looked at."""
        self.plan = plan
        self._holding = holding
        self.stalls = any(FAULTS[fault].stalls for fault in plan.faults)
        options: dict[str, Any] = {"http": plan.transport == "http"}
        if plan.takes_up != "no":
            options[plan.takes_up] = True
        if plan.state == "starting":
            options["slow"] = "go-starting"
        self.world = World(folder, front=plan.front, small_disk=plan.has("disk full"), **options)
        self.chat = Chat("A")
        self.other = Chat("B")
        self.injected: list[str] = []
        self.broken: list[str] = []
        # Who waits for the moment of the fault, and who for that of the second.
        self._watching: asyncio.Task[None] | None = None
        self._second: asyncio.Task[None] | None = None
        self._since = 0.0
        self._current: Answer | None = None
        self._twins: list[tuple[Answer, Answer]] = []
        # Everything that was killed, stopped or made useless.
        self.spoilt: set[int] = set()
        # Another bridge has been started.
        self.is_back = False

    async def drive(self) -> None:
        plan, world = self.plan, self.world
        await world.start()
        if plan.bystander and plan.state != "starting":
            await self._turn(self.other, 0, ("speak", "call"))
        for number, acts in enumerate(plan.turns):
            if number == plan.turn:
                await self._faulty_turn(number, acts)
            else:
                await self._turn(self.chat, number, acts)
        await self._twins_agree()
        if plan.bystander:
            await self._turn(self.other, 1, ("call", "ask"))
        # The first may meet what the fault has left, and then says so; the second has its own answer, whatever was.
        await self._turn(self.chat, 90, ("speak",))
        if plan.has("floods", "reads slowly"):
            await self._flood_over()
        await self._probe()
        await self._nothing_is_left()

    async def _faulty_turn(self, number: int, acts: tuple[Act, ...]) -> None:
        await self._turn(self.chat, number, acts, faulty=True)
        if self.plan.state == "idle":
            await self.inject()
            # Nobody notices anything before the next turn.
            await self._turn(self.chat, _AFTER_IDLE, ("call", "ask"))
        if self._second is not None:
            await asyncio.wait_for(self._second, DEADLINE_SECONDS)
        self.world.mend()

    async def _turn(self, chat: Chat, number: int, acts: tuple[Act, ...], *, faulty: bool = False) -> None:
        state = self.plan.state if faulty else None
        chat.say(script(chat.name, number, acts, state))
        answer = self._sent(chat.send)
        if state in (*_GATED, "starting", "cancelling", "anywhere"):
            self._watching = asyncio.create_task(self._watch())
        rounds = 0
        while True:
            await self._settled(chat, answer, number)
            if isinstance(answer.reply, ConnectionClosed):
                chat.lost.add(number)
                await self._back()
            else:
                chat.complain(answer)
            failed = isinstance(answer.reply, ErrorResponse | ConnectionClosed)
            if failed and self.plan.then == "again" and rounds < 3:
                rounds += 1
                chat.repeated.add(number)
                chat.hear(answer, kept=False)
                answer = self._sent(chat.again)
                continue
            chat.hear(answer)
            if failed or number in chat.stopped or not answer.calls:
                break
            try:
                answer = await self._next(chat, answer, number, faulty=faulty)
            except ConnectionClosed as closed:
                # The bridge went while the calls were served.
                answer = Answer(self.world.editor, reply=closed)
        if self._watching is not None:
            await asyncio.wait_for(self._watching, DEADLINE_SECONDS)
            self._watching = None

    def _sent(self, send: Callable[[Editor], Answer]) -> Answer:
        try:
            self._current = send(self.world.editor)
        except ConnectionClosed as closed:
            self._current = Answer(self.world.editor, reply=closed)
        self._since = time.monotonic()
        return self._current

    async def _next(self, chat: Chat, answer: Answer, number: int, *, faulty: bool) -> Answer:
        """The calls are served, and the results sent."""
        state = self.plan.state if faulty and not self.injected else None
        permits = any(call["name"].startswith("dragoman-") for call in answer.calls)
        if (state == "awaiting a result" and not permits) or (state == "awaiting a permission" and permits):
            await self.inject()
        if state == "working on" and not permits:
            self.world.open_gate("handed-over")
        if state in ("working on", "gathering") and not permits and self._watching is not None:
            await self._watching
        results = []
        for call in answer.calls:
            if number in chat.stopped:
                # The person has stopped it: nothing runs any more, and nothing is given back.
                return await self._stopped_while_waiting(chat, number)
            results.append(await chat.serve(call, self.world.editor))
        if state == "approved" and permits:
            await self.inject()
        if number in chat.stopped:
            return await self._stopped_while_waiting(chat, number)
        for result in results:
            chat.history.append({"role": "user", "content": [result]})
        return self._sent(chat.send)

    async def _stopped_while_waiting(self, chat: Chat, number: int) -> Answer:
        """Whoever stops while a tool runs goes on with the next thing they say."""
        chat.say(script(chat.name, number + 50, ("speak",), None))
        chat.stopped.discard(number)
        chat.stopped.add(number + 100)
        chat.lost.add(number)
        return self._sent(chat.send)

    async def _settled(self, chat: Chat, answer: Answer, number: int) -> None:
        """I1. The person stops what does not go on."""
        limit = time.monotonic() + DEADLINE_SECONDS
        while answer.reply is None:
            answer.news.clear()
            stalls = self.injected and self.stalls and number not in chat.stopped
            if stalls and time.monotonic() - self._since > _PATIENCE_SECONDS:
                chat.stopped.add(number)
                answer.cancel()
                limit = time.monotonic() + DEADLINE_SECONDS / 4
            if time.monotonic() > limit:
                raise TimeoutError(
                    f"I1: a request of turn {number} does not settle; it has {answer.text[-200:]!r}"
                )
            try:
                await asyncio.wait_for(answer.news.wait(), 0.1)
            except TimeoutError:
                continue

    async def _watch(self) -> None:
        """Until the agent is where the fault is to happen."""
        match self.plan.state:
            case "starting":
                await self.world.noted("session/new")
                await self.inject()
                self.world.open_gate("go-starting")
            case "cancelling":
                await self.world.noted("speaks")
                answer = self._current
                assert answer is not None
                await answer.until(lambda answer: answer.text)
                self.chat.stopped.add(self.plan.turn)
                answer.cancel()
                await self.world.noted("session/cancel")
                await self.inject()
                asyncio.get_running_loop().call_later(0.1, self.world.open_gate, "go-stopped")
            case "anywhere":
                await asyncio.sleep(self.plan.moment)
                if FAULTS[self.plan.faults[0]].who == "agent":
                    # On a busy machine there may be none yet for it to happen to.
                    await self.world.noted("session/prompt")
                await self.inject()
            case _:
                await self.world.noted("at", "A-here")
                await self.inject()
                self.world.open_gate("go-A-here")

    # Faults.

    def _agent(self) -> int | None:
        """The agent of the chat."""
        found = [
            entry["pid"]
            for entry in self.world.journal("said", "called", "asked", "at")
            if str(entry["params"]).lstrip("«").startswith("A")
        ]
        started = [entry["pid"] for entry in self.world.journal("started")]
        pid: int | None = (found or started or [None])[-1]
        return pid

    async def inject(self) -> None:
        first, *others = self.plan.faults
        at_once = [] if self.plan.apart else others
        if first == "bridge suspended":
            await self._suspend(at_once)
        else:
            for fault in (first, *at_once):
                await self._inject(fault)
        await self._go_on()
        if self.plan.apart:
            self._second = asyncio.create_task(self._inject_later(others))

    async def _inject_later(self, faults: list[str]) -> None:
        await asyncio.sleep(self.plan.apart)
        for fault in faults:
            await self._inject(fault)
        await self._go_on()

    async def _go_on(self) -> None:
        """With another bridge, if that one has gone."""
        if self.world.process.poll() is not None:
            self.chat.lost.add(self.plan.turn)
            self.spoilt.update(entry["pid"] for entry in self.world.journal("started"))
            self.is_back = True
            await self.world.start()
        self._since = time.monotonic()

    async def _suspend(self, others: list[str]) -> None:
        """For a moment, in which the others happen."""
        process = self.world.process
        process.send_signal(signal.SIGSTOP)
        self.injected.append("bridge suspended")
        for fault in others:
            await self._inject(fault)
        await asyncio.sleep(_SUSPENDED_SECONDS)
        process.send_signal(signal.SIGCONT)

    async def _inject(self, fault: str) -> None:
        """And note it, if it is so."""
        if await self._happens(fault):
            self.injected.append(fault)

    async def _happens(self, fault: str) -> bool:
        """Whether there was anything for it to happen to."""
        world, editor, pid = self.world, self.world.editor, self._agent()
        match fault:
            case "nothing":
                pass
            case "killed" | "stopped" as how:
                if pid is None or not is_alive(pid):
                    return False
                self.spoilt.add(pid)
                os.kill(pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            case (
                "exits"
                | "silent"
                | "half_frame"
                | "stubborn"
                | "floods"
                | "late"
                | "twice"
                | "frames" as order
            ):
                assert pid is not None
                if order in ("exits", "silent", "half_frame", "stubborn"):
                    self.spoilt.add(pid)
                return await world.order(pid, order)
            case "vanishes" | "vanishes in a line" as how:
                if how == "vanishes in a line":
                    editor.peer.stream.write(_HALF_LINE)
                await self._end("end of input")
            case "asks twice":
                self._ask_twice()
            case "half a line":
                editor.peer.stream.write(_HALF_LINE + b"\n")
                editor.peer.stream.write(_HALF_LINE)
                # Nobody else may write in the middle of it: that would be a fault of this editor's.
                time.sleep(_HALF_SECONDS)  # noqa: ASYNC251
                editor.peer.stream.write(b'uageModelChatInformation", "params": {"silent": true}}\n')
            case "reads slowly":
                assert pid is not None
                editor.peer.pause_reading(self)
                asyncio.get_running_loop().call_later(_SLOW_SECONDS, editor.peer.resume_reading, self)
                return await world.order(pid, "floods")
            case "stops it":
                if self._current is not None and self._current.reply is None:
                    self._current.cancel()
                self.chat.stopped.add(self.plan.turn)
            case "bridge killed":
                await self._end("killed")
            case "bridge and supervisors killed":
                await self._kill_supervisors(pid)
            case "bridge suspended":
                await self._suspend([])
                return False
            case "disk full":
                return world.fill_disk()
            case "database locked":
                world.lock_database()
            case "clock forward":
                world.clock.write_text(str(_DAY))
            case "clock back":
                world.clock.write_text(str(-_DAY))
            case "no files":
                world.exhaust_files()
            case _:
                raise AssertionError(f"nobody knows how to make {fault!r} happen")
        return True

    def _ask_twice(self) -> None:
        chat, first = self.chat, self._current
        assert first is not None
        assert first.reply is None
        self._twins.append((first, chat.again(self.world.editor)))

    async def _twins_agree(self) -> None:
        for one, other in self._twins:
            await other.settled()
            if one.text != other.text or one.calls != other.calls:
                self.broken.append(
                    f"H14: asked twice, answered differently: {one.text!r} {one.calls} and {other.text!r} {other.calls}"
                )

    async def _kill_supervisors(self, pid: int | None) -> None:
        """And the agent is one that would live on by itself."""
        world = self.world
        assert pid is not None
        await world.order(pid, "stubborn")
        self.spoilt.add(pid)
        agents = {entry["pid"] for entry in world.journal("started")}
        ours = [each for each in world.remaining() if each not in agents and each != world.pid]
        for each in (*ours, world.pid):
            os.kill(each, signal.SIGKILL)
        await world.ended()

    async def _end(self, how: str) -> None:
        status = await self.world.end(how)
        if how in ("shutdown", "end of input") and status != 0:
            self.broken.append(f"the bridge ended with status {status} after {how}")
        await self._all_gone()

    async def _all_gone(self) -> None:
        """I7."""
        try:
            await until(lambda: not self.world.remaining(), "", _GONE_SECONDS)
        except TimeoutError:
            self.broken.append(f"I7: still there after the bridge has gone: {_shown(self.world.remaining())}")

    async def _back(self) -> None:
        """The bridge is gone. If that was the fault, there is another one, or will be in a moment."""
        for waiting in filter(None, (self._watching, self._second)):
            await asyncio.wait_for(asyncio.shield(waiting), DEADLINE_SECONDS)
        if self.plan.has("no files") and self.world.process.poll() is None:
            # A server that has no file for a connection cannot let anybody in.
            return
        if not self.is_back:
            raise AssertionError(f"the bridge ended by itself, with {await self.world.ended()}")

    # The end.

    async def _flood_over(self) -> None:
        """Everything has been said. What comes after it in the pipe has been read when the next turn begins."""

        def is_over() -> bool:
            done = [(entry["pid"], entry["params"]) for entry in self.world.journal("flooded")]
            begun = [(entry["pid"], entry["params"]) for entry in self.world.journal("floods")]
            return all(flood in done or not is_alive(flood[0]) for flood in begun)

        await until(is_over, "the flood has no end")

    async def _probe(self) -> None:
        """I6."""
        self.chat.say(script("A", 91, ("speak",), None))
        answer = self._current = self.chat.send(self.world.editor)
        await answer.settled()
        self.chat.hear(answer)
        said = [w for w in self.chat.heard[-2:] if w.startswith("«A91.0")]
        if len(said) != 2 or answer.calls:
            self.broken.append(
                f"I6: the next prompt has no answer of its own: {answer.text[-500:]!r} {answer.reply}"
            )

    async def _nothing_is_left(self) -> None:
        """No file, socket, process or task more than its conversations need, within a moment."""
        if self._holding is None:
            return
        limit = time.monotonic() + _AT_REST_SECONDS
        agents = len(self.world.living_agents())
        while left := self._holding.exceeded(await held_by(self.world), agents):
            if time.monotonic() > limit:
                self.broken.append(f"left behind, with {agents} agents: {left}")
                return
            await asyncio.sleep(0.1)
            agents = len(self.world.living_agents())

    async def finish(self) -> None:
        await self._end(self.plan.ending)
        left = self.world.temporary_files()
        # The next one removes what one that was killed has left.
        if left and self.plan.ending != "killed":
            self.broken.append(f"files are left: {left}")
        self.broken += broken_by(self)
        self.broken += await journals_broken_by(self)
        effects = {entry["method"] for entry in self.world.journal()}
        self.injected = [each for each in self.injected if _EFFECTS.get(each, "started") in effects]

    @property
    def errors(self) -> list[str]:
        return self.chat.errors + self.other.errors

    def close(self) -> None:
        for waiting in filter(None, (self._watching, self._second)):
            waiting.cancel()
        self.world.close()


def _shown(pids: list[int]) -> list[str]:
    shown = []
    for pid in pids:
        try:
            shown.append(f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes()[:120]!r}")
        except OSError:
            shown.append(f"{pid}, gone by now")
    return shown


async def run_plan(plan: Plan, folder: Path, holding: Holding | None = None) -> Outcome:
    """Never raises: whatever goes wrong is what was found."""
    run: Run | EndpointRun
    if FAULTS[plan.faults[0]].who == "endpoint":
        run = EndpointRun(plan, folder)
    else:
        run = Run(plan, folder, holding)
    began = time.monotonic()
    outcome = Outcome(plan)
    try:
        await run.drive()
        await run.finish()
    except Exception as error:
        run.broken.append(f"{type(error).__name__}: {error}")
    finally:
        outcome.stderr = run.world.stderr if run.world is not None else ""
        run.close()
    outcome.broken, outcome.injected, outcome.errors = run.broken, tuple(run.injected), run.errors
    outcome.seconds = time.monotonic() - began
    return outcome
