"""Observations of agents: stored, read again, and never a reason to fail."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from dragoman.acp.messages import AgentInfo
from dragoman.backends.agent.profile.observations import AgentName, Observations, Observed, name_of

_AGENT = AgentName("some-agent", "1.2")


class _Memory:
    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], bytes] = {}
        self.fails = False

    def read(self, name: str, version: str) -> bytes | None:
        self._check()
        return self.rows.get((name, version))

    def update(self, name: str, version: str, change: Callable[[bytes | None], bytes]) -> None:
        self._check()
        self.rows[name, version] = change(self.rows.get((name, version)))

    def _check(self) -> None:
        if self.fails:
            raise OSError("the disk is full")


def test_it_is_read_again_by_name_and_version() -> None:
    memory = _Memory()
    Observations(memory).note(_AGENT, lists=True, history="late")
    assert Observations(memory).of(_AGENT) == Observed(lists=True, history="late")
    assert Observations(memory).of(AgentName("some-agent", "1.3")) == Observed()


def test_what_is_no_news_is_not_written() -> None:
    memory = _Memory()
    observations = Observations(memory)
    observations.note(_AGENT, lists=True)
    memory.rows[_AGENT] += b" "
    kept = memory.rows[_AGENT]
    observations.note(_AGENT, lists=True)
    assert memory.rows[_AGENT] == kept


def test_what_two_processes_learn_is_put_together() -> None:
    memory = _Memory()
    one, other = Observations(memory), Observations(memory)
    assert one.of(_AGENT) == other.of(_AGENT) == Observed()
    one.note(_AGENT, history="unusable")
    other.note(_AGENT, lists=True)
    assert one.of(_AGENT) == other.of(_AGENT) == Observed(lists=True, history="unusable")


def test_without_a_memory_it_is_known_in_this_process() -> None:
    observations = Observations()
    observations.note(_AGENT, lists_again=False)
    assert observations.of(_AGENT).lists_again is False


def test_a_memory_that_fails_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    memory = _Memory()
    memory.fails = True
    observations = Observations(memory)
    with caplog.at_level(logging.WARNING):
        assert observations.of(_AGENT) == Observed()
        observations.note(_AGENT, lists=False)
        assert observations.of(_AGENT).lists is False
    assert {record.message.rpartition(": ")[2] for record in caplog.records} == {"the disk is full"}


def test_what_cannot_be_read_is_nothing() -> None:
    memory = _Memory()
    memory.rows[_AGENT] = b'{"lists": "perhaps"}'
    assert Observations(memory).of(_AGENT) == Observed()


def test_an_agent_is_known_by_its_name_and_command_and_shows_none_of_its_arguments() -> None:
    named = name_of(AgentInfo("a" * 200, None, "2"), ("x",))
    assert named.name.startswith("a" * 100 + " #")
    assert named.version == "2"
    # Another program that gives itself the same name is another agent.
    assert named != name_of(AgentInfo("a" * 200, None, "2"), ("y",))
    nameless = name_of(None, ("/opt/agent", "--key", "secret"))
    assert nameless == name_of(AgentInfo(), ("/opt/agent", "--key", "secret"))
    assert nameless != name_of(None, ("/opt/agent", "--key", "another"))
    assert nameless.name.startswith("agent #")
    assert "secret" not in str(nameless)


@pytest.mark.parametrize(
    ("learnt", "says"),
    [
        (Observed(), ""),
        (Observed(lists=True, lists_again=True), "looks at changed tools while it runs"),
        (Observed(lists=False, lists_again=False), "restarted for them"),
        (Observed(tool_limit_seconds=59.7), "after 60 seconds"),
        (Observed(history="before"), "before it answers"),
        (Observed(history="late"), "after its answer, so Dragoman waits for its end"),
        (Observed(history="none"), "does not send the history"),
        (Observed(history="unusable"), "not loaded"),
    ],
)
def test_each_is_said_to_a_person(learnt: Observed, says: str) -> None:
    sentences = list(learnt.sentences)
    assert says in " ".join(sentences)
    assert len(sentences) == sum(getattr(learnt, name) is not None for name in learnt.__struct_fields__)
