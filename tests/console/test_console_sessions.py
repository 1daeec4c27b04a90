"""Sessions in memory: their secrets, their ends, and who is reachable."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.frontends.console.sessions import (
    ConsoleScope,
    ConsoleSession,
    ConsoleSessions,
)

ALICE = ConsoleScope("alice", "http:a")
MONTH = 30 * 24 * 3600.0


@dataclass
class Clock:
    at: float = 1_000_000.0

    def __call__(self) -> float:
        return self.at


def test_memory_has_no_secret_of_a_session() -> None:
    sessions = ConsoleSessions()
    new = sessions.new("phone", "decide", ConsoleScope())
    assert new.cookie not in repr(sessions)
    assert new.token not in repr(sessions)
    assert new.cookie != new.token
    assert min(len(new.cookie), len(new.token)) >= 43


def test_a_session_that_was_not_used_for_a_month_ends() -> None:
    clock = Clock()
    sessions = ConsoleSessions(clock)
    new = sessions.new("phone", "decide", ConsoleScope())
    for _ in range(3):
        clock.at += MONTH
        assert sessions.find(new.cookie, new.token) is new.session
    clock.at += MONTH + 1
    assert sessions.find(new.cookie, new.token) is None
    assert sessions.all() == ()


def test_beyond_the_limit_the_session_that_was_unused_for_longest_ends() -> None:
    clock = Clock()
    ended: list[ConsoleSession] = []
    sessions = ConsoleSessions(clock, on_end=ended.append)
    first, second = (sessions.new(name, "watch", ConsoleScope()) for name in ("first", "second"))
    clock.at += 1
    sessions.find(first.cookie, first.token)
    for number in range(63):
        sessions.new(str(number), "watch", ConsoleScope())
    assert ended == [second.session]
    assert len(sessions.all()) == 64


def test_an_end_is_reported_once() -> None:
    ended: list[ConsoleSession] = []
    changes: list[int] = []
    sessions = ConsoleSessions(on_change=lambda: changes.append(1), on_end=ended.append)
    session = sessions.new("x", "decide", ConsoleScope()).session
    assert sessions.end(session.id)
    assert not sessions.end(session.id)
    assert ended == [session]
    assert len(changes) == 2
