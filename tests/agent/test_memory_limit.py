"""What agents take of the machine's memory, and which of them are parked for it."""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dragoman.backends.agent.profile.memory_limit import MemoryLimit, parking_order
from dragoman.lm import LanguageModelError
from dragoman.process.memory import MemoryUse, machine_memory, measure_below, measure_tree
from dragoman.process.supervisor import Kin, descendants

_HOLDER = "import sys; held = bytearray(60_000_000); print(flush=True); sys.stdin.read()"


@dataclass
class Agent:
    agent_pid: int | None
    parked: bool = False
    has_one_turn: bool = False
    can_be_resumed: bool = True
    may_rest_early: bool = False

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


def test_agents_that_cannot_take_up_their_sessions_are_parked_last() -> None:
    agents = [Agent(1, has_one_turn=True, can_be_resumed=False), Agent(2), Agent(3, has_one_turn=True)]
    assert [each.agent_pid for each in sorted(agents, key=parking_order)] == [3, 2, 1]


def test_near_the_limit_only_those_are_parked_that_may_rest_early() -> None:
    machine = Machine({1: 20, 2: 20, 3: 20, 4: 20})
    agents = [
        Agent(1),
        Agent(2, may_rest_early=True),
        Agent(3, has_one_turn=True, may_rest_early=True),
        Agent(4),
    ]
    # 90 of 110, which is more than three quarters.
    limit = MemoryLimit(110, machine.look)
    limit.add(lambda: [each for each in agents if not each.parked])
    assert limit.relieve() == 0
    # One is enough, and one-turn conversations are the first.
    assert [each.agent_pid for each in agents if each.parked] == [3]
    machine.sizes = {1: 30, 2: 20, 4: 30}
    limit.relieve()
    assert [each.agent_pid for each in agents if each.parked] == [2, 3]
    # Above the limit the others are parked, too.
    machine.sizes = {1: 60, 4: 60}
    limit.relieve()
    assert [each.agent_pid for each in agents if each.parked] == [1, 2, 3]


def test_a_one_turn_conversation_of_any_model_is_parked_before_the_others() -> None:
    agents = [Agent(1), Agent(2, has_one_turn=True, may_rest_early=True)]
    limit = MemoryLimit(70, Machine({1: 40, 2: 40}).look)
    for agent in agents:
        limit.add(lambda agent=agent: [agent])  # type: ignore[misc]
    assert limit.relieve() == 0
    assert [each.parked for each in agents] == [False, True]


def _system(root: Path, cgroup: str, **limits: str) -> Path:
    """A machine with a million kilobytes."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal:        1000000 kB\nMemFree: 1 kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for place, value in limits.items():
        file = root / "sys/fs/cgroup" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value)
    return root


@pytest.mark.parametrize(
    ("cgroup", "limits", "expected"),
    [
        ("0::/\n", {}, 1_024_000_000),
        ("0::/\n", {"memory.max": "max\n"}, 1_024_000_000),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "5000\n"}, 5_000),
        ("0::/of/the/host\n", {"memory.max": "7000\n"}, 7_000),
        ("4:cpu,memory:/a\n3:cpu:/a\n", {"memory/a/memory.limit_in_bytes": "9000\n"}, 9_000),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1_024_000_000),
    ],
)
def test_the_memory_of_the_machine_is_that_of_its_container(
    tmp_path: Path, cgroup: str, limits: dict[str, str], expected: int
) -> None:
    assert machine_memory(_system(tmp_path, cgroup, **limits)) == expected


def test_a_system_that_does_not_tell_its_memory_has_none(tmp_path: Path) -> None:
    assert machine_memory(tmp_path) is None
    _system(tmp_path, "")
    (tmp_path / "proc/self/cgroup").unlink()
    assert machine_memory(tmp_path) == 1_024_000_000
    (tmp_path / "proc/meminfo").write_text("MemTotal:\n")
    assert machine_memory(tmp_path) is None


def test_when_nothing_idle_is_left_no_further_agent_may_start() -> None:
    machine = Machine({1: 3_000_000_000, 2: 1_000_000_000})
    idle = [Agent(2), Agent(None)]
    limit = MemoryLimit(2_000_000_000, machine.look)
    limit.add(lambda: idle)
    with pytest.raises(LanguageModelError, match=r"take 3,000 MB of memory; all together may take 2,000 MB"):
        limit.check()
    assert [each.parked for each in idle] == [True, False]


def test_where_there_is_ample_room_a_measurement_counts_for_a_second() -> None:
    machine, looks, now = Machine({1: 3_000_000_000}), 0, 0.0

    def look(pids: Iterable[int]) -> MemoryUse | None:
        nonlocal looks
        looks += 1
        return machine.look(pids)

    limit = MemoryLimit(8_000_000_000, look, lambda: now)
    for _ in range(3):
        limit.check()
    assert looks == 1
    # Without ample room every request counts.
    machine.sizes[2], now = 2_000_000_000, 1.0
    for _ in range(3):
        limit.check()
    assert looks == 4


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells it in /proc")
def test_the_processes_are_walked_through_once_however_many_agents_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker has hundreds of agents, and measures between two parts of their answers."""
    walks: list[int] = []

    def counted(table: dict[int, Kin], root: int) -> list[int]:
        walks.append(root)
        return descendants(table, root)

    monkeypatch.setattr("dragoman.process.memory.descendants", counted)
    shells = [subprocess.Popen(["sh", "-c", "read x; true"], stdin=subprocess.PIPE) for _ in range(3)]
    usage = measure_below(shell.pid for shell in shells)
    for shell in shells:
        shell.communicate(b"\n")
    assert usage is not None
    assert usage.trees.keys() == {shell.pid for shell in shells}
    assert walks == [os.getpid()]
