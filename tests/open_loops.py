"""Fails a test that leaves an asyncio event loop open.

Without this check, Python warns when it collects the loop, and the warning fails another test that runs at that moment.
Only loops that the test itself made are looked at: those of fixtures may last longer than one test. The check does not
see loops of uvloop: they do not derive from `asyncio.BaseEventLoop`.
"""

import asyncio
import weakref
from collections.abc import Generator

import pytest

__all__ = ["pytest_runtest_call", "pytest_runtest_teardown"]

# Weak references: if Python collects an open loop during its test, the warning fails the right test.
_made: weakref.WeakSet[asyncio.BaseEventLoop] = weakref.WeakSet()
_make = asyncio.BaseEventLoop.__init__


def _make_and_record(self: asyncio.BaseEventLoop) -> None:
    _make(self)
    _made.add(self)


asyncio.BaseEventLoop.__init__ = _make_and_record  # type: ignore[assignment]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """What was made before is of fixtures, which close it when their scope ends."""
    _made.clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Check after the teardown of the test's fixtures, because they close loops, too."""
    try:
        yield
    finally:
        left = [loop for loop in _made if not loop.is_closed()]
        _made.clear()
        for loop in left:
            if not loop.is_running():
                loop.close()
        if left:
            pytest.fail(
                f"{item.nodeid} left event loops open ({len(left)}): close them in a `finally`", pytrace=False
            )
