"""C: whoever stops has stopped, and the next prompt gets its own answer."""

import asyncio
import sys
from pathlib import Path

import pytest

from bridge.consumer import Bridge, soon
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.toolserver import Endpoint
from dragoman.lm import user
from dragoman.lm.parts import ToolResult
from dragoman.process import Ledger, ProcessIdentity
from fake_agent.steps import prompt


async def test_c1_cancel_while_the_agent_starts(bridge: Bridge) -> None:
    chat = bridge.chat()
    going = chat.begin(user("never heard"))
    await bridge.until_noted("started")
    answer = await going.cancel()
    assert answer.text == ""
    heard = await chat.echo()
    # It was said, and the agent was never told to stop anything.
    assert "never heard" in " ".join(heard)
    assert bridge.noted("session/cancel") == []
    assert len(bridge.pids) == 1


async def test_c7_an_agent_that_ignores_the_cancel_is_replaced(bridge: Bridge) -> None:
    chat = bridge.chat(timing=Timing(grace=0.2))
    going = chat.begin(user(prompt(["say", "forever "], ["deaf"])))
    await going.until(lambda heard: heard.text)
    answer = await going.cancel()
    assert answer.text == "forever "
    heard = await chat.echo()
    assert "forever" in " ".join(heard)
    assert len(bridge.pids) == 2
    assert len(bridge.noted("session/cancel")) == 1


async def test_c8_a_prompt_before_the_cancelled_turn_has_stopped_waits_for_its_stop(bridge: Bridge) -> None:
    chat = bridge.chat()
    going = chat.begin(user(prompt(["slow_stop", "stopped"], ["say", "old "], ["hang"])))
    await going.until(lambda heard: heard.text)
    await going.cancel()
    following = chat.begin(user("the new one"))
    await bridge.until_noted("session/cancel")
    assert len(bridge.noted("session/prompt")) == 1
    bridge.open_gate("stopped")
    answer = await following.end()
    assert answer.text == 'echo: ["the new one"]'
    assert len(bridge.noted("session/cancel")) == 1


async def test_c9_words_of_the_old_turn_are_not_credited_to_the_new_one(bridge: Bridge) -> None:
    chat = bridge.chat()
    late = ["row", [["gate", "late"], ["say", "old news"], ["note", "said"]]]
    going = chat.begin(user(prompt(["slow_stop", "stopped"], ["say", "old "], late, ["hang"])))
    await going.until(lambda heard: heard.text)
    await going.cancel()
    following = chat.begin(user("the new one"))
    await bridge.until_noted("session/cancel")
    bridge.open_gate("late")
    await bridge.until_noted("said")
    bridge.open_gate("stopped")
    answer = await following.end()
    assert answer.text == 'echo: ["the new one"]'


async def test_i7_closing_while_an_agent_starts_does_not_wait_for_it(bridge: Bridge) -> None:
    chat = bridge.chat(start="hang")
    going = chat.begin(user("hello"))
    await bridge.until_noted("initialize")
    await bridge.close()
    await soon(going.task)


_STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
)


async def test_c1_a_request_that_waits_for_what_a_crash_left_behind_is_stopped_at_once(
    bridge: Bridge, tmp_path: Path
) -> None:
    left = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", _STUBBORN, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    gone = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    try:
        assert left.stdout is not None
        await soon(left.stdout.readline())
        process, owner = ProcessIdentity.of(left.pid), ProcessIdentity.of(gone.pid)
        assert process is not None
        assert owner is not None
        ledger = Ledger(tmp_path / "ledger")
        # As a process of ours would have written it that is dead by now.
        ledger._owner = owner
        ledger.record(process, ("an-agent",))
        gone.kill()
        await gone.wait()
        chat = bridge.chat(configured={"ledger": Ledger(tmp_path / "ledger")})
        going = chat.begin(user("first"))
        await asyncio.sleep(0)
        await going.cancel()
        assert process.lives()
        await chat.echo()
        assert not process.lives()
    finally:
        for each in (left, gone):
            if each.returncode is None:
                each.kill()
                await each.wait()


@pytest.mark.parametrize("http", [True, False])
async def test_c4_a_call_that_the_agent_withdraws_when_it_is_stopped_gets_no_result(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch, *, http: bool
) -> None:
    """A result that crosses the withdrawal is one for an unknown request. Qwen Code then takes its connection for broken."""
    answers: asyncio.Queue[bool] = asyncio.Queue()
    answer = Endpoint.answer

    def noted(endpoint: Endpoint, key: str, given: ToolResult) -> bool:
        is_taken = answer(endpoint, key, given)
        answers.put_nowait(is_taken)
        return is_taken

    monkeypatch.setattr(Endpoint, "answer", noted)
    chat = bridge.chat(http=http)
    asked = await chat.do(["call", "look", {}], ["say", "not said"])
    assert [call.name for call in asked.calls] == ["look"]
    # Without the result: the person has stopped it.
    await chat.echo()
    assert await soon(answers.get()) is False
