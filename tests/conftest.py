"""For every test: it closes its event loops, and a search is judged by what it finds, never by how long it takes.

`open_loops.py` has the check for event loops.

In a new clone the first text that Hypothesis makes takes it seconds, because it builds its table of characters; on a
busy machine anything may. What is slow is found in `bench/`.

How long is searched depends on the profile. `make test` takes `short`; `make test-long`, which runs every search again,
and everything else take `whole`. A search that has a number of examples of its own has it from `searching.examples`.
"""

import gc
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from open_loops import pytest_runtest_call, pytest_runtest_teardown
from searching import SHORT, SHORT_EXAMPLES, WHOLE

__all__ = ["pytest_collection", "pytest_runtest_call", "pytest_runtest_teardown"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests and their modules live until the end: looking among them for garbage takes a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


settings.register_profile(
    WHOLE, settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(SHORT, settings.get_profile(WHOLE), max_examples=SHORT_EXAMPLES)
settings.load_profile(WHOLE)
