"""Until when a gateway believes in a worker: arithmetic, with a clock that the test moves."""

from __future__ import annotations

from hypothesis import given, strategies as st

from dragoman.backends.remote.validity import Validity


def test_seconds_count_from_when_the_question_was_sent() -> None:
    validity = Validity.heard(100.0, 16.0)
    assert validity.seconds_left(101.0) == 15.0
    assert validity.seconds_left(116.0) == 0.0


def test_an_answer_that_comes_late_takes_nothing_back() -> None:
    validity = Validity.heard(100.0, 16.0)
    validity.extend(104.0, 14.0)
    assert validity.until == 118.0
    validity.extend(101.0, 15.0)
    assert validity.until == 118.0


# Eighths of a second: their sums are exact.
_TIMES = st.integers(0, 72).map(lambda count: count / 8)


@given(
    st.lists(st.tuples(_TIMES, _TIMES, st.booleans(), st.booleans()), min_size=1, max_size=30),
)
def test_n2_a_gateway_never_believes_in_a_worker_for_longer_than_the_worker_itself_does(
    steps: list[tuple[float, float, bool, bool]],
) -> None:
    """Pings take their time in both directions, or are lost; the worker renews its lease, or does not."""
    now, fence = 0.0, 16.0
    validity = Validity.heard(now, fence)
    for way, back, renews, is_lost in steps:
        sent_at = now
        now += way
        if renews and now < fence:
            fence = max(fence, now + 16.0)
        left = fence - now
        now += back
        if not is_lost:
            validity.extend(sent_at, left)
        assert validity.until <= fence
