"""Permission requests and decisions in words. Pure."""

from __future__ import annotations

from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.permissions.question import in_one_line, what_in_one_line
from dragoman.permissions.record import By

__all__ = [
    "at_console",
    "decision_in_words",
    "permission_in_words",
    "who_decided",
    "whole_decision_in_words",
]

_CONSOLE = "console: "

_BY: dict[By, str] = {
    "person": "by a person",
    "approval": "by an approval",
    "rule": "by a rule",
    "read-only": "because it only reads",
    "setting": "by a setting",
    "mode": "by a mode of the chat",
    "unasked": "because no person could be asked",
    "client": "by the client, which asked no one",
    "timeout": "because no one decided in time",
    "limit": "because too many requests were open",
    "end": "because the turn ended",
}


def permission_in_words(event: PermissionRequested, *, names_agent: bool = True) -> str:
    """The action on one line, with the agent that asks unless that stands beside it."""
    if event.action is None:
        return f"{event.tool} ({event.risk})"
    if event.action.kind == "tool":
        return f"{event.tool}: {event.action.title}"
    return in_one_line(event.action) if names_agent else what_in_one_line(event.action)


def at_console(device: str) -> str:
    """`PermissionDecided.where` of a person's decision at the console, on the device of this name."""
    return f"{_CONSOLE}{device}"


def who_decided(event: PermissionDecided) -> str:
    """The device at the console, or the front end where a person decided; or what decided instead of a person."""
    return event.where.removeprefix(_CONSOLE) if event.by == "person" else event.by


def decision_in_words(event: PermissionDecided) -> str:
    allowed = "allowed" if event.is_allowed else "refused"
    why = f": {event.why}" if event.why else ""
    made = f", who made the rule at {event.new_rule}" if event.new_rule else ""
    return f"{allowed} {_BY[event.by]}{why}{made}"


def whole_decision_in_words(event: PermissionDecided) -> str:
    """The same, with where it was made, and how long that took."""
    return f"{decision_in_words(event)}, at the {event.where}, after {event.seconds:.1f} s"
