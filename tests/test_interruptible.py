"""An interrupt ends what runs, also one that comes before it has begun."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from dragoman.interruptible import run_interruptible


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Also where the tests run in the background of a shell, which lets them ignore interrupts: they would wait for ever."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupt() -> None:
    # This thread, as in a process that has no other: another one of the test runner's would take it at once.
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


async def test_the_result_is_given_back_and_interrupts_are_let_through() -> None:
    async def work() -> set[signal.Signals]:
        return {signal.Signals(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())}

    assert signal.SIGINT not in await asyncio.to_thread(run_interruptible, work)


def test_an_interrupt_while_the_loop_is_made_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    real = asyncio.new_event_loop

    def slowly() -> asyncio.AbstractEventLoop:
        _interrupt()
        made.append(real())
        return made[-1]

    async def work() -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr("asyncio.events.new_event_loop", slowly)
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work)
    assert made[0].is_closed()
    # What is left behind complains when it is thrown away, and a complaint fails a test.
    gc.collect()


def test_an_interrupt_while_it_runs_ends_it() -> None:
    ended = []

    async def work() -> None:
        _interrupt()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work)
    assert ended == [True]


def test_a_loop_that_cannot_be_made_leaves_interrupts_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    async def work() -> None:
        pass

    monkeypatch.setattr("asyncio.events.new_event_loop", fail)
    with pytest.raises(OSError, match="Too many open files"):
        run_interruptible(work)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


# Whatever it is told, it goes on; it says so each time, from outside the task: an interrupt within it would end it.
_STUBBORN = """
import asyncio
from dragoman.interruptible import run_interruptible

async def work():
    loop = asyncio.get_running_loop()
    while True:
        try:
            loop.call_soon(lambda: print("waiting", flush=True))
            await loop.create_future()
        except asyncio.CancelledError:
            pass

run_interruptible(work)
"""


def test_a_third_interrupt_ends_at_once_what_will_not_end() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (-signal.SIGINT, "")


def test_afterwards_an_interrupt_is_what_it_was() -> None:
    handler = signal.getsignal(signal.SIGINT)
    test_an_interrupt_while_it_runs_ends_it()
    assert signal.getsignal(signal.SIGINT) is handler
