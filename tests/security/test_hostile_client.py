"""An HTTP client with a key of its own, against the server and its other clients."""

import pytest

from security.compaction_bombs import BOMBS, explode

# A server that has just started takes 50 to 60 MB. What a request may hold, unpacked and scanned, comes to this.
_MOST_MEGABYTES = 400


@pytest.mark.long
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_request_with_a_large_compaction_is_refused_and_its_memory_given_back(bomb: str) -> None:
    cost = explode(bomb)
    assert cost.sent < 1_000_000
    assert cost.status == 413
    assert cost.peak < _MOST_MEGABYTES
    assert cost.after < cost.before + 50
