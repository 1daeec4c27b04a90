"""Side requests: a title, tags, questions to go on with, which a chat UI asks for beside the chat.

They come to the model that the chat has, and an agent would begin a conversation for each, and perhaps set to work. So
they are answered apart, as those of our extension are. A client can say by a header that a request is one. Of programs
that cannot, they are known by the whole form of the prompt: the words that the program puts before and after what it
quotes, alone in a request without tools. Nobody talks to an agent like that; who does gets an answer all the same, from
an agent that may do nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.lm import Message, ToolDefinition

__all__ = ["is_said_aside", "is_side_request"]

_HEADER = "x-dragoman-aside"


@dataclass(frozen=True, slots=True)
class _Form:
    """The words that a message begins with, those that follow in this order, and some of the system message's."""

    head: str
    marks: tuple[str, ...]
    system: str = ""

    def fits(self, text: str, system: str) -> bool:
        if not text.startswith(self.head) or self.system not in system:
            return False
        # Two may share a line break.
        place = len(self.head) - 1
        for mark in self.marks:
            place = text.find(mark, place)
            if place < 0:
                return False
            place += len(mark) - 1
        return True


_FORMS = (
    # Open WebUI: titles, tags, follow-ups, searches, and what the person may be about to type.
    _Form("### Task:\n", ("\n<chat_history>\n", "\n</chat_history>")),
    # LibreChat, in its two manners of asking for a title.
    _Form(
        "Provide a concise, 5-word-or-less title for the conversation, ",
        ("\n\nConversation:\nUser: ", "\nAI: "),
    ),
    _Form("Analyze this conversation and provide:\n1. The detected language of ", ("\n\nUser: ", "\nAI: ")),
    # VS Code, where its utility model is the chat's own: words for a bar of progress, and a title.
    _Form(
        "Please generate exactly ",
        (" unique progress messages for the ", "\nReturn only a JSON array of strings, no other text."),
        "Examples of good progress messages:",
    ),
    _Form(
        "Please write a brief title for the following request:\n\n",
        (),
        "Here are some examples of good titles:",
    ),
)


def is_said_aside(headers: Mapping[str, str]) -> bool:
    return headers.get(_HEADER, "").strip().lower() in ("true", "1")


def is_side_request(messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> bool:
    """Whether it has the form of one."""
    spoken = [message for message in messages if message.role != "system"]
    if tools or len(spoken) != 1 or spoken[0].role != "user":
        return False
    text = spoken[0].text.strip()
    system = "\n".join(message.text for message in messages if message.role == "system")
    return any(form.fits(text, system) for form in _FORMS)
