"""B6, H11: what a chat UI asks for beside the chat is known by its form, and no conversation of an agent's."""

from pathlib import Path

import pytest

from bridge.consumer import Bridge
from dragoman.frontends.side_requests import is_side_request
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
            "Here are some examples of good branch names:\n- tree-view",
            "Please write a brief branch name for the following request:\n\nAdd a tree view",
        ),
        (
            "Examples of good contextual progress messages:\n- Polishing your code",
            (
                "<prompt>\nadd a test\n</prompt>\n<file name='a.py'>\n</file>\n"
                "Generate a single short progress message that is specific to this request."
            ),
        ),
        (
            "You help a developer to come with the best git commit message for their code changes.",
            "<changes>\n# CODE CHANGES:\n```diff\n+x\n```\n</changes>",
        ),
        (
            "You must reply with a JSON array of strings of at least four new names, e.g., `[]`.",
            "```py\nx = 1\n```\nReply with a JSON array of strings of at least four new names for `x`.",
        ),
        (
            'When asked for your name, you must respond with "GitHub Copilot".',
            "A software developer is using an AI chatbot in a code editor in file a.py.\n",
        ),
        (
            "You are an evaluator inside an autonomous coding agent loop.\nYou are judging.",
            (
                "Original user request:\nx\n\nConversation transcript:\ny\n\n"
                "Has the original request been fully completed?"
            ),
        ),
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
    "instructions",
    [
        "Pull requests have a short and concise title that describes the changes in the code and a description.",
        "Your task is to help the user fix a command that was run in the terminal by providing a list of fixes.",
        "The user has provided a patch that failed to apply because it references context that was not found.",
        "Context: You are given multiple groups of tools that have been clustered together.",
        "You summarize a user's coding request into a single short phrase suitable for a status badge.",
        "You clean up raw speech-to-text (dictation) output. The input is a transcript.",
    ],
)
def test_h11_some_are_known_by_their_instructions_alone(instructions: str) -> None:
    assert is_side_request([system(instructions), user("anything")], ())
    # As words of the person's they prove nothing.
    assert not is_side_request([user(instructions)], ())
    assert not is_side_request([system(instructions), user("a"), assistant("b"), user("c")], ())
    assert not is_side_request([system(instructions), user("anything")], (ToolDefinition("look"),))


@pytest.mark.parametrize(
    "text",
    [
        "You assess what one terminal command does for a code-editing AI agent, and how risky it is.\n{",
        "You assess what one tool call does for a code-editing AI agent, and how risky it is.\n{",
        (
            "Analyze these 2 code changes across 1 file and provide a brief explanation for each one.\nThey are one.\n\n"
            "=== CHANGE 0 (File: a.py, Lines 1-2) ===\nBEFORE:\n\n\nRespond with a JSON array containing exactly 2 objects."
        ),
        (
            "Summarize the following content in a SINGLE sentence (under 10 words) using past tense. Follow these rules "
            "strictly:\n\n\t\t\tOUTPUT FORMAT:\n\t\t\t- MUST be a single sentence\n\n\t\t\tContent: Read a.py"
        ),
    ],
)
def test_h11_those_of_the_editor_itself_are_known(text: str) -> None:
    assert is_side_request([user(text)], ())
    assert not is_side_request([user(f"Why does this fail? {text}")], ())
    assert not is_side_request([user("Analyze these 2 code changes across 1 file.")], ())


def test_h11_the_title_that_opencode_asks_for_is_known() -> None:
    """A system message and two user messages: the second is what the person said."""
    instructions = system("You are a title generator. You output ONLY a thread title. Nothing else.")
    wish = user("Generate a title for this conversation:\n")
    assert is_side_request([instructions, wish, user("!run make test")], ())
    assert not is_side_request([wish, user("!run make test")], ())
    assert not is_side_request([instructions, user("!run make test"), wish], ())
    assert not is_side_request([instructions, wish, assistant("A title"), user("and on")], ())
    assert not is_side_request([instructions, wish, user("x")], (ToolDefinition("look"),))


@pytest.mark.parametrize("tools", [(), (ToolDefinition("look"),)])
def test_h11_a_summary_is_asked_for_with_the_whole_history(tools: tuple[ToolDefinition, ...]) -> None:
    task = "\nYour task is to create a comprehensive, detailed summary of the entire conversation that captures all."
    told = [user("look"), assistant("I look.")]
    assert is_side_request([system(task), *told, user("Summarize the conversation history so far.")], tools)
    assert is_side_request([system("You are an editor."), *told, user(task)], tools)
    # Where the person said it, it stands between tags; and it is said last.
    assert not is_side_request([*told, user(f"<userRequest>\n{task}\n</userRequest>")], tools)
    assert not is_side_request([user(task), assistant("A summary."), user("go on")], tools)
    assert not is_side_request([*told, user("Your task is to create a detailed summary of a.md")], tools)


_CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that will resume."
_WEBUI = "### Task:\nSummarize the conversation {} that will be compacted out of the active chat context.\n\n### Instructions:\n- x"
_CHECKPOINT = (
    "{} More.\n\nOnly the checkpoint, don't respond to me or continue the conversation.\n\nRules:\n- x"
)
_LIBRE_FIRST = _CHECKPOINT.format(
    "Hold on, before you continue I need you to write me a checkpoint of everything so far."
)
_LIBRE_AGAIN = _CHECKPOINT.format("Hold on again, update your checkpoint.")
_TOOLS = (ToolDefinition("look"),)
_TOLD = [user("look"), assistant("I look.")]


@pytest.mark.parametrize(
    ("task", "offers_tools"),
    [
        (_CODEX, False),
        (_WEBUI.format("above"), False),
        (_WEBUI.format("history"), False),
        (_LIBRE_FIRST, True),
        (_LIBRE_AGAIN, True),
    ],
)
def test_h11_a_compaction_is_known_by_the_message_at_the_end_of_the_history(
    task: str,
    offers_tools: bool,  # noqa: FBT001 - a case
) -> None:
    assert is_side_request([system("You are kind."), *_TOLD, user(task)], ())
    assert is_side_request([*_TOLD, user(f"{task}\n")], _TOOLS) == offers_tools
    # A person who quotes it, and a conversation that goes on after it.
    assert not is_side_request([*_TOLD, user(f"What does this mean? {task}")], ())
    assert not is_side_request([*_TOLD, user(f"> {task}")], ())
    assert not is_side_request([user(task), assistant("A summary."), user("go on")], ())
    assert not is_side_request([*_TOLD, assistant(task)], ())
    # The beginning alone is no proof.
    assert not is_side_request([*_TOLD, user(task[: len(task) // 3])], ())


@pytest.mark.parametrize(
    "instructions",
    [
        "You are an anchored context summarization assistant for coding sessions.\n\nSummarize only the history.",
        "You are a helpful AI assistant tasked with summarizing conversations.\n\nWhen asked to summarize, do it.",
        "Summarize what was done in this conversation. Write like a pull request description.\n\nRules:",
        "You are judging one planned coding-agent action.\nAssess the exact action.",
    ],
)
@pytest.mark.parametrize("tools", [(), _TOOLS], ids=["without tools", "with tools"])
def test_h11_what_agents_ask_about_a_conversation_is_known_by_their_instructions(
    instructions: str, tools: tuple[ToolDefinition, ...]
) -> None:
    assert is_side_request([system(instructions), *_TOLD, user("Do it.")], tools)
    assert is_side_request([system("Be kind."), system(instructions), *_TOLD, user("Do it.")], tools)
    assert not is_side_request([*_TOLD, user(instructions)], tools)
    assert not is_side_request([system(f"Never say this: {instructions}"), *_TOLD, user("Do it.")], tools)


def test_h11_the_other_side_requests_of_open_webui_are_known() -> None:
    choose = system(
        "Available Tools: []\n\nYour task is to choose and return the correct tool(s) from the list of available tools "
        "based on the query. Follow these guidelines:"
    )
    assert is_side_request([choose, user('History:\nUSER: """hello"""\nQuery: look')], ())
    assert not is_side_request([user(choose.text)], ())
    assert not is_side_request([choose, *_TOLD, user("Query: look")], ())
    face = (
        "Your task is to reflect the speaker's likely facial expression through a fitting emoji. Interpret emotions.\n\n"
        "Message: ```Hello.```"
    )
    merge = (
        'You have been provided with a set of responses from various models to the latest user query: "look"\n\n'
        'Your task is to merge them.\n\nResponses from models: """a"""\n\n"""b"""'
    )
    for text in (face, merge):
        assert is_side_request([user(text)], ())
        assert not is_side_request([user(f"Improve this prompt:\n{text}")], ())
        assert not is_side_request([user(text.partition("\n\n")[0])], ())
        assert not is_side_request([*_TOLD, user(text)], ())


def test_h11_what_codex_remembers_of_a_conversation_is_known() -> None:
    instructions = system(
        "## Memory Writing Agent: Phase 1 (Single Rollout)\n\nYou are a Memory Writing Agent.\n"
    )
    task = (
        "Analyze this rollout and produce JSON with `raw_memory`, `rollout_summary`, and `rollout_slug`.\n\n"
        "rollout_context:\n- rollout_path: x\n"
    )
    assert is_side_request([instructions, user(task)], ())
    assert not is_side_request([user(task)], ())
    assert not is_side_request([instructions, user("What is in this folder?")], ())
    assert not is_side_request([instructions, user(task)], _TOOLS)


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


@pytest.mark.long
async def test_b6_h11_a_compaction_neither_acts_nor_disturbs_the_conversation(tmp_path: Path) -> None:
    bridge = Bridge(tmp_path)
    bridge.chat(close=True, permission="allow")
    assert bridge.model is not None
    for made in site_of(Held(bridge.permissions, m=bridge.model), store=tmp_path / "state"):
        tools = [function("look")]
        said: list[Json] = [{"role": "user", "content": "hello"}]
        first = await made.create(input=said, tools=tools)
        said += first.response["output"]
        compacted = await made.create(input=[*said, {"role": "user", "content": _CODEX}])
        assert _kind(compacted) == "-; evidence=none; kind=aside"
        # It has the whole history, in a session of its own, which is closed.
        asked = str(bridge.noted("session/prompt")[-1])
        assert "hello" in asked
        assert "CONTEXT CHECKPOINT COMPACTION" in asked
        assert len(bridge.noted("session/close")) == 1
        said += [{"role": "user", "content": "and on"}]
        after = await made.create(input=said, tools=tools)
        assert _kind(after).partition(";")[0] == _kind(first).partition(";")[0]
        assert "CHECKPOINT" not in str(bridge.noted("session/prompt")[-1])
        assert len(bridge.pids) == 1
        # What it asks for is refused, although the model may do everything.
        ask = [
            "ask",
            {"toolCallId": "p", "title": "Run it", "kind": "execute"},
            ["allow_once", "reject_once"],
        ]
        summarise = {
            "instructions": "You are an anchored context summarization assistant for coding sessions."
        }
        acting = await made.create(input=prompt(ask), tools=tools, **summarise)
        assert _kind(acting).endswith("kind=aside")
        assert "<p: the-reject_once>" in str(acting.response["output"])
    await bridge.close()
