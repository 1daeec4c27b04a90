"""C, F and I: stopped, broken or closed in every state a turn can be in, and each time the next prompt is answered."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bridge.consumer import TOOLS, Bridge, Chat, Going, result, soon
from dragoman.backends.agent.profile.settings import Timing
from dragoman.lm import LanguageModelError, user
from fake_agent.steps import COMMAND, prompt
from process.living import all_gone

pytestmark = pytest.mark.long

_ASK: list[object] = [
    "ask",
    {"toolCallId": "p", "title": "Run it", "kind": "execute"},
    ["allow_once", "reject_once"],
]
# The agent heeds a cancel only when this gate is opened: whatever settles before does not wait for it.
_SLOW = ["slow_stop", "stopped"]
# For a shell: the first time one thing, from then on the agent.
_AT_FIRST = 'if [ -e "$0.tried" ]; then exec "$@"; fi; : > "$0.tried"; '
_LATER = 'while [ ! -e "$0" ]; do sleep 0.01; done; exec "$@"'

Reached = Callable[[Bridge], Awaitable[tuple[Chat, Going]]]


def _shell(bridge: Bridge, script: str, **options: object) -> tuple[str, ...]:
    """The fake agent, started by a script that has a file name for itself in `$0`."""
    arguments = json.dumps({"folder": str(bridge.folder), **options})
    return ("/bin/sh", "-c", script, str(bridge.folder / "go"), *COMMAND, arguments)


# Each state, and the request that is open in it. Of one that has ended the cancel comes too late, as an editor's may.


async def _starting(bridge: Bridge) -> tuple[Chat, Going]:
    chat = bridge.chat(command=_shell(bridge, _LATER))
    going = chat.begin(user("first"))
    await bridge._until(lambda each: each.state.phase == "Starting")
    return chat, going


async def _silent(bridge: Bridge) -> tuple[Chat, Going]:
    chat = bridge.chat()
    going = chat.begin(user(prompt(_SLOW, ["note", "began"], ["hang"])))
    await bridge.until_noted("began")
    return chat, going


async def _held(bridge: Bridge) -> tuple[Chat, Going]:
    """The tools have changed, and the agent has not looked at them yet."""
    chat = bridge.chat(tools=TOOLS[:1], relists=False, timing=Timing(list_again=1.0))
    await chat.say("hello")
    chat.tools = TOOLS
    going = chat.begin(user(prompt(_SLOW, ["hang"])))
    await bridge.until_streaming()
    return chat, going


async def _speaking(bridge: Bridge) -> tuple[Chat, Going]:
    chat = bridge.chat()
    going = chat.begin(user(prompt(_SLOW, ["say", "old "], ["hang"])))
    await going.until(lambda heard: heard.text)
    return chat, going


async def _gathering(bridge: Bridge) -> tuple[Chat, Going]:
    chat = bridge.chat(timing=Timing(gather=60, gather_limit=60))
    call = ["all", [["call", "look", {}], _ASK]]
    going = chat.begin(
        user(prompt(_SLOW, ["announce", "1", "look"], ["announce", "2", "count"], call, ["hang"]))
    )
    await bridge.until_pending(2)
    return chat, going


async def _awaiting(bridge: Bridge, step: list[object]) -> tuple[Chat, Going]:
    chat = bridge.chat()
    going = chat.begin(user(prompt(_SLOW, step, ["say", "old "], ["hang"])))
    assert len((await going.end()).calls) == 1
    return chat, going


async def _awaiting_result(bridge: Bridge) -> tuple[Chat, Going]:
    return await _awaiting(bridge, ["call", "look", {}])


async def _awaiting_permission(bridge: Bridge) -> tuple[Chat, Going]:
    return await _awaiting(bridge, _ASK)


_STATES: dict[str, Reached] = {
    "C1 starting": _starting,
    "C2 silent": _silent,
    "C2 held for its tools": _held,
    "C3 speaking": _speaking,
    "C4 awaiting a result": _awaiting_result,
    "C5 awaiting a permission": _awaiting_permission,
    "C6 gathering": _gathering,
}
_every_state = pytest.mark.parametrize("reached", _STATES.values(), ids=_STATES.keys())


@_every_state
async def test_c1_c2_c3_c4_c5_c6_i6_stopped_again_and_again_the_agent_is_told_once_and_the_last_prompt_is_answered(
    bridge: Bridge, reached: Reached
) -> None:
    chat, going = await reached(bridge)
    said, calls = going.heard.text, going.heard.calls
    going.source.cancel()
    # At once: the agent has not started yet, or has not stopped.
    await soon(going.task)
    assert (going.heard.text, going.heard.calls) == (said, calls)
    if not calls:
        chat.history.append(going.heard.message())

    second = chat.begin(user("second"))
    # Its marker: from here on it waits for the old turn.
    await second.until(lambda heard: heard.parts)
    assert (await second.cancel()).text == ""
    third = chat.begin(user("third"))
    for gate in ("go", "stopped"):
        bridge.open_gate(gate)
    answer = await third.end()
    before, _, echo = answer.text.partition("echo: ")
    # An agent that never listed its tools was restarted for them.
    is_restarted = reached is _held
    assert ("restarted" in before) is is_restarted
    heard = json.loads(echo)
    # What was said and never answered was heard all the same, in order.
    assert heard[-1] == "third"
    assert "second" in " ".join(heard)
    assert answer.calls == ()
    started = reached is not _starting
    assert len(bridge.noted("session/cancel")) == started
    assert len(bridge.pids) == 1 + is_restarted
    # Nothing that was open has been allowed, and nothing of it is left open.
    assert all(outcome == {"outcome": "cancelled"} for outcome in bridge.noted("outcome"))
    assert len(bridge.grants) == 0


@_every_state
async def test_i1_i7_closing_in_every_state_settles_what_is_open_and_leaves_no_process(
    bridge: Bridge, reached: Reached
) -> None:
    _, going = await reached(bridge)
    await bridge.close()
    await soon(going.task)
    assert going.task.exception() is None
    await soon(all_gone(bridge.pids))


async def test_i7_what_an_agent_has_started_ends_with_its_conversation(bridge: Bridge) -> None:
    """Parked, closed or replaced: an agent is ended with all that is below it."""
    script = 'sleep 9999 & echo $! > "$0"; exec "$@"'
    chat = bridge.chat(command=_shell(bridge, script), timing=Timing(idle=0.1))
    await chat.say("hello")
    child = int((bridge.folder / "go").read_text())
    await bridge.until_parked()
    await soon(all_gone({child, *bridge.pids}))


@pytest.mark.parametrize("late", ["call", "permission"])
async def test_c9_a_call_of_the_old_turn_is_turned_away_and_not_handed_to_the_new_request(
    bridge: Bridge, late: str
) -> None:
    chat = bridge.chat()
    step: list[object] = ["call", "look", {}] if late == "call" else _ASK
    row = ["row", [["gate", "late"], step, ["note", "answered"]]]
    going = chat.begin(user(prompt(_SLOW, ["say", "old "], row, ["hang"])))
    await going.until(lambda heard: heard.text)
    await going.cancel()
    following = chat.begin(user("the new one"))
    await bridge.until_noted("session/cancel")
    bridge.open_gate("late")
    # It has its answer before the old turn has stopped.
    await bridge.until_noted("answered")
    bridge.open_gate("stopped")
    answer = await following.end()
    assert answer.text == 'echo: ["the new one"]'
    assert answer.calls == ()
    assert bridge.noted("outcome") == ([] if late == "call" else [{"outcome": "cancelled"}])
    assert len(bridge.grants) == 0


# Faults: what the user is told, and what happens to the next prompt.


async def _fails(chat: Chat, words: str = "hello") -> LanguageModelError:
    with pytest.raises(LanguageModelError) as failed:
        await chat.say(words)
    return failed.value


async def test_f1_i6_a_command_that_is_there_the_next_time_answers_the_next_prompt(bridge: Bridge) -> None:
    command = bridge.folder / "late-agent"
    chat = bridge.chat(command=(str(command),))
    error = await _fails(chat)
    assert error.kind == "agent_failed"
    assert str(command) in error.message
    assert error.hint
    _write_script(command, bridge)
    assert (await chat.echo())[-1] == "still there?"


def _write_script(path: Path, bridge: Bridge) -> None:
    words = (*COMMAND, json.dumps({"folder": str(bridge.folder)}))
    path.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in words) + "\n")
    path.chmod(0o700)


async def test_f2_i6_exit_during_start_is_explained_and_the_next_prompt_starts_another(
    bridge: Bridge,
) -> None:
    script = f'{_AT_FIRST} echo "no licence was found" >&2; exit 3'
    chat = bridge.chat(command=_shell(bridge, script))
    error = await _fails(chat)
    assert "exited with code 3" in error.message
    assert "no licence was found" in str(error.hint)
    assert "Try again" in str(error.hint)
    assert "hello" in " ".join(await chat.echo())


async def test_f2_i6_an_agent_that_hangs_at_its_start_is_ended_and_the_next_prompt_starts_another(
    bridge: Bridge,
) -> None:
    script = f'{_AT_FIRST} echo $$ > "$0.pid"; exec sleep 9999'
    chat = bridge.chat(command=_shell(bridge, script), timing=Timing(start=2.0))
    error = await _fails(chat)
    assert error.kind == "timeout"
    assert "Try again" in str(error.hint)
    await soon(all_gone({int((bridge.folder / "go.pid").read_text())}))
    assert "hello" in " ".join(await chat.echo())


async def test_f9_i6_after_logging_in_the_next_prompt_is_answered(bridge: Bridge) -> None:
    refusing = json.dumps(
        {
            "folder": str(bridge.folder),
            "refuse": {"session/new": [-32000, "Authentication required"]},
            "authentication": [{"id": "web", "name": "Log in with a browser"}],
        }
    )
    words = " ".join(f"'{word}'" for word in (*COMMAND, refusing))
    chat = bridge.chat(command=_shell(bridge, f"{_AT_FIRST} exec {words}"))
    error = await _fails(chat)
    assert error.kind == "auth_required"
    assert "then try again" in str(error.hint)
    assert "Log in with a browser" in str(error.hint)
    assert "hello" in " ".join(await chat.echo())


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ([["exit", 7]], "exited with code 7"),
        ([["error", -32603, "out of tokens"]], "out of tokens"),
    ],
    ids=["F3 a crash", "F8 an error"],
)
async def test_f3_f5_f8_i6_a_failure_names_its_cause_and_the_next_step_before_any_text_and_after_it(
    bridge: Bridge, steps: list[list[object]], cause: str
) -> None:
    chat = bridge.chat()
    error = await _fails(chat, prompt(*steps))
    assert cause in error.message
    assert "Try again" in str(error.hint)
    await chat.echo()
    answer = await chat.do(["say", "half of "], *steps)
    # In the form of the interface: what was said, then the error.
    assert answer.text.startswith("half of \n\n**Error:** ")
    assert cause in answer.text
    assert "Try again" in answer.text
    await chat.echo()


@pytest.mark.parametrize("waits_for", ["nothing", "a result", "a permission"])
async def test_f4_f6_f7_i6_a_crash_that_nobody_waits_for_is_logged_with_its_cause(
    bridge: Bridge, waits_for: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dragoman")
    chat = bridge.chat()
    crash = ["row", [["gate", "crash"], ["exit", 9]]]
    match waits_for:
        case "nothing":
            asked = await chat.do(["say", "done"], ["after", [crash]])
        case "a result":
            asked = await chat.do(["all", [["call", "look", {}], crash]])
        case _:
            asked = await chat.do(["all", [_ASK, crash]])
    bridge.open_gate("crash")
    await bridge.until_gone()
    for call in asked.calls:
        await chat.give(result(call, "an answer that comes late"))
    await chat.echo()
    assert len(bridge.pids) == 2
    assert bridge.noted("outcome") == []
    # The process has been explained by the time the next one has answered, or is while we close.
    await bridge.close()
    assert "exited with code 9" in caplog.text
    assert "on fire" in caplog.text


async def test_f12_i6_after_a_crash_with_megabytes_of_last_words_the_next_prompt_is_answered(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    error = await _fails(chat, prompt(["stderr", 60_000], ["exit", 2]))
    assert "exited with code 2" in error.message
    assert "59999" not in error.sentence
    assert len(error.sentence) < 1_000
    await chat.echo()
