"""Side requests: requests of a program for a title, a commit message or follow-up questions, beside the chat.

A program sends them to the model of the chat. An agent would start a conversation for each, and might start to work. So
the front end marks them, and a separate session without any permission answers them.

A request is a side request only with proof: the client marks it, or the whole request has the form that a known program
gives it. The form is the program's own text around the text that it quotes. A request without a known form is a
conversation, also when it offers no tools. `docs/http.md` lists the forms.

Most forms are a request of their own. A request for a summary is the whole conversation, with one message more: it must
neither make the agent act nor become a part of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.lm import Message, ToolDefinition

__all__ = ["is_side_request"]


@dataclass(frozen=True, slots=True)
class _Form:
    """The fixed text of a program: the start of the user message, marks that follow, and a part of the system message."""

    head: str
    marks: tuple[str, ...] = ()
    system: str = ""
    # User messages in the request. A program may put the quoted text into a second message.
    messages: int = 1

    def fits(self, texts: Sequence[str], system: str) -> bool:
        return (
            len(texts) == self.messages and self.system in system and _begins(texts[0], self.head, self.marks)
        )


@dataclass(frozen=True, slots=True)
class _SummaryForm:
    """The fixed text of a request for a summary: how the last message begins, and marks that follow."""

    head: str
    marks: tuple[str, ...] = ()
    # Whether the request may offer the tools of the conversation.
    with_tools: bool = False

    def fits(self, text: str, *, has_tools: bool) -> bool:
        return (self.with_tools or not has_tools) and _begins(text, self.head, self.marks)


def _begins(text: str, head: str, marks: Sequence[str]) -> bool:
    """Whether a text begins with the head, and has the marks after it, in their order."""
    if not text.startswith(head):
        return False
    # Two marks may share a line break.
    place = max(0, len(head) - 1)
    for mark in marks:
        place = text.find(mark, place)
        if place < 0:
            return False
        place += len(mark) - 1
    return True


_FORMS = (
    # Open WebUI: titles, tags, follow-ups, searches, and completions of what the user types.
    _Form("### Task:\n", ("\n<chat_history>\n", "\n</chat_history>")),
    # Open WebUI: which tools to call, an emoji for what was said, and one answer made of several.
    _Form(
        "", system="choose and return the correct tool(s) from the list of available tools based on the query"
    ),
    _Form(
        "Your task is to reflect the speaker's likely facial expression through a fitting emoji.",
        ("\n\nMessage: ```",),
    ),
    _Form(
        "You have been provided with a set of responses from various models to the latest user query: ",
        ("\n\nResponses from models: ",),
    ),
    # LibreChat, in its two ways of asking for a title.
    _Form(
        "Provide a concise, 5-word-or-less title for the conversation, ",
        ("\n\nConversation:\nUser: ", "\nAI: "),
    ),
    _Form("Analyze this conversation and provide:\n1. The detected language of ", ("\n\nUser: ", "\nAI: ")),
    # opencode: a title. The user's prompt is a second message.
    _Form("Generate a title for this conversation:", system="You are a title generator.", messages=2),
    # Codex: what to remember of an earlier conversation.
    _Form(
        "Analyze this rollout and produce JSON with `raw_memory`,",
        ("\nrollout_context:\n",),
        "You are a Memory Writing Agent.",
    ),
    # VS Code's chat, if its utility model is the chat's model: titles, branches, progress, commits, pull requests.
    _Form(
        "Please write a brief title for the following request:\n\n",
        system="Here are some examples of good titles:",
    ),
    _Form(
        "Please write a brief branch name for the following request:\n\n",
        system="Here are some examples of good branch names:",
    ),
    _Form(
        "Please generate exactly ",
        (" unique progress messages for the ", "\nReturn only a JSON array of strings, no other text."),
        "Examples of good progress messages:",
    ),
    _Form(
        "<prompt>",
        ("</prompt>", "Generate a single short progress message"),
        "Examples of good contextual progress messages:",
    ),
    _Form("", ("# CODE CHANGES:",), "come with the best git commit message for their code changes"),
    _Form("", system="Pull requests have a short and concise title that describes the changes in the code"),
    # VS Code: names for a symbol, which kind of question it is, a failed command or patch, and groups of tools.
    _Form(
        "",
        ("Reply with a JSON array of strings of at least four new names",),
        "You must reply with a JSON array of strings of at least four new names",
    ),
    _Form(
        "A software developer is using an AI chatbot in a code editor",
        system="When asked for your name, you must respond with",
    ),
    _Form("", system="help the user fix a command that was run in the terminal by providing a list of"),
    _Form("", system="The user has provided a patch that failed to apply because it references context"),
    _Form("", system="You are given multiple groups of tools that have been clustered together"),
    _Form(
        "Original user request:\n",
        ("\n\nConversation transcript:\n", "\n\nHas the original request been fully completed?"),
        "You are an evaluator inside an autonomous coding agent loop.",
    ),
    # VS Code itself: how risky a call is, what changes mean, what was done, a badge, a dictation.
    _Form("You assess what one terminal command does for a code-editing AI agent, and how risky"),
    _Form("You assess what one tool call does for a code-editing AI agent, and how risky"),
    _Form(
        "Analyze these ",
        (
            " code changes across ",
            "\n\n=== CHANGE 0 (File: ",
            "\n\nRespond with a JSON array containing exactly ",
        ),
    ),
    _Form(
        "Summarize the following content in a SINGLE sentence (under 10 words) using past tense.",
        ("OUTPUT FORMAT:", "Content: "),
    ),
    _Form("", system="You summarize a user's coding request into a single short phrase suitable for a"),
    _Form("", system="You clean up raw speech-to-text (dictation) output."),
)

# How VS Code's chat asks for a summary, in the system message or in the last one. The request may offer tools. The user's
# own text is never there: VS Code puts it between tags.
_SUMMARISE = "Your task is to create a comprehensive, detailed summary of the entire conversation"
# How system messages begin whose requests carry a conversation, and may offer its tools. A person writes none of these.
_INSTRUCTIONS = (
    _SUMMARISE,
    # opencode: a compaction, in two versions, and a summary.
    "You are an anchored context summarization assistant for coding sessions.",
    "You are a helpful AI assistant tasked with summarizing conversations.",
    "Summarize what was done in this conversation. Write like a pull request description.",
    # Codex: whether an action may run without a question.
    "You are judging one planned coding-agent action.",
)
# How the last message begins. Where a person may write it as well, the request has no tools, or the text has more marks.
_SUMMARIES = (
    _SummaryForm(_SUMMARISE, with_tools=True),
    # Codex, whose conversations always offer tools.
    _SummaryForm(
        "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM"
    ),
    # Open WebUI.
    _SummaryForm(
        "### Task:\nSummarize the conversation ",
        (" that will be compacted out of the active chat context.", "\n### Instructions:\n"),
    ),
    # LibreChat: the first one, and the following ones.
    _SummaryForm(
        "Hold on, before you continue I need you to write me a checkpoint of everything so far.",
        ("Only the checkpoint, don't respond to me or continue the conversation.", "\nRules:\n"),
        with_tools=True,
    ),
    _SummaryForm(
        "Hold on again, update your checkpoint.",
        ("Only the checkpoint, don't respond to me or continue the conversation.", "\nRules:\n"),
        with_tools=True,
    ),
)


def is_side_request(messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> bool:
    """Return whether the request has the form of a side request. `messages` are as the program sent them."""
    instructions = [message.text for message in messages if message.role == "system"]
    if any(text.lstrip().startswith(_INSTRUCTIONS) for text in instructions):
        return True
    spoken = [message for message in messages if message.role != "system"]
    if spoken and spoken[-1].role == "user":
        last = spoken[-1].text.strip()
        if any(form.fits(last, has_tools=bool(tools)) for form in _SUMMARIES):
            return True
    if tools or not spoken or any(message.role != "user" for message in spoken):
        return False
    texts = [message.text.strip() for message in spoken]
    system = "\n".join(instructions)
    return any(form.fits(texts, system) for form in _FORMS)
