"""J4: the parts of a background response that are in memory."""

from hypothesis import given, strategies as st

from dragoman.frontends.http.part_window import PartWindow
from dragoman.lm import TextPart

_LIMIT, _LIMIT_UNSTORED = 1_000, 3_000


def _part(number: int) -> TextPart:
    return TextPart(str(number))


@given(st.lists(st.sampled_from(["add", "batch", "store", "shrink"]), max_size=200))
def test_j4_every_part_is_in_one_batch_and_what_is_left_is_the_latest(steps: list[str]) -> None:
    window = PartWindow()
    added = 0
    batched: list[TextPart] = []
    for step in steps:
        match step:
            case "add":
                window.add(_part(added))
                added += 1
            case "batch":
                batched.extend(part for part in window.batch() if isinstance(part, TextPart))
                assert (window.has_new, window.new_bytes) == (False, 0)
            case "store":
                window.mark_stored(len(batched))
            case _:
                window.shrink(_LIMIT, _LIMIT_UNSTORED)
        assert batched == [_part(number) for number in range(len(batched))]
        assert window.total == added
        assert window.has_new is (len(batched) < added)
        assert window.since(window.first) == [_part(number) for number in range(window.first, added)]
        assert window.first <= len(batched)


def test_j4_parts_that_are_not_stored_stay_longer() -> None:
    window = PartWindow()
    for number in range(100):
        window.add(_part(number))
    window.shrink(_LIMIT, _LIMIT_UNSTORED)
    assert window.first == 0
    window.batch()
    window.mark_stored(90)
    # A late report of an earlier write changes nothing.
    window.mark_stored(10)
    window.shrink(_LIMIT, _LIMIT_UNSTORED)
    assert 90 <= window.first < 100
    assert not window.has_lost
    for number in range(100):
        window.add(_part(number))
    window.batch()
    window.shrink(_LIMIT, _LIMIT_UNSTORED)
    assert window.has_lost
