"""Who has a conversation, whatever the wall clock says."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.conversations.lease import LEASE_SECONDS, free_abandoned, is_free, lease, own
from dragoman.store import ConversationStore, Database, Holding, StoredConversation

_DEAD = f"{2**22 + 17} long-ago"


def _shifted(seconds: float) -> Callable[[], float]:
    real = time.time
    return lambda: real() + seconds


@pytest.mark.parametrize("days", [-4_000, -1, 1, 4_000])
def test_setting_the_clock_ends_no_lease_and_makes_none_last(
    monkeypatch: pytest.MonkeyPatch, days: float
) -> None:
    before = lease()
    monkeypatch.setattr(time, "time", _shifted(days * 86_400))
    assert not is_free(Holding(own(), before, 1))
    assert abs(lease() - before) < LEASE_SECONDS
    # One that hangs loses it when its time is over, as always.
    assert is_free(Holding(own(), before - 2 * LEASE_SECONDS, 1))


def test_what_a_dead_process_holds_is_free_whatever_its_lease_says() -> None:
    """After a restart of the machine the clock of leases is behind those that were given before."""
    assert is_free(Holding(_DEAD, time.monotonic() + 10_000_000, 1))
    assert is_free(Holding("no process at all", time.monotonic() + 10_000_000, 1))
    assert is_free(Holding("", 0.0, 1))


def test_only_what_the_dead_hold_is_released(tmp_path: Path) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    with Database.open(tmp_path) as database:
        store = ConversationStore(database)
        for id_, owner in (("theirs", _DEAD), ("ours", own())):
            store.save(StoredConversation(id_, "m", "", "/", owner, when, b"", lease() + 10_000_000))
        free_abandoned(store)
        held = {each.id: each.owner for each in store.all()}
    assert held == {"theirs": "", "ours": own()}
