"""H7: what VS Code's agent mode puts around a prompt, through the front end's reading of it to the agent.

The messages are of the form, order and size that VS Code 1.139 sends.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bridge.consumer import Bridge, Chat
from dragoman.backends.agent.profile.settings import Timing
from dragoman.frontends.vscode.rendered import unrendered_messages
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.lm import DataPart, LanguageModelError, Message, assistant, system, user
from dragoman.store import Database
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_RULES = "\n".join(f"Rule {number}: {'avoid repeating existing code, ' * 4}please." for number in range(100))
_SYSTEM = (
    "You are an expert AI programming assistant, working with a user in the VS Code editor.\n<instructions>\n"
    f"{_RULES}\n</instructions>\n<outputFormatting>\nUse proper Markdown.\n<example>\nThe class `Person`.\n</example>\n"
    "</outputFormatting>\nThe following template variables are available for this session:\n"
    "- VSCODE_TARGET_SESSION_LOG: /logs/{}\n"
)
_ENVIRONMENT = (
    "<environment_info>\nThe user's current OS is: Linux\n</environment_info>\n<workspace_info>\nI am working in a "
    "workspace that has the following structure:\n```\nhello.txt\n```\n</workspace_info>\n"
)
_REMINDER = "<reminderInstructions>\nIt is much faster to edit using `replace`.\n</reminderInstructions>"


def _rendered(words: str, file: str | None = None, date: str = "2026-11-16") -> Message:
    opened = f"<editorContext>\nThe user's current file is {file}. \n</editorContext>\n" if file else ""
    around = f"<context>\nThe current date is {date}.\n</context>\n{opened}{_REMINDER}\n"
    return user(f"{around}<userRequest>\n{words}\n</userRequest>\n")


@dataclass
class _Editor:
    """Keeps what it has rendered; the system message is made anew each time."""

    chat: Chat
    messages: list[Message] = field(default_factory=lambda: [user(_ENVIRONMENT)])
    log: int = 1

    async def hears(self, message: Message) -> list[str]:
        """What the agent is prompted with."""
        self.messages.append(message)
        self.chat.history = list(
            unrendered_messages((system(_SYSTEM.replace("{}", str(self.log))), *self.messages))
        )
        answer = await self.chat.begin().end()
        assert answer.text.startswith("echo: "), answer.text
        self.messages.append(assistant(answer.text))
        heard: list[str] = json.loads(answer.text.removeprefix("echo: "))
        return heard


async def test_h7_the_editors_context_is_told_once_and_then_what_has_changed(bridge: Bridge) -> None:
    editor = _Editor(bridge.chat())
    context, *words = await editor.hears(_rendered("one", "a.py"))
    assert words == ["one"]
    assert len(context) > 14_000
    for sent in ("Rule 99", "hello.txt", "a.py", "2026-11-16", "much faster"):
        assert sent in context

    assert await editor.hears(_rendered("two", "a.py")) == ["two"]

    # Another file, and the same one again.
    for file in ("b.py", "a.py"):
        context, said = await editor.hears(_rendered("and now?", file))
        assert said == "and now?"
        assert f"<editorContext>\nThe user's current file is {file}. \n</editorContext>" in context
        assert "replaces the earlier section <editorContext>:" in context
        assert "not from the user" in context
        assert len(context) < 600
        for sent in ("Rule", "hello.txt", "2026-11-16", "much faster"):
            assert sent not in context

    # No file any more; and midnight passes.
    context, said = await editor.hears(_rendered("five", None, "2026-11-17"))
    assert said == "five"
    assert "No longer valid: the section <editorContext>." in context
    assert "2026-11-17" in context
    assert "Rule" not in context
    assert len(context) < 600

    # Text outside of any section drifts: of that no part is told alone.
    editor.log = 2
    context, said = await editor.hears(_rendered("six", None, "2026-11-17"))
    assert said == "six"
    assert "instead of everything that it told you before" in context
    for sent in ("Rule 99", "hello.txt", "2026-11-17", "much faster", "/logs/2"):
        assert sent in context
    assert await editor.hears(_rendered("seven", None, "2026-11-17")) == ["seven"]
    assert len(bridge.noted("session/new")) == 1


async def test_h7_a_session_that_is_new_is_told_all_of_it_again(bridge: Bridge) -> None:
    editor = _Editor(bridge.chat())
    await editor.hears(_rendered("one", "a.py"))
    await editor.hears(_rendered("two", "b.py"))
    # The second message is edited: another session, which knows nothing.
    del editor.messages[-2:]
    context, *transcript, words = await editor.hears(_rendered("two, better", "b.py"))
    assert words == "two, better"
    assert len(transcript) == 1
    for sent in ("Rule 99", "hello.txt", "b.py", "2026-11-16"):
        assert sent in context
    assert "a.py" not in context
    assert "holds" not in context
    assert len(bridge.noted("session/new")) == 2


async def test_h7_a_request_without_any_context_takes_nothing_back_and_nothing_is_told_twice(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    chat.history.append(system("Be brief."))
    await chat.say("hello")
    del chat.history[0]
    assert await chat.echo() == ["still there?"]
    chat.history.insert(0, system("Be brief."))
    assert await chat.echo() == ["still there?"]


def _contexts(heard: list[str]) -> list[str]:
    return [text for text in heard if "not from the user" in text]


@pytest.mark.parametrize("code", [-32000, -32603])
async def test_h7_f8_f9_a_session_whose_first_prompt_failed_is_told_everything(
    bridge: Bridge, code: int
) -> None:
    """It wants a login, or has no tokens left: it may have kept nothing."""
    chat = bridge.chat()
    chat.history += [system("Be brief."), user("My name is Ada."), assistant("Hello, Ada.")]
    with pytest.raises(LanguageModelError):
        await chat.do(["error", code, "out of tokens"])
    heard = await chat.echo()
    (context,) = _contexts(heard)
    assert "Be brief." in context
    assert any("Hello, Ada." in text for text in heard)
    assert await chat.echo() == ["still there?"]
    assert len(bridge.noted("session/new")) == 1


async def test_h7_f8_a_session_that_may_know_nothing_is_told_everything_when_it_is_taken_up_again(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(timing=Timing(idle=0.1), resume=True)
    chat.history += [system("Be brief."), user("My name is Ada."), assistant("Hello, Ada.")]
    with pytest.raises(LanguageModelError):
        await chat.do(["error", -32603, "out of tokens"])
    await bridge.until_parked()
    heard = await chat.echo()
    assert len(_contexts(heard)) == 1
    assert any("Hello, Ada." in text for text in heard)
    assert len(bridge.noted("session/resume")) == 1


async def test_h7_f3_an_agent_that_crashed_in_its_first_turn_without_a_word_is_told_everything_again(
    bridge: Bridge,
) -> None:
    """It may take its session up, and has perhaps kept nothing of it."""
    chat = bridge.chat(resume=True)
    chat.history += [system("Be brief."), user("My name is Ada."), assistant("Hello, Ada.")]
    with pytest.raises(LanguageModelError):
        await chat.do(["exit", 1])
    heard = await chat.echo()
    assert len(_contexts(heard)) == 1
    assert any("Hello, Ada." in text for text in heard)
    assert await chat.echo() == ["still there?"]


async def test_h7_f3_an_agent_that_crashed_in_its_first_turn_after_a_word_is_told_what_holds_and_no_transcript(
    bridge: Bridge,
) -> None:
    """Its session knows the conversation: it did not join it after what it said itself."""
    chat = bridge.chat(resume=True)
    chat.history += [system("Be brief."), user("My name is Ada."), assistant("Hello, Ada.")]
    await chat.do(["say", "half of it"], ["exit", 1])
    context, words = await chat.echo()
    assert context.partition("told you before.\n\n")[2].startswith("Be brief.")
    assert words == "still there?"
    assert len(bridge.noted("session/resume")) == 1
    assert await chat.echo() == ["still there?"]


async def test_h7_h21_what_a_session_was_told_before_a_restart_is_replaced(
    bridge: Bridge, tmp_path: Path
) -> None:
    with Database.open(tmp_path / "state") as database:
        bridge.store_in(database)
        history = [system("Be brief.")]
        chat = bridge.chat(resume=True)
        chat.history = history
        await chat.say("hello")
        await bridge.close()
        bridge.model = None
        chat = bridge.chat(resume=True)
        history[0] = system("Be long.")
        chat.history = history
        context, words = await chat.echo()
        assert context.partition("told you before.\n\n")[2].startswith("Be long.")
        assert words == "still there?"
        assert len(bridge.noted("session/resume")) == 1
        await bridge.close()


async def _session(store: SqliteJournals) -> str | None:
    [stored] = await store.journals("agent")
    found = await store.state(stored.id)
    assert found is not None
    return found[0].session


async def test_h21_f13_a_session_is_on_disk_as_soon_as_the_agent_shows_that_it_knows_the_conversation(
    bridge: Bridge, tmp_path: Path
) -> None:
    """Before that it may know nothing, and would be taken for one that knows everything."""
    with Database.open(tmp_path / "state") as database:
        store = bridge.store_in(database)
        chat = bridge.chat(resume=True)
        going = chat.begin(user(prompt(["gate", "word"], ["say", "half of it"], ["gate", "end"])))
        await bridge.until_noted("session/prompt")
        assert await _session(store) is None
        bridge.open_gate("word")
        await going.until(lambda heard: heard.text)
        assert await _session(store) == bridge.noted("session/prompt")[0]["sessionId"]
        [stored] = await store.journals("agent")
        assert stored.owner == str(os.getpid())
        bridge.open_gate("end")
        await going.end()
        await bridge.close()


async def test_h7_f8_what_was_told_with_a_prompt_that_failed_is_told_again(bridge: Bridge) -> None:
    chat = bridge.chat()
    chat.history.append(system("Be brief."))
    await chat.say("hello")
    chat.history[0] = system("Be long.")
    with pytest.raises(LanguageModelError):
        await chat.do(["error", -32603, "out of tokens"])
    (context,) = _contexts(await chat.echo())
    assert "Be long." in context
    # After a word, an agent has heard it.
    chat.history[0] = system("Be kind.")
    await chat.do(["say", "half of it"], ["error", -32603, "out of tokens"])
    assert await chat.echo() == ["still there?"]


async def test_h7_c7_what_was_told_to_an_agent_that_had_to_be_ended_is_told_again(bridge: Bridge) -> None:
    chat = bridge.chat(timing=Timing(grace=0.2), resume=True)
    chat.history.append(system("Be brief."))
    await chat.say("hello")
    chat.history[0] = system("Be long.")
    going = chat.begin(user(prompt(["deaf"])))
    await bridge.until_noted("session/prompt", 2)
    await going.cancel()
    (context,) = _contexts(await chat.echo())
    assert "Be long." in context
    assert len(bridge.noted("session/resume")) == 1


async def test_h7_f4_a_notice_of_ours_is_no_sign_of_an_agent_that_is_gone(bridge: Bridge) -> None:
    chat = bridge.chat(resume=True)
    chat.history.append(system("Be brief."))
    await chat.do(["doom"])
    chat.history[0] = system("Be long.")
    answer = await chat.begin(user(DataPart("image/png", b"png"), "what is it?")).end()
    assert answer.text.count("cannot take image/png") == 1
    assert "Be long." in answer.text
    assert "what is it?" in answer.text
    assert len(bridge.pids) == 2
