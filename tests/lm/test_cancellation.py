"""Cancellation: once, for all callbacks, and no work runs on in the background."""

import asyncio
import logging

import pytest

from dragoman.lm import (
    CancellationError,
    CancellationScope,
    CancellationSource,
    CancellationToken,
    until_cancelled,
)
from lm.providers import within_deadline


def test_a_token_is_cancelled_once_and_stays_so() -> None:
    source = CancellationSource()
    calls: list[int] = []
    source.token.on_cancel(lambda: calls.append(1))
    assert not source.token.cancelled()
    source.token.raise_if_cancelled()
    source.cancel()
    source.cancel()
    assert source.token.cancelled()
    assert calls == [1]
    with pytest.raises(CancellationError, match="the request was cancelled"):
        source.token.raise_if_cancelled()


def test_a_callback_on_a_cancelled_token_is_called_at_once() -> None:
    source = CancellationSource()
    source.cancel()
    calls: list[int] = []
    forget = source.token.on_cancel(lambda: calls.append(1))
    forget()
    assert calls == [1]


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    source = CancellationSource()
    calls: list[str] = []
    forget = source.token.on_cancel(lambda: calls.append("taken back"))
    source.token.on_cancel(lambda: calls.append("kept"))
    forget()
    forget()
    source.cancel()
    assert calls == ["kept"]


def test_the_same_callback_twice_is_two_callbacks() -> None:
    source = CancellationSource()
    calls: list[int] = []

    def callback() -> None:
        calls.append(1)

    forget = source.token.on_cancel(callback)
    source.token.on_cancel(callback)
    forget()
    source.cancel()
    assert calls == [1]


def test_a_callback_that_raises_keeps_no_other_from_stopping(caplog: pytest.LogCaptureFixture) -> None:
    source = CancellationSource()
    calls: list[str] = []

    def fails() -> None:
        raise RuntimeError("boom")

    source.token.on_cancel(lambda: calls.append("before"))
    source.token.on_cancel(fails)
    source.token.on_cancel(lambda: calls.append("after"))
    with caplog.at_level(logging.ERROR):
        source.cancel()
    assert calls == ["before", "after"]
    assert "a cancellation callback failed" in caplog.text


def test_a_callback_may_register_and_cancel() -> None:
    source = CancellationSource()
    calls: list[str] = []

    def callback() -> None:
        source.cancel()
        source.token.on_cancel(lambda: calls.append("inner"))
        calls.append("outer")

    source.token.on_cancel(callback)
    source.cancel()
    assert calls == ["inner", "outer"]


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("rejected", "rejected"),
        ("skipped", "an earlier one was rejected"),
        ("request", "the request was cancelled"),
    ],
)
def test_an_error_says_what_was_cancelled(scope: CancellationScope, words: str) -> None:
    error = CancellationError(scope)
    assert error.scope == scope
    assert error.reason is None
    assert words in str(error)
    assert str(CancellationError(scope, "not today")) == "not today"
    assert CancellationError(scope, "not today").reason == "not today"


async def test_wait_ends_with_the_cancellation() -> None:
    source = CancellationSource()
    waiting = [asyncio.ensure_future(source.token.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(waiter.done() for waiter in waiting)
    source.cancel()
    await within_deadline(asyncio.gather(*waiting))
    await within_deadline(source.token.wait())


async def test_wait_that_is_given_up_leaves_nothing_behind() -> None:
    source = CancellationSource()
    waiter = asyncio.ensure_future(source.token.wait())
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not source.token._callbacks
    source.cancel()


async def test_wait_survives_being_given_up_in_the_moment_of_the_cancellation() -> None:
    source = CancellationSource()
    waiter = asyncio.ensure_future(source.token.wait())
    await asyncio.sleep(0)
    waiter.cancel()
    source.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter


class _Work:
    """Work that waits to be cancelled, and cleans up over several steps."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.cleaned = False

    async def run(self) -> str:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.cleaned = True
        return "never"


async def test_work_that_finishes_keeps_its_result() -> None:
    source = CancellationSource()

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await within_deadline(until_cancelled(work(), source.token)) == 7
    assert not source.token._callbacks, "the token has forgotten about it"


async def test_work_that_had_finished_keeps_its_result_although_cancelled_since() -> None:
    source = CancellationSource()
    done = asyncio.get_running_loop().create_future()
    done.set_result(7)
    source.cancel()
    assert await within_deadline(until_cancelled(done, source.token)) == 7


async def test_work_that_finishes_by_cancelling_keeps_its_result() -> None:
    source = CancellationSource()

    async def work() -> int:
        source.cancel()
        return 7

    assert await within_deadline(until_cancelled(work(), source.token)) == 7


async def test_work_that_is_cancelled_is_waited_for() -> None:
    source = CancellationSource()
    work = _Work()
    waiting = asyncio.ensure_future(until_cancelled(work.run(), source.token))
    await within_deadline(work.began.wait())
    source.cancel()
    with pytest.raises(CancellationError) as caught:
        await within_deadline(waiting)
    assert work.cleaned
    assert caught.value.scope == "request"


async def test_work_never_begins_under_a_cancelled_token() -> None:
    source = CancellationSource()
    source.cancel()
    work = _Work()
    with pytest.raises(CancellationError):
        await within_deadline(until_cancelled(work.run(), source.token))
    assert not work.began.is_set()


async def test_work_that_fails_fails_as_it_does() -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await within_deadline(until_cancelled(work(), CancellationToken()))


async def test_work_that_refuses_to_stop_keeps_its_result() -> None:
    source = CancellationSource()
    began = asyncio.Event()

    async def work() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "all the same"
        return "never"

    waiting = asyncio.ensure_future(until_cancelled(work(), source.token))
    await within_deadline(began.wait())
    source.cancel()
    assert await within_deadline(waiting) == "all the same"


async def test_the_callers_own_cancellation_goes_on_upwards_and_the_work_is_waited_for() -> None:
    source = CancellationSource()
    work = _Work()
    waiting = asyncio.ensure_future(until_cancelled(work.run(), source.token))
    await within_deadline(work.began.wait())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_deadline(waiting)
    assert work.cleaned
    assert not source.token._callbacks


async def test_the_callers_own_cancellation_wins_over_the_tokens() -> None:
    source = CancellationSource()
    work = _Work()
    waiting = asyncio.ensure_future(until_cancelled(work.run(), source.token))
    await within_deadline(work.began.wait())
    source.cancel()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_deadline(waiting)


async def test_a_deadline_around_it_is_a_deadline() -> None:
    work = _Work()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await until_cancelled(work.run(), CancellationToken())


async def test_it_tells_the_tokens_cancellation_apart_while_its_caller_cleans_up() -> None:
    """A caller that was cancelled before, and cleans up, is not cancelled again by the token."""
    source = CancellationSource()
    began = asyncio.Event()
    seen: list[BaseException] = []

    async def caller() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            source.cancel()
            try:
                await until_cancelled(asyncio.Event().wait(), source.token)
            except BaseException as error:
                seen.append(error)

    task = asyncio.ensure_future(caller())
    await within_deadline(began.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_deadline(task)
    assert [type(error) for error in seen] == [CancellationError]


async def test_work_that_cancels_itself_is_not_taken_for_the_tokens() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await within_deadline(until_cancelled(work(), CancellationToken()))
