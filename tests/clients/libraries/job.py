"""One job of a client: what it is asked to do, and what it found."""

from __future__ import annotations

import json
from typing import Any, TextIO

from pydantic import BaseModel

__all__ = ["KEY", "TOOLS", "City", "Job"]

KEY = "none"
_WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
# The functions that clients offer: name and description.
TOOLS = {"look_up": "Look a word up.", "count": "Count a word."}


class City(BaseModel):
    """A city and how many people live in it."""

    name: str
    people: int


class Job:
    def __init__(self, asked: dict[str, Any], answers: TextIO) -> None:
        self._id: int = asked["id"]
        self._answers = answers
        self.url: str = asked["url"]
        self.model: str = asked["model"]
        self.prompts: list[str] = asked["prompts"]
        self.texts: list[str] = []
        self.thinking = ""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.objects: list[Any] = []

    def tell(self, told: dict[str, Any]) -> None:
        self._answers.write(json.dumps({"id": self._id, **told}) + "\n")

    @property
    def prompt(self) -> str:
        [prompt] = self.prompts
        return prompt

    def piece(self, text: str) -> None:
        """A piece of the answer is there, and the rest is not."""
        self.tell({"piece": text})

    def begun(self, delta: str) -> bool:
        """Whether the first sentence is there, which is when a client aborts."""
        self.texts = ["".join(self.texts) + delta]
        return "." in self.texts[0]

    def call(self, name: str, **arguments: Any) -> str:
        """One of the client's functions is called."""
        self.calls.append((name, arguments))
        return f"<{name} of {arguments['word']}>"

    def functions(self) -> list[dict[str, Any]]:
        """As tools of a response."""
        return [
            {"type": "function", "name": name, "description": words, "parameters": _WORD}
            for name, words in TOOLS.items()
        ]

    def chat_functions(self) -> list[dict[str, Any]]:
        """As tools of a chat completion."""
        return [
            {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
            for tool in self.functions()
        ]

    def result(self) -> dict[str, Any]:
        return {
            "texts": self.texts,
            "thinking": self.thinking,
            "calls": self.calls,
            "objects": [
                value.model_dump() if isinstance(value, BaseModel) else value for value in self.objects
            ],
        }
