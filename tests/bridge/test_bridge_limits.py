"""F10, F11, F16 and B: much of everything, and for a long time."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from bridge.consumer import Bridge, result
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.settings import AgentSettings, Timing
from dragoman.backends.agent.profile.traits import traits_of
from dragoman.backends.agent.reply.backlog import PROGRESS_BYTES
from dragoman.lm import DataPart, GuardedModel, ModelInfo, user
from dragoman.permissions.action import PERMISSION_TOOLS
from fake_agent.steps import COMMAND, open_gate, prompt, raw
from process.living import alive
from virtual_clock import VirtualClock
from vscode.editor import Chat as EditorChat, editor_in

pytestmark = pytest.mark.long

_ASK = ["ask", {"toolCallId": "p", "title": "Run it", "kind": "execute"}, ["allow_once", "reject_once"]]
_MEGABYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("line", "logged"),
    [
        (raw(b'[{"jsonrpc": "2.0"}]\n'), "batches are not supported"),
        (raw(b"42\n"), "not a JSON object ('42')"),
        (raw(b'{"jsonrpc": "2.0", "method": "\xff\xfe"}\n'), "UTF-8"),
        (["long", 100 * _MEGABYTE], f"{100 * _MEGABYTE:,}"),
    ],
    ids=["a JSON array", "a number", "invalid UTF-8", "100 MB"],
)
async def test_f10_each_is_logged_and_the_lines_around_it_are_served(
    bridge: Bridge, line: list[object], logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    chat = bridge.chat()
    with caplog.at_level(logging.WARNING):
        answer = await chat.do(["say", "before "], line, ["say", "after"])
    assert answer.text == "before after"
    assert logged in caplog.text
    await chat.echo()
    assert len(bridge.pids) == 1


async def test_f11_an_editor_that_does_not_read_holds_the_agent_and_then_has_all_of_it(
    tmp_path: Path,
) -> None:
    flood = 10_000
    (tmp_path / "slow").mkdir()
    (tmp_path / "quick").mkdir()
    async with editor_in(tmp_path / "slow") as (slow, _), editor_in(tmp_path / "quick") as (quick, _):
        answer = EditorChat(slow, "fake").begin(prompt(["say", "so: "], ["gate", "on"], ["flood", flood]))
        await answer.until(lambda answer: answer.text)
        slow.peer.pause_reading("the window is busy")
        open_gate(tmp_path / "slow", "on")
        # In the time that another needs for as much, its agent does not get rid of it.
        other = await EditorChat(quick, "fake").say(prompt(["say", "so: "], ["flood", flood]))
        assert '"flooded"' in (tmp_path / "quick" / "journal").read_text()
        assert '"flooded"' not in (tmp_path / "slow" / "journal").read_text()
        slow.peer.resume_reading("the window is busy")
        assert (await answer.settled()).text == other.text
        assert other.text == "so: " + "".join(f"{number} " for number in range(flood))


async def test_f16_orphans_between_other_lines_lose_none_of_them(bridge: Bridge) -> None:
    chat = bridge.chat()
    high, low = 0xD83D, 0xDE00
    answer = await chat.do(
        ["halves", [low, 0x61], [high], [0x62], [high, high], [low]], ["think", "hm"], ["say", "c"]
    )
    orphan = "\N{REPLACEMENT CHARACTER}"
    assert answer.text == f"{orphan}a{orphan}b{orphan}\N{GRINNING FACE}c"
    assert answer.thinking == "hm"


async def test_b3_calls_permissions_and_pictures_are_kept_beyond_the_limit_of_progress(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    thoughts = [["think", "z" * (PROGRESS_BYTES // 4)] for _ in range(6)]
    picture = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "mimeType": "image/png", "data": "iVBORw=="},
    }
    calls = ["all", [["call", "count", {}], _ASK, ["row", [["update", picture], ["say", "[kept]"]]]]]
    late = ["row", [["gate", "later"], *thoughts, calls]]
    asked = await chat.do(["all", [["call", "look", {}], late]])
    assert [call.name for call in asked.calls] == ["look"]
    bridge.open_gate("later")
    await bridge.until_kept("[kept]")
    await bridge.until_pending(3)
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert "left out" in answer.thinking
    assert len(answer.thinking) < 2 * PROGRESS_BYTES
    assert [part.data for part in answer.parts if isinstance(part, DataPart) and not part.is_internal] == [
        b"\x89PNG"
    ]
    assert "[kept]" in answer.text
    assert {call.name for call in answer.calls} == {"count", PERMISSION_TOOLS["execute"]}


def _on(clock: VirtualClock, bridge: Bridge, timing: Timing, folder: Path) -> AgentModel:
    """The model of this bridge, in a time that the test lets pass."""
    command = (*COMMAND, f'{{"folder": "{folder}"}}')
    settings = AgentSettings("fake", "Fake", command, {}, folder, traits_of("demo"), timing)
    info = ModelInfo("fake", "Fake", "fake", "1", 100_000, 10_000)
    model = AgentModel(info, settings, permissions=bridge.permissions, clock=clock)
    bridge.model = GuardedModel(model)
    return model


@pytest.mark.parametrize("step", [["call", "look", {}], _ASK], ids=["a result", "a permission"])
async def test_b5_waiting_for_a_person_outlives_idleness_and_ends_at_its_own_limit(
    bridge: Bridge, step: list[object], tmp_path: Path
) -> None:
    clock, timing = VirtualClock(), Timing(idle=30 * 60, human=240 * 60)
    _on(clock, bridge, timing, tmp_path)
    chat = bridge.chat()
    going = chat.begin(user(prompt(["announce", "1", "look"], ["announce", "2", "count"], step)))
    await bridge.until_pending(1)
    clock.advance(timing.gather_limit)
    assert len((await going.end()).calls) == 1

    # Eight times as long as an idle agent is kept, and one second less than a person has.
    clock.advance(timing.human - 1)
    await asyncio.sleep(0)
    assert alive(bridge.pids) == bridge.pids
    await bridge.until_pending(1)
    clock.advance(1)
    await bridge.until_noted("session/cancel")
    await bridge.until_idle()
    # From here on it is idle as any other.
    clock.advance(timing.idle)
    await bridge.until_parked()
    assert len(bridge.noted("session/cancel")) == 1


async def test_an_agent_that_is_lent_is_not_idle(bridge: Bridge, tmp_path: Path) -> None:
    clock, timing = VirtualClock(), Timing(idle=30 * 60)
    _on(clock, bridge, timing, tmp_path)
    await bridge.chat().say("hello")
    title = bridge.aside().begin(user(prompt(["say", "A fine "], ["gate", "on"], ["say", "title"])))
    await title.until(lambda heard: heard.text)
    clock.advance(timing.idle)
    await asyncio.sleep(0)
    assert alive(bridge.pids) == bridge.pids
    bridge.open_gate("on")
    assert (await title.end()).text == "A fine title"
    assert len(bridge.pids) == 1
    clock.advance(timing.idle)
    await bridge.until_parked()


async def test_b6_a_side_request_while_the_agent_speaks_borrows_it_and_disturbs_nothing(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(close=True)
    going = chat.begin(user(prompt(["say", "one "], ["gate", "on"], ["say", "two"])))
    await going.until(lambda heard: heard.text)
    title = await bridge.aside().do(["say", "A fine title"])
    assert title.text == "A fine title"
    cancelled = bridge.aside().begin(user(prompt(["say", "Another"], ["hang"])))
    await cancelled.until(lambda heard: heard.text)
    assert (await cancelled.cancel()).text == "Another"
    # Both sessions are closed, also that of the one that was stopped; the conversation's own is not.
    await bridge.until_noted("session/close", 2)
    sessions = [note["sessionId"] for note in bridge.noted("session/prompt")]
    assert [note["sessionId"] for note in bridge.noted("session/close")] == sessions[1:]
    assert [note["sessionId"] for note in bridge.noted("session/cancel")] == sessions[2:]
    bridge.open_gate("on")
    assert (await going.end()).text == "one two"
    assert len(bridge.pids) == 1
