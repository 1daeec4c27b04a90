"""B6, H11: what a chat UI asks for beside the chat is known by its form, and no conversation of an agent's."""

from pathlib import Path

import pytest

from bridge.consumer import Bridge
from dragoman.frontends.http.asides import is_said_aside, is_side_request
from dragoman.lm import Message, ToolDefinition, assistant, system, user
from fake_agent.steps import prompt
from http_server.kit import Answered, Held, Json, function, site_of, soon
from process.living import all_gone

_TITLE = """### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Guidelines:
- The title should clearly represent the main theme or subject of the conversation.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: What is in this folder?
ASSISTANT: Three files.
</chat_history>"""
_TYPED = """### Task:
You are an autocompletion system. Continue the text in `<text>` based on the **completion type**.
### Context:
<chat_history>
USER: Hello.
</chat_history>
<type>search query</type>
<text>What is</text>
#### Output:
"""
_LIBRE = """Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the \
title itself.

Conversation:
User: What is in this folder?
AI: Three files."""
_LIBRE_STRUCTURED = """Analyze this conversation and provide:
1. The detected language of the conversation
2. A concise title in the detected language (5 words or less, no punctuation or quotation)

User: What is in this folder?
AI: Three files."""

_PROGRESS = """Please generate exactly 10 unique progress messages for the "edit code" scenario.
Return only a JSON array of strings, no other text."""


@pytest.mark.parametrize("text", [_TITLE, _TYPED, _LIBRE, _LIBRE_STRUCTURED])
def test_h11_the_side_requests_of_chat_uis_are_known(text: str) -> None:
    assert is_side_request([user(text)], ())
    assert is_side_request([system("You are kind."), user(text)], ())
    # What goes on, and what may call, is a conversation.
    assert not is_side_request([user("hello"), assistant("hi"), user(text)], ())
    assert not is_side_request([user("hello"), user(text)], ())
    assert not is_side_request([user(text)], (ToolDefinition("look"),))
    assert not is_side_request([user(f"Explain this prompt:\n\n{text}")], ())


@pytest.mark.parametrize(
    ("instructions", "text"),
    [
        (
            "Write titles.\nHere are some examples of good titles:\n- Git rebase question",
            "Please write a brief title for the following request:\n\nWhat is in this folder?",
        ),
        (
            "Write messages.\nExamples of good progress messages:\n- Warming up",
            _PROGRESS,
        ),
    ],
)
def test_h11_those_of_an_editor_are_known_by_their_instructions_too(instructions: str, text: str) -> None:
    assert is_side_request([system(instructions), user(text)], ())
    assert not is_side_request([system("You are kind."), user(text)], ())
    assert not is_side_request([user(text)], ())
    assert not is_side_request([system(instructions), user("What is in this folder?")], ())


@pytest.mark.parametrize(
    "text",
    [
        "### Task:\nGenerate a concise title for the article in notes.md.",
        "### Task:\nRename the tag <chat_history> to </chat_history> in all files.",
        "</chat_history>\n### Task:\nx\n<chat_history>\n",
        "### Task:\nx\n</chat_history>\n<chat_history>\n",
        "Provide a concise, 5-word-or-less title for the conversation, please.",
        "Analyze this conversation and provide:\n1. The detected language of the file",
        "Write a title.",
        "",
    ],
)
def test_h11_what_people_ask_for_is_no_side_request(text: str) -> None:
    assert not is_side_request([user(text)], ())


def test_h11_nothing_at_all_is_no_side_request() -> None:
    messages: list[Message] = []
    assert not is_side_request(messages, ())


@pytest.mark.parametrize(
    ("value", "is_so"), [("true", True), ("1", True), (" TRUE ", True), ("false", False)]
)
def test_h11_a_client_can_say_so(value: str, is_so: bool) -> None:  # noqa: FBT001 - a case
    assert is_said_aside({"x-dragoman-aside": value}) == is_so
    assert not is_said_aside({})


def _chat(text: str) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def _kind(answered: Answered) -> str:
    return answered.headers["x-dragoman-conversation"]


@pytest.mark.long
async def test_b6_h11_a_title_for_a_chat_ui_borrows_the_agent_and_leaves_nothing(tmp_path: Path) -> None:
    bridge = Bridge(tmp_path)
    bridge.chat(close=True)
    assert bridge.model is not None
    for made in site_of(Held(bridge.permissions, m=bridge.model)):
        first = await made.post("/v1/chat/completions", _chat(prompt(["say", "Three files."])))
        title = await made.post("/v1/chat/completions", _chat(_TITLE))
        assert _kind(title) == "-; evidence=none; kind=aside"
        assert "<chat_history>" in title.json["choices"][0]["message"]["content"]
        said = await made.create(input=prompt(["say", "By header"]), headers={"x_dragoman_aside": "true"})
        assert _kind(said).endswith("kind=aside")
        assert len(bridge.pids) == 1
        assert len(bridge.noted("session/close")) == 2
        # The chat goes on where it was.
        messages = [
            *_chat(prompt(["say", "Three files."]))["messages"],
            {"role": "assistant", "content": "Three files."},
            {"role": "user", "content": prompt(["say", "still here"])},
        ]
        after = await made.post("/v1/chat/completions", {"model": "m", "messages": messages})
        assert _kind(after).partition(";")[0] == _kind(first).partition(";")[0]
    await bridge.close()


@pytest.mark.long
async def test_b6_h11_a_title_while_the_agent_waits_has_a_process_of_its_own_which_ends(
    tmp_path: Path,
) -> None:
    bridge = Bridge(tmp_path)
    bridge.chat()
    assert bridge.model is not None
    for made in site_of(Held(bridge.permissions, m=bridge.model)):
        asked = await made.create(input=prompt(["call", "look", {}]), tools=[function("look")])
        waiting = set(bridge.pids)
        title = await made.post("/v1/chat/completions", _chat(_TITLE))
        assert _kind(title).endswith("kind=aside")
        (own,) = bridge.pids - waiting
        await soon(all_gone({own}))
        (call,) = asked.response["output"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "green"}
        history = [{"role": "user", "content": prompt(["call", "look", {}])}, call, output]
        after = await made.create(input=history, tools=[function("look")])
        assert "look returned: green" in str(after.response["output"])
    await bridge.close()
