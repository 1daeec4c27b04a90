"""H7: what VS Code's agent mode puts around a prompt, through the front end's reading of it to the agent.

The messages are of the form, order and size that VS Code 1.139 sends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from bridge.consumer import Bridge, Chat
from dragoman.frontends.vscode.rendered import spoken
from dragoman.lm import Message, assistant, system, user

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
        self.chat.history = list(spoken((system(_SYSTEM.replace("{}", str(self.log))), *self.messages)))
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
    for told in ("Rule 99", "hello.txt", "a.py", "2026-11-16", "much faster"):
        assert told in context

    assert await editor.hears(_rendered("two", "a.py")) == ["two"]

    # Another file, and the same one again.
    for file in ("b.py", "a.py"):
        context, said = await editor.hears(_rendered("and now?", file))
        assert said == "and now?"
        assert f"<editorContext>\nThe user's current file is {file}. \n</editorContext>" in context
        assert "replaces the earlier one of the same name" in context
        assert "not from the user" in context
        assert len(context) < 600
        for told in ("Rule", "hello.txt", "2026-11-16", "much faster"):
            assert told not in context

    # The system message drifts, and midnight passes.
    editor.log = 2
    context, said = await editor.hears(_rendered("five", "a.py", "2026-11-17"))
    assert said == "five"
    assert "/logs/2" in context
    assert "2026-11-17" in context
    assert "Rule" not in context
    assert len(context) < 1_200
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
    for told in ("Rule 99", "hello.txt", "a.py", "b.py", "2026-11-16"):
        assert told in context
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
