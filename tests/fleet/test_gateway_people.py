"""Whom gateways reach, as a worker knows it."""

from __future__ import annotations

from dragoman.fleet.console_messages import Presence
from dragoman.frontends.worker.gateway_people import PRESENT_SECONDS, GatewayPeople
from dragoman.permissions.inbox import Reach


def _said(gateway: str, *connections: str, everyone: bool = False, has_webhook: bool = False) -> Presence:
    return Presence(
        gateway, everyone, connections, has_webhook, address=f"https://{gateway}/", advice="Open it."
    )


def test_people_of_all_gateways_count() -> None:
    people = GatewayPeople()
    assert people.reach(0.0) == Reach()
    people.take(_said("g1", "http:a"), 0.0)
    people.take(_said("g2", "http:b"), 1.0)
    assert people.reach(2.0) == Reach(connections=frozenset({"http:a", "http:b"}))
    people.take(_said("g2", everyone=True), 3.0)
    assert people.reach(3.0) == Reach(everyone=True, connections=frozenset({"http:a"}))


def test_a_gateway_that_says_nothing_for_a_while_is_gone() -> None:
    people = GatewayPeople()
    people.take(_said("g1", everyone=True), 10.0)
    assert people.reach(10.0 + PRESENT_SECONDS).everyone
    assert not people.reach(10.1 + PRESENT_SECONDS).everyone
    assert people.present(0.0) == []


def test_a_gateway_without_a_console_is_none() -> None:
    people = GatewayPeople()
    people.take(_said("g1", everyone=True), 0.0)
    people.take(Presence("g1"), 1.0)
    people.take(Presence("g2"), 1.0)
    assert people.present(1.0) == []


def test_people_are_sent_where_someone_is_and_one_gateway_calls() -> None:
    people = GatewayPeople()
    people.take(Presence("a", advice="It needs TLS."), 0.0)
    people.take(_said("b", has_webhook=True), 0.0)
    people.take(_said("c", "http:a", has_webhook=True), 0.0)
    assert [each.gateway for each in people.present(1.0)] == ["c", "b", "a"]
    assert people.caller(1.0) == "c"
    people.take(Presence("c"), 2.0)
    assert people.caller(2.0) == "b"
    assert GatewayPeople().caller(0.0) == ""
