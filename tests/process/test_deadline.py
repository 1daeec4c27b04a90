"""Children end at the deadline of their process, also if that process is suspended."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import BinaryIO, cast

import pytest

from dragoman.process import SupervisedProcess
from dragoman.process.deadline import boot_seconds, follow_deadline, set_deadline
from process.living import alive, all_gone, line_from

# Starts a child that lives for hours, says its pid, and then waits to be suspended.
_OWNER = """
import asyncio, sys
from dragoman.process import SupervisedProcess
from dragoman.process.deadline import boot_seconds, set_deadline

async def main():
    set_deadline(boot_seconds() + float(sys.argv[1]))
    process = await SupervisedProcess.start(("sleep", "9999"))
    print(process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def without_deadline() -> Iterator[None]:
    yield
    set_deadline(None)


async def test_a_child_ends_at_the_deadline() -> None:
    process = await SupervisedProcess.start(("sleep", "9999"))
    set_deadline(boot_seconds())
    await process.wait()
    await process.stop(0)


async def test_a_child_that_starts_after_the_deadline_ends_at_once() -> None:
    set_deadline(boot_seconds() - 1)
    process = await SupervisedProcess.start(("sleep", "9999"))
    await process.wait()
    await process.stop(0)


async def test_an_extended_deadline_counts_and_one_that_is_lifted_does_not() -> None:
    set_deadline(boot_seconds() + 3600)
    process = await SupervisedProcess.start(("cat",))
    set_deadline(boot_seconds() + 7200)
    set_deadline(None)
    # The supervisor handles its lines in order: this one ends the child, so the earlier ones did not.
    assert process.exit is None
    set_deadline(boot_seconds())
    await process.wait()
    await process.stop(0)


async def test_n2_the_children_of_a_suspended_process_end_at_its_deadline() -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, "1"], stdout=subprocess.PIPE)  # noqa: ASYNC220 - it is suspended below
    try:
        assert owner.stdout is not None
        child = int(await line_from(cast("BinaryIO", owner.stdout)))
        os.kill(owner.pid, signal.SIGSTOP)
        await all_gone([child])
        assert alive([owner.pid]) == {owner.pid}
    finally:
        owner.kill()
        await asyncio.to_thread(owner.wait)
        if owner.stdout is not None:
            owner.stdout.close()


def test_a_follower_gets_the_deadline_and_its_changes_until_it_forgets() -> None:
    lines: list[bytes] = []
    set_deadline(5.0)
    forget = follow_deadline(lines.append)
    set_deadline(None)
    forget()
    set_deadline(7.0)
    assert [float(line.split()[1]) for line in lines] == [5.0, math.inf]


def test_a_deadline_that_is_set_again_wakes_no_follower() -> None:
    lines: list[bytes] = []
    set_deadline(5.0)
    forget = follow_deadline(lines.append)
    set_deadline(5.01)
    set_deadline(6.0)
    forget()
    assert [float(line.split()[1]) for line in lines] == [5.0, 6.0]
