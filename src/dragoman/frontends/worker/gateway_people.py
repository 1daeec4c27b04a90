"""Which people gateways can reach, as a worker knows it. Pure: the caller gives the time.

A gateway says every few seconds about whose conversations people can decide there. One that has not said so for a while is
gone.
"""

from __future__ import annotations

from dragoman.fleet.console_messages import Presence
from dragoman.permissions.inbox import Reach

__all__ = ["PRESENT_SECONDS", "GatewayPeople"]

# A gateway says it every 5 seconds: three of these messages may be lost.
PRESENT_SECONDS = 16.0


class GatewayPeople:
    """The last message of each gateway."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[float, Presence]] = {}

    def take(self, presence: Presence, now: float) -> None:
        if not (presence.address or presence.advice):
            # There is no console any more.
            self._said.pop(presence.gateway, None)
            return
        self._said[presence.gateway] = now, presence

    def present(self, now: float) -> list[Presence]:
        """The gateways with a console that are there, the one to send people to first."""
        self._said = {name: said for name, said in self._said.items() if now - said[0] <= PRESENT_SECONDS}
        found = [presence for _, presence in self._said.values()]
        return sorted(found, key=lambda each: (not each.address, not _reaches_someone(each), each.gateway))

    def reach(self, now: float) -> Reach:
        there = self.present(now)
        connections = frozenset(each for presence in there for each in presence.connections)
        return Reach(any(each.everyone for each in there), connections)

    def caller(self, now: float) -> str:
        """The gateway that calls people who have no console open; "" if none does."""
        return next((each.gateway for each in self.present(now) if each.has_webhook), "")


def _reaches_someone(presence: Presence) -> bool:
    return presence.everyone or bool(presence.connections)
