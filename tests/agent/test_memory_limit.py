"""What agents take of the machine's memory, and which of them are parked for it."""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from dragoman.backends.agent.profile.memory_limit import MemoryLimit
from dragoman.lm import LanguageModelError
from dragoman.process.memory import MemoryUse, measure_below, measure_tree

_HOLDER = "import sys; held = bytearray(60_000_000); print(flush=True); sys.stdin.read()"


@dataclass
class Agent:
    agent_pid: int | None
    parked: bool = False

    def park(self) -> None:
        self.parked = True


@dataclass
class Machine:
    """Agents and what each takes; what runs beside them takes 10."""

    sizes: dict[int, int] = field(default_factory=dict)
    tells: bool = True

    def look(self, pids: Iterable[int]) -> MemoryUse | None:
        trees = {pid: self.sizes[pid] for pid in pids if pid in self.sizes}
        return MemoryUse(10 + sum(self.sizes.values()), trees) if self.tells else None


def test_as_many_are_parked_as_it_takes_the_longest_unused_first() -> None:
    machine = Machine({1: 40, 2: 30, 3: 30})
    agents = [Agent(1), Agent(2), Agent(3)]
    limit = MemoryLimit(60, machine.look)
    limit.add(lambda: [each for each in agents if not each.parked])
    assert limit.relieve() == 0
    assert [each.parked for each in agents] == [True, True, False]
    # Until the two have ended they are not counted, and nothing else is parked for them.
    limit.check()
    assert not agents[2].parked
    machine.sizes = {3: 30}
    limit.check()
    assert not agents[2].parked


def test_when_nothing_idle_is_left_no_further_agent_may_start() -> None:
    machine = Machine({1: 3_000_000_000, 2: 1_000_000_000})
    idle = [Agent(2), Agent(None)]
    limit = MemoryLimit(2_000_000_000, machine.look)
    limit.add(lambda: idle)
    with pytest.raises(LanguageModelError, match=r"take 3,000 MB of memory; all together may take 2,000 MB"):
        limit.check()
    assert [each.parked for each in idle] == [True, False]


def test_where_the_system_does_not_tell_there_is_no_limit_and_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit = MemoryLimit(1, Machine({1: 100}, tells=False).look)
    limit.check()
    limit.check()
    assert caplog.text.count("max_memory is ignored") == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells it in /proc")
def test_memory_is_measured_with_everything_below_a_process() -> None:
    before = measure_below([])
    shell = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, _HOLDER]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        usage = measure_below([process.pid, os.getpid() + 10_000_000])
        sizes = measure_tree(process.pid)
        process.communicate(b"")
    assert before is not None
    assert usage is not None
    assert 60_000_000 < usage.trees[process.pid] <= usage.total
    assert usage.trees.keys() == {process.pid}
    # The shell and what it has started.
    assert len(sizes) == 2
    assert sizes[1] > 60_000_000
    assert measure_tree(process.pid) == ()
