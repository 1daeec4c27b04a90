"""Which worker gets a request."""

from __future__ import annotations

from dragoman.fleet.messages import Bid
from dragoman.fleet.placement import Place, WorkerChoice, choose


def _bid(node: str, turns: int = 0, **more: object) -> Bid:
    values: dict[str, object] = {"agents": turns, "max_agents": 4, **more}
    return Bid(node, "i", turns, **values)  # type: ignore[arg-type]


def test_a_conversation_goes_to_its_owner_whatever_others_bid() -> None:
    places = [Place("", "b"), Place("a", "a")]
    assert choose(places, ()).nodes == ("a",)
    assert choose(places, [_bid("c"), _bid("b", 3), _bid("a", is_full=True)]).nodes == ("a", "b", "c")


def test_a_free_conversation_goes_to_the_node_that_had_it_last_if_that_takes_requests() -> None:
    places = [Place("", "gone"), Place("", "b")]
    assert choose(places, [_bid("a"), _bid("b", 3)]).nodes == ("b", "a")
    assert choose(places, [_bid("a"), _bid("b", is_draining=True)]).nodes == ("a",)


def test_a_new_conversation_goes_to_the_worker_with_the_least_to_do() -> None:
    bids = [_bid("a", 2), _bid("b", 1), _bid("c", 1, memory_left=10), _bid("d", 1, agents=2)]
    assert choose([], bids).nodes == ("c", "b", "d", "a")


def test_requests_of_this_gateway_count_before_the_bids_do() -> None:
    assert choose([], [_bid("a"), _bid("b")], streams={"a": 1}).nodes == ("b", "a")


def test_a_worker_that_has_the_conversation_comes_first_even_if_it_drains() -> None:
    bids = [_bid("a"), _bid("b", is_draining=True, is_full=True, holds=True)]
    assert choose([], bids).nodes == ("b", "a")


def test_only_workers_with_all_labels_fit() -> None:
    bids = [_bid("a", labels=("gpu",)), _bid("b", labels=("gpu", "big"), max_agents=0)]
    assert choose([], bids, ["big", "gpu"]).nodes == ("b",)
    assert choose([], bids, ["small"]) == WorkerChoice()


def test_all_full_says_when_to_try_again_and_all_draining_is_nobody() -> None:
    full = [_bid("a", is_full=True, retry_after=5.0), _bid("b", is_full=True, retry_after=2.0)]
    assert choose([], full) == WorkerChoice(retry_after=2.0)
    assert choose([], [_bid("a", is_draining=True)]) == WorkerChoice()
