"""The mapping from what real agents say to what a conversation hears of it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from devtools.traces.reading import method_of, read_trace

from dragoman.acp.content import TextBlock
from dragoman.acp.messages import ChunkUpdate, ToolActivity, decode_update
from dragoman.backends.agent.machine.types import AgentTurnEnded, Announced, Called, Spoke
from dragoman.lm import TextPart, ThinkingPart
from dragoman.lm.activity_text import Activities
from dragoman.lm.json import encode
from dragoman.traces.frames import Frame
from traces.goldens import TRACES, golden_of, told_of
from traces.listening import Told, listened

_ALL = [trace for traces in TRACES.values() for trace in traces]


@pytest.mark.parametrize("agent", TRACES)
def test_what_is_made_of_an_agents_traces_is_as_it_was_read(agent: str) -> None:
    assert told_of(agent) == golden_of(agent).read_text().split("\n")[:-1]


def test_no_golden_file_is_left_of_an_agent_without_traces() -> None:
    assert {path.stem for path in golden_of("").parent.iterdir()} == set(TRACES)


@pytest.mark.parametrize("trace", _ALL, ids=lambda trace: trace.stem)
def test_nothing_is_lost_and_nothing_is_told_twice(trace: Path) -> None:
    told, frames = listened(trace), read_trace(trace)
    _all_words_are_told(told, frames)
    _every_turn_ends(told, frames)
    _each_call_begins_and_ends_once(told, frames)
    calls = [event.pending.key for event in told.events if isinstance(event, Called)]
    assert len(calls) == len(set(calls))
    announced = Counter(event.key for event in told.events if isinstance(event, Announced) and not event.over)
    assert not [key for key, times in announced.items() if times > 1]


def _said(frames: tuple[Frame, ...]) -> list[ChunkUpdate | ToolActivity]:
    """By the agent, after a history that it told again."""
    begin = next(number for number, frame in enumerate(frames) if method_of(frame) == "session/prompt")
    updates = [
        decode_update(encode((frame.message or {})["params"])).update
        for frame in frames[begin:]
        if method_of(frame) == "session/update"
    ]
    return [update for update in updates if isinstance(update, ChunkUpdate | ToolActivity)]


def _all_words_are_told(told: Told, frames: tuple[Frame, ...]) -> None:
    words = [update for update in _said(frames) if isinstance(update, ChunkUpdate) and update.role == "agent"]
    wanted = "".join(chunk.content.text for chunk in words if isinstance(chunk.content, TextBlock))
    wanted = wanted.replace("/WS/", "/here/")
    spoken = [event.part for event in told.events if isinstance(event, Spoke)]
    assert "".join(part.value for part in spoken if isinstance(part, TextPart)) == wanted


def _every_turn_ends(told: Told, frames: tuple[Frame, ...]) -> None:
    prompts = [frame for frame in frames if method_of(frame) == "session/prompt"]
    assert sum(isinstance(event, AgentTurnEnded) for event in told.events) == len(prompts)


def _each_call_begins_and_ends_once(told: Told, frames: tuple[Frame, ...]) -> None:
    activities = [update for update in _said(frames) if isinstance(update, ToolActivity)]
    ids = {activity.tool_call_id for activity in activities}
    activities_told = Activities()
    thoughts = "".join(
        part.text
        for event in told.events
        if isinstance(event, Spoke)
        for part in activities_told.present(event.part, structured=False)
        if isinstance(part, ThinkingPart)
    )
    ended = {activity.tool_call_id for activity in activities if activity.status in ("completed", "failed")}
    own = sum(isinstance(event, Called) and event.pending.kind == "call" for event in told.events)
    assert len(re.findall(r"^[✓✗] ", thoughts, re.MULTILINE)) == len(ended) - own
    # One that has changed its name is told by both.
    named = {(activity.tool_call_id, activity.title) for activity in activities if activity.title}
    begun = [line for line in re.findall(r"^▸ .*", thoughts, re.MULTILINE) if not line.endswith(" …")]
    assert len(begun) <= len(named)
    # Gemini announces no call that it asks about.
    announced = {event.key for event in told.events if isinstance(event, Announced)}
    calls = [event.pending for event in told.events if isinstance(event, Called)]
    called = {pending.key for pending in calls if pending.kind == "call"}
    assert len(begun) >= len(ids) - len(announced | called)
