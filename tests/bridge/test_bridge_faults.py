"""F: agents that break, in every state. Each time the error names the cause, and the next prompt has its own answer."""

import asyncio
import json

import pytest

from bridge.consumer import Bridge, Heard, result, soon
from dragoman.acp.launch import RunningAgent
from dragoman.backends.agent.conversation import Conversation
from dragoman.backends.agent.profile.settings import Timing
from dragoman.backends.agent.prompt.session_context import SessionContext
from dragoman.backends.agent.reply.backpressure import size_of
from dragoman.backends.agent.session.session import AgentSession
from dragoman.backends.agent.toolserver.server import ToolServer
from dragoman.jsonrpc import MAX_MESSAGE_BYTES
from dragoman.lm import LanguageModelError, ToolDefinition, user
from dragoman.process.tail import TAIL_LINES
from fake_agent.steps import prompt, raw

pytestmark = pytest.mark.long

_FIRE = "the disk of this agent is on fire"


async def test_f1_command_not_found_names_the_command_and_what_to_do(bridge: Bridge) -> None:
    chat = bridge.chat(command=("no-such-agent", "--acp"))
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "agent_failed"
    assert "no-such-agent" in failed.value.sentence
    assert failed.value.hint


async def test_f2_exit_during_start_says_how_and_quotes_its_last_words(bridge: Bridge) -> None:
    chat = bridge.chat(start="exit")
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "agent_failed"
    assert "exited with code 3" in failed.value.message
    assert "no licence was found" in failed.value.sentence


async def test_f2_an_agent_that_never_answers_is_given_up_and_ended(bridge: Bridge) -> None:
    chat = bridge.chat(start="hang", timing=Timing(start=0.3))
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "timeout"
    assert "0.3 seconds" in failed.value.message


async def test_what_keeps_us_from_starting_is_tried_again_with_the_next_request(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = bridge.chat()
    with monkeypatch.context() as patched:

        async def refused(_server: ToolServer) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(ToolServer, "start", refused)
        with pytest.raises(LanguageModelError, match="No space left"):
            await chat.say("hello")
    await chat.echo()


async def test_f3_crash_in_the_first_turn_then_the_next_prompt_is_answered_by_another_agent(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    with pytest.raises(LanguageModelError) as failed:
        await chat.do(["exit", 7])
    assert "exited with code 7" in failed.value.message
    assert _FIRE not in failed.value.sentence
    await chat.echo()
    assert len(bridge.pids) == 2


async def test_f4_crash_while_idle_is_not_noticed_by_the_user(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.do(["say", "a word"], ["after", [["exit", 9]]])
    await bridge.until_gone()
    heard = await chat.echo()
    # The new agent was told what the old one knew.
    assert "a word" in " ".join(heard)
    assert len(bridge.pids) == 2


async def test_f5_crash_in_mid_stream_keeps_the_text_and_tells_the_error_as_text(bridge: Bridge) -> None:
    chat = bridge.chat()
    answer = await chat.do(["say", "half of "], ["exit", 9])
    assert answer.text.startswith("half of ")
    assert "**Error:**" in answer.text
    assert "exited with code 9" in answer.text
    assert _FIRE not in answer.text
    assert "half of" in " ".join(await chat.echo())


@pytest.mark.parametrize("http", [True, False])
async def test_f6_crash_while_a_result_is_awaited_the_next_agent_is_told_the_result(
    bridge: Bridge, *, http: bool
) -> None:
    chat = bridge.chat(http=http)
    asked = await chat.do(["all", [["call", "look", {"at": 1}], ["row", [["gate", "crash"], ["exit", 1]]]]])
    [call] = asked.calls
    bridge.open_gate("crash")
    await bridge.until_gone()
    answer = await chat.give(result(call, "forty-two"))
    assert "forty-two" in answer.text
    assert "look" in answer.text
    await chat.echo()


async def test_f7_crash_while_a_permission_is_awaited_the_approval_is_never_used(bridge: Bridge) -> None:
    chat = bridge.chat()
    ask = [
        "ask",
        {"toolCallId": "p1", "title": "Format it", "kind": "execute"},
        ["allow_once", "reject_once"],
    ]
    asked = await chat.do(["all", [ask, ["row", [["gate", "crash"], ["exit", 1]]]]])
    [call] = asked.calls
    early = bridge.approve(call)
    bridge.open_gate("crash")
    await bridge.until_gone()
    # The dialog was still open: whoever approves now is told that it is over.
    assert "no longer open" in bridge.approve(call).text
    assert len(bridge.grants) == 0
    answer = await chat.give(early)
    assert "dragoman-grant" not in answer.text
    # Another agent goes on: nobody is left with the answer that there is none.
    assert "Go on from where the conversation stopped." in answer.text
    assert bridge.noted("outcome") == []
    await chat.echo()


async def test_f8_an_error_to_the_prompt_fails_that_turn_and_the_session_lives(bridge: Bridge) -> None:
    chat = bridge.chat()
    with pytest.raises(LanguageModelError) as failed:
        await chat.do(["error", -32603, "out of tokens"])
    assert "out of tokens" in failed.value.sentence
    await chat.echo()
    assert len(bridge.pids) == 1


async def test_f9_auth_required_names_the_agents_own_methods(bridge: Bridge) -> None:
    chat = bridge.chat(
        refuse={"session/new": [-32000, "Authentication required"]},
        authentication=[{"id": "web", "name": "Log in with a browser", "description": "opens a page"}],
    )
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "auth_required"
    assert "Log in with a browser (opens a page)" in failed.value.sentence


async def test_f10_lines_that_are_no_messages_are_survived(bridge: Bridge) -> None:
    chat = bridge.chat()
    garbage = (
        b"[1, 2]\n42\nnull\nprogress: 10%\n{\n\xff\xfe\n\n"
        b'{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": 1}}\n'
        b'{"jsonrpc": "2.0", "id": 99, "method": "fs/write_text_file", "params": {"path": "/etc/x"}}\n'
    )
    answer = await chat.do(["say", "before "], raw(garbage), ["say", "after"])
    assert answer.text == "before after"
    assert (await chat.echo())[-1] == "still there?"


async def test_f10_a_line_beyond_the_limit_is_left_out(bridge: Bridge) -> None:
    chat = bridge.chat()
    size = MAX_MESSAGE_BYTES + 1
    answer = await chat.do(["say", "before "], ["long", size], ["say", "after"])
    assert answer.text == "before after"


class _Slow(Heard):
    """A consumer that takes what it is given only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.lets = asyncio.Event()
        self.behind = asyncio.Event()

    async def drain(self) -> None:
        self.behind.set()
        await self.lets.wait()


async def test_f11_a_flood_waits_for_a_slow_consumer_and_arrives_in_order(bridge: Bridge) -> None:
    chat, other = bridge.chat(), bridge.chat()
    slow = _Slow()
    going = chat.begin(user(prompt(["flood", 100_000])), heard=slow)
    await soon(slow.behind.wait())
    # In the time that another agent, begun later, needs for a good part of it, this one comes no further.
    await other.do(["flood", 30_000])
    assert bridge.noted("flooded") == [{"count": 30_000}]
    assert sum(map(size_of, slow.parts)) < 1024 * 1024
    assert not going.task.done()
    slow.lets.set()
    answer = await going.end()
    assert answer.text == "".join(f"{number} " for number in range(100_000))


async def test_f11_a_consumer_that_stops_reading_can_still_cancel(bridge: Bridge) -> None:
    chat = bridge.chat()
    slow = _Slow()
    going = chat.begin(user(prompt(["flood", 20_000], ["hang"])), heard=slow)
    await soon(slow.behind.wait())
    await going.cancel()
    await chat.echo()
    assert len(bridge.pids) == 1


async def test_f12_megabytes_of_stderr_are_drained_and_the_last_lines_logged(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dragoman")
    chat = bridge.chat()
    answer = await chat.do(["say", "well "], ["stderr", 60_000], ["say", "then"], ["exit", 2])
    assert answer.text.startswith("well then")
    assert "nothing at all" not in answer.text
    logged = [line for line in caplog.messages if "nothing at all" in line]
    assert logged[-1].endswith("line 59999")
    assert len(logged) <= TAIL_LINES


async def test_f16_half_characters_are_joined_and_orphans_replaced(bridge: Bridge) -> None:
    chat = bridge.chat()
    high, low = 0xD83D, 0xDE00
    answer = await chat.do(["halves", [0x61, high], [low, 0x62], [high]])
    assert answer.text == "a\N{GRINNING FACE}b\N{REPLACEMENT CHARACTER}"


async def test_an_agent_that_closes_its_output_and_lives_on_is_ended(bridge: Bridge) -> None:
    chat = bridge.chat()
    answer = await chat.do(["say", "bye"], ["close"])
    assert "closed its connection" in answer.text
    await chat.echo()


async def test_what_we_send_is_what_the_official_sdk_reads(bridge: Bridge) -> None:
    from acp import schema  # noqa: PLC0415 - takes a second, and only this test needs it
    from pydantic import BaseModel  # noqa: PLC0415

    chat = bridge.chat(resume=True)
    await chat.do(["say", "hello"], ["after", [["exit", 1]]])
    await bridge.until_gone()
    going = chat.begin(user(prompt(["say", "now"], ["hang"])))
    await going.until(lambda heard: "now" in heard.text)
    await going.cancel()
    await chat.echo()
    models: dict[str, type[BaseModel]] = {
        "initialize": schema.InitializeRequest,
        "session/new": schema.NewSessionRequest,
        "session/resume": schema.ResumeSessionRequest,
        "session/prompt": schema.PromptRequest,
        "session/cancel": schema.CancelNotification,
    }
    for method, model in models.items():
        sent = bridge.noted(method)
        assert sent, method
        for params in sent:
            read = model.model_validate(params)
            # Nothing that the SDK would drop.
            assert json.loads(read.model_dump_json(by_alias=True, exclude_unset=True)) == params


def _breaks(*_: object, **__: object) -> None:
    raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


_FAULTS = {
    "opening the reply": (Conversation, "_marker"),
    "starting the agent": (Conversation, "_start"),
    "taking its session up": (SessionContext, "begin"),
    "making the prompt": (SessionContext, "prompt"),
    "sending the prompt": (AgentSession, "prompt"),
    "ending the reply": (Conversation, "_end_reply"),
    "explaining a crash": (RunningAgent, "explain_exit"),
}


@pytest.mark.parametrize(("where", "name"), _FAULTS.values(), ids=_FAULTS)
async def test_i1_a_fault_of_our_own_ends_the_reply_and_the_next_request_is_answered(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch, where: type, name: str
) -> None:
    chat = bridge.chat()
    with monkeypatch.context() as patched:
        patched.setattr(where, name, _breaks)
        with pytest.raises(LanguageModelError) as failed:
            await chat.do(*([["exit", 1]] if name == "explain_exit" else []))
    assert failed.value.kind == "internal"
    assert "by a fault of its own: UnicodeDecodeError" in failed.value.message
    assert str(failed.value.hint).startswith("Try again")
    await chat.echo()
    await chat.echo()


async def test_i1_h14_the_same_request_after_a_fault_is_tried_anew(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = bridge.chat()
    await chat.do(["say", "a word"])
    with monkeypatch.context() as patched:
        patched.setattr(Conversation, "_end_reply", _breaks)
        with pytest.raises(LanguageModelError, match="by a fault of its own"):
            await chat.do()
    again = await chat.begin().end()
    assert "a word" not in again.text
    assert len(bridge.noted("session/prompt")) == 3


async def test_i1_a_fault_in_a_later_turn_keeps_what_was_said_and_the_session(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = bridge.chat(resume=True)
    [call] = (await chat.do(["say", "a word"], ["call", "look", {}])).calls
    with monkeypatch.context() as patched:
        patched.setattr(Conversation, "_answer", _breaks)
        with pytest.raises(LanguageModelError, match="by a fault of its own"):
            await chat.give(result(call, "seen"))
    # Nobody knows whether the agent had it.
    assert "".join((await chat.echo())[:-1]).startswith(
        "You were restarted while you waited. The tool look returned:"
    )
    assert len(bridge.noted("session/resume")) == 1


async def test_i1_a_fault_while_the_prompt_waits_for_the_tools_to_be_listed_ends_the_reply(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = bridge.chat(resume=True)
    await chat.do(["say", "a word"])
    chat.tools = (*chat.tools, ToolDefinition("new"))
    with monkeypatch.context() as patched:
        patched.setattr(AgentSession, "prompt", _breaks)
        with pytest.raises(LanguageModelError, match="by a fault of its own"):
            await chat.say("hello")
    await chat.echo()


async def test_i1_a_crash_while_idle_that_cannot_be_explained_is_nobodys_failure(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = bridge.chat()
    monkeypatch.setattr(RunningAgent, "explain_exit", _breaks)
    await chat.do(["say", "a word"], ["after", [["exit", 9]]])
    await bridge.until_gone()
    await chat.echo()


async def test_i1_a_fault_with_nobody_listening_is_the_end_of_that_agent_alone(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = bridge.chat(resume=True)
    with monkeypatch.context() as patched:
        patched.setattr("dragoman.backends.agent.reply.backlog.size_of", _breaks)
        await chat.do(["say", "a word"], ["after", [["say", "late"]]])
        await bridge.until_gone()
    assert await chat.echo() == ["still there?"]
