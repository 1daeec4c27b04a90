"""`make soak`: fifty conversations at once for ten minutes, and what the bridge's memory does meanwhile.

The traffic is mixed: words, tool calls, permissions granted and refused, turns that are stopped, agents that die, titles
asked for in between, chats that end and others that begin. Every answer is looked at. After a warm-up the memory is to be
flat, but for the conversations that are remembered, which have a limit of their own: the trend of the rest decides.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from dragoman.jsonrpc import RpcResponse
from faults.chat import WORD, Chat, name_of, script
from faults.plan import Act
from faults.plot import drawn, slope
from faults.world import World, fds_of

_ACTS: tuple[Act, ...] = ("speak", "speak", "speak", "call", "calls", "ask", "refused")
# Of the whole time: modules are imported, agents started, caches filled.
_WARM = 0.3
_SAMPLE_SECONDS = 1.0
# A chat that is longer is given up, and another begun: what a request carries must not grow for ever.
_TURNS = 12
_THINKING_SECONDS = 6.0
# What the trend may add in the judged time, of what there was at its beginning.
_GROWTH = 0.1
_DEATH_SECONDS = 15.0
# Long enough for a few turns of each.
_QUICK_MINUTES = 0.2
# What a conversation takes in memory, by what it takes on disk: its record four times as much, and the database's cache.
_IN_MEMORY = 5.2


class Soak:
    def __init__(self, world: World, chats: int, seconds: float, seed: int) -> None:
        self.world = world
        self.ends = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        # Minutes, megabytes, and how much of that are conversations.
        self.samples: list[tuple[float, float, float]] = []
        self.fds: list[int] = []
        self._chance = Random(seed)  # noqa: S311 - nobody guesses at it
        self._chats = chats

    async def run(self) -> None:
        await self.world.start()
        others = [asyncio.create_task(self._sample()), asyncio.create_task(self._kill_now_and_then())]
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._chats):
                    group.create_task(self._talk(number))
        finally:
            for task in others:
                task.cancel()
        await self.world.end("shutdown")

    @property
    def _goes_on(self) -> bool:
        return time.monotonic() < self.ends

    async def _talk(self, number: int) -> None:
        # Fifty agents that start at once would only wait for each other.
        await asyncio.sleep(number * 0.7)
        while self._goes_on:
            self.counts["conversations"] += 1
            await self._chat(Chat("A"), 100 * self.counts["conversations"])

    async def _chat(self, chat: Chat, first: int) -> None:
        """Turns have numbers of their own: no two chats say the same."""
        for turn in range(first, first + self._chance.randint(3, _TURNS)):
            if self._goes_on:
                await self._turn(chat, turn)
                await asyncio.sleep(self._chance.uniform(0, _THINKING_SECONDS))

    async def _turn(self, chat: Chat, turn: int) -> None:
        acts = tuple(self._chance.choices(_ACTS, k=self._chance.randint(1, 3)))
        self.counts["turns"] += 1
        if self._chance.random() < 0.05:
            await self._title()
        chat.say(script(chat.name, turn, acts, None))
        stops = self._chance.random() < 0.07
        heard: list[str] = []
        while True:
            answer = chat.send(self.world.editor)
            if stops:
                await asyncio.sleep(self._chance.uniform(0, 0.05))
                answer.cancel()
            await answer.settled()
            chat.hear(answer)
            heard += WORD.findall(answer.text)
            if stops or not isinstance(answer.reply, RpcResponse) or "**Error:**" in answer.text:
                self.counts["stopped" if stops else "failed"] += 1
                return
            if not answer.calls:
                break
            self.counts["calls"] += len(answer.calls)
            results = [await chat.serve(call, self.world.editor) for call in answer.calls]
            chat.history += [{"role": "user", "content": [result]} for result in results]
        strange = [word for word in heard if not name_of(word).startswith((f"A{turn}.", "H"))]
        if not heard or strange or len(set(heard)) != len(heard):
            self.wrong.append(f"turn {turn} of {acts}: {heard}, {answer.text[-200:]!r}")

    async def _title(self) -> None:
        self.counts["titles"] += 1
        asked = [{"role": "user", "content": [{"type": "text", "value": "A title for this, please"}]}]
        await self.world.editor.respond("fake", asked, [], modelOptions={"_aside": True}).settled()

    async def _kill_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_DEATH_SECONDS)
            agents = [entry["pid"] for entry in self.world.journal("started")]
            with suppress(OSError):
                os.kill(self._chance.choice(agents[-50:]), signal.SIGKILL)
                self.counts["killed"] += 1

    async def _sample(self) -> None:
        began = time.monotonic()
        while True:
            minutes = (time.monotonic() - began) / 60
            self.samples.append((minutes, _megabytes(self.world.pid), _remembered(self.world.state)))
            self.fds.append(sum(fds_of(self.world.pid).values()))
            await asyncio.sleep(_SAMPLE_SECONDS)

    def verdict(self, *, with_trend: bool = True) -> tuple[bool, str]:
        last = self.samples[-1][0]
        rise, begin = slope(
            [(minute, all_ - known) for minute, all_, known in self.samples if minute >= last * _WARM]
        )
        at_first = begin + rise * last * _WARM
        grows = rise * last * (1 - _WARM) / at_first
        _, most, known = self.samples[-1]
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        text = (
            f"{last:.1f} minutes, {counts}; {most:.0f} MB at the end, {known:.0f} of it conversations; the rest "
            f"{at_first:.0f} MB after the warm-up, {rise:+.2f} MB a minute ({grows:+.1%} in all); at most {max(self.fds)} files open; {len(self.wrong)} answers wrong"
        )
        return (grows <= _GROWTH or not with_trend) and not self.wrong, text


def _megabytes(pid: int) -> float:
    """What is its own alone: memory that it shares with others is not its to give back."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel does not say")


def _remembered(state: Path) -> float:
    """About what the bridge's memory of conversations takes."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(state / "dragoman.db", timeout=0)) as database:
        [[size]] = database.execute("SELECT ifnull(sum(length(content)), 0) FROM conversations").fetchall()
        return float(size) * _IN_MEMORY / 2**20
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--conversations", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="where the picture of the memory goes")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few conversations for seconds: answers are judged, memory is not",
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.minutes, arguments.conversations, arguments.plot = _QUICK_MINUTES, 4, None
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as temporary:
        more = f"max_agents = {arguments.conversations + 10}\n"
        world = World(Path(temporary) / "world", settings=more, resume=True)
        soak = Soak(world, arguments.conversations, arguments.minutes * 60, arguments.seed)
        try:
            asyncio.run(soak.run())
        finally:
            world.close()
    is_well, text = soak.verdict(with_trend=not arguments.quick)
    print(text)
    print(*soak.wrong[:10], sep="\n")
    title = f"Memory of the bridge, {arguments.conversations} conversations at a time"
    plot = drawn(title, soak.samples, soak.samples[-1][0] * _WARM)
    if arguments.plot is not None:
        arguments.plot.write_text(plot)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
