"""The table of the machine, walked: every row, every phase it leads to, and everything that is not in it."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from devtools import diagram

from dragoman.backends.agent.machine.machine import PHASES, TABLE, IllegalEvent, Phase, State, give_up, handle
from dragoman.backends.agent.machine.types import (
    AgentExited,
    AgentStarted,
    AgentTurnEnded,
    AgentUnfit,
    Announced,
    Called,
    CallWithdrawn,
    Decided,
    Granted,
    MachineEvent,
    Noticed,
    Pending,
    Refused,
    ReplyCancelled,
    ReplyDetached,
    ReplyVerdict,
    Requested,
    Spoke,
    Steered,
    StopAgent,
    Timer,
    TimerPassed,
    TurnStopped,
    Unmet,
)
from dragoman.lm import LanguageModelError, TextPart, ToolCallPart, user
from dragoman.lm.parts import ToolResult

PAGE = Path(__file__).parents[2] / "docs/machine.md"
GONE = LanguageModelError("agent_failed", "The agent is gone.")
CALL = Pending("k1", "call", ToolCallPart("dg_1", "look", {}))
ASK = Pending("p1", "permission", ToolCallPart("dg_p1", "dragoman-agent-action-read", {}))
AT_CONSOLE = Pending(
    "p2", "permission", ToolCallPart("dg_p2", "dragoman-agent-action-read", {}), at_console=True
)
SAYS = (user("so"),)
UNMET = Unmet((user("again"),), LanguageModelError("agent_failed", "No form."))
EVENTS: tuple[MachineEvent, ...] = (
    Requested(1),
    Requested(1, prompt=SAYS),
    Requested(1, {"dg_1": ToolResult((TextPart("seen"),)), "dg_p1": Granted()}),
    Requested(1, {}, SAYS, cancels=True),
    Requested(1, prompt=SAYS, unmet=UNMET),
    ReplyCancelled(1),
    ReplyCancelled(9),
    AgentStarted(),
    AgentStarted(steers=True),
    AgentExited(GONE),
    Spoke(TextPart("word")),
    Noticed(TextPart("notice")),
    Announced("a"),
    Announced("a", over=True),
    Called(CALL),
    Called(CALL, "a"),
    Called(ASK),
    Called(AT_CONSOLE),
    Decided("p2", Granted()),
    Decided("unknown", Refused()),
    ReplyDetached(1, (TextPart("bye"),)),
    ReplyDetached(9, ()),
    TurnStopped(TextPart("stopped")),
    CallWithdrawn("k1"),
    CallWithdrawn("p2"),
    CallWithdrawn("unknown"),
    AgentUnfit(SAYS),
    Steered(1, taken=True),
    Steered(1, taken=False),
    Steered(9, taken=True),
    AgentTurnEnded(),
    AgentTurnEnded((TextPart("bye"),), GONE),
    AgentTurnEnded(verdict=ReplyVerdict(1, (TextPart("{}"),))),
    AgentTurnEnded(verdict=ReplyVerdict(1, unmet=UNMET)),
    *(TimerPassed(timer) for timer in get_args(Timer)),
)
# Of each list of a state. Two is enough for every combination of what the state is made of: more of the same changes
# nothing. One is enough for every phase, and takes a tenth of the time.
MANY = pytest.mark.parametrize("many", [1, pytest.param(2, marks=pytest.mark.long)])


@cache
def reachable(many: int) -> tuple[State, ...]:
    """All states that a conversation can come to, up to this length of its lists."""
    found = {repr(State()): State()}
    edge = [State()]
    while edge:
        state = edge.pop()
        for event in EVENTS:
            if (state.phase, type(event)) not in TABLE:
                continue
            after, _ = handle(state, event)
            sizes = (after.pending, after.orphaned, after.queue)
            if after is state or any(len(size) > many for size in sizes):
                continue
            if (key := repr(after)) not in found:
                found[key] = after
                edge.append(after)
    return tuple(found.values())


@pytest.mark.long
def test_every_row_is_walked_and_leads_to_every_phase_it_names() -> None:
    led: dict[tuple[Phase, type[MachineEvent]], set[Phase]] = defaultdict(set)
    for state in reachable(2):
        for event in EVENTS:
            if (state.phase, type(event)) in TABLE:
                after, _ = handle(state, event)
                led[state.phase, type(event)].add(after.phase)
    assert dict(led) == {row: set(TABLE[row].leads_to) for row in TABLE}


def _refusal(state: State, event: MachineEvent) -> IllegalEvent | None:
    """Without `pytest.raises`: tens of thousands of times it takes longer than all the rest."""
    try:
        handle(state, event)
    except IllegalEvent as refused:
        return refused
    return None


@MANY
def test_every_illegal_pair_raises_and_changes_nothing(many: int) -> None:
    illegal = {(phase, type(event)) for phase in PHASES for event in EVENTS} - TABLE.keys()
    tried = set()
    for state in reachable(many):
        before = repr(state)
        for event in EVENTS:
            if (state.phase, type(event)) in illegal:
                caught = _refusal(state, event)
                assert caught is not None, f"{event} was taken in {state}"
                assert (caught.phase, caught.event) == (state.phase, event)
                assert f"{type(event).__name__} cannot happen while {state.phase}" in str(caught)
                tried.add((state.phase, type(event)))
        assert repr(state) == before
    assert tried == illegal


def test_every_phase_and_event_is_decided() -> None:
    assert set(PHASES) == {phase for phase, _ in TABLE}
    assert set(get_args(MachineEvent)) == {event for _, event in TABLE} == {type(event) for event in EVENTS}


def test_what_only_a_running_agent_can_do_is_legal_only_while_it_runs() -> None:
    for phase in ("Parked", "Dead"):
        assert {event for where, event in TABLE if where == phase} == {
            Requested,
            ReplyCancelled,
            TimerPassed,
            CallWithdrawn,
            Decided,
            ReplyDetached,
            TurnStopped,
        }
    assert {phase for phase, event in TABLE if event is AgentTurnEnded} == {
        "Streaming",
        "Awaiting",
        "Cancelling",
    }
    assert {phase for phase, event in TABLE if event is AgentStarted} == {"Starting"}


@MANY
def test_a_reply_is_open_where_the_prose_says_so(many: int) -> None:
    for state in reachable(many):
        match state.phase:
            case "Idle" | "Awaiting" | "Parked" | "Dead":
                assert state.reply is None
            case "Streaming":
                assert state.reply is not None
        assert state.gathering <= (state.phase == "Streaming")
        assert state.reply is not None or state.unmet is None
        assert not state.asked_again or state.reply is not None
        assert not state.pending or state.phase in ("Idle", "Streaming", "Awaiting")
        assert not state.orphaned or state.phase == "Dead"
        assert not any(call.at_console and call.handed_over for call in (*state.pending, *state.orphaned))
        assert not state.unacknowledged_prompt or (state.phase == "Streaming" and state.silent)
        assert not state.silent or state.phase in ("Streaming", "Cancelling")
        assert not state.unacknowledged_results or state.phase == "Streaming"
        assert state.steering is None or (state.steers and state.phase in ("Streaming", "Awaiting"))


@MANY
def test_i1_what_cannot_be_carried_out_is_given_up_from_every_state_and_the_next_request_starts_anew(
    many: int,
) -> None:
    for state in reachable(many):
        after, commands = give_up(state)
        assert StopAgent() in commands
        assert (
            after.phase,
            after.is_busy,
            after.has_backlog,
            after.unacknowledged_prompt,
            after.unacknowledged_results,
            after.steering,
        ) == (
            *("Dead", False, False),
            *((), (), None),
        )
        assert [call for call in state.pending if call.handed_over] == [
            *after.orphaned[len(state.orphaned) :]
        ]
        assert handle(after, Requested(1, prompt=SAYS))[0].phase == "Starting"


def test_a_row_that_led_astray_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = TABLE["Parked", Requested]
    monkeypatch.setitem(TABLE, ("Parked", Requested), type(row)(row.handler, frozenset({"Dead"})))
    with pytest.raises(AssertionError, match="Requested led from Parked to Starting"):
        handle(State(), Requested(1, prompt=SAYS))


def test_the_page_is_drawn_from_the_table() -> None:
    """If this fails: `python -m devtools.diagram docs/machine.md`."""
    assert PAGE.read_text("utf-8") == diagram.drawn()


def test_the_page_has_every_row_and_every_arrow() -> None:
    page = diagram.drawn()
    assert page.count("\n| `") == len(TABLE)
    arrows = {
        (before, after) for (before, _), row in TABLE.items() for after in row.leads_to if before != after
    }
    assert page.count(" --> ") == len(arrows) + 1
    assert "    Awaiting --> Cancelling: Requested, TurnStopped, TimerPassed\n" in page
    assert all(row.handler.__doc__ for row in TABLE.values())


def test_the_page_is_written_where_it_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diagram.main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text("utf-8") == diagram.drawn()
    assert diagram.main([]) == 2
    assert "usage" in capsys.readouterr().err
