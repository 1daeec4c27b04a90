"""What an agent is told beside the words that are new, and how much of it its session has been told before.

An agent that is new to a conversation is told everything: what was said, as a transcript, and what the consumer's program
says, as context. After that its session remembers, and it is told what is new. What a session was told may be taken back. The
conversation only until the agent has shown that it heard of it: then its session knows it, whatever becomes of the agent.
What the program says also after that: it is short, and told once more it stands in the place of everything before.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.backends.agent.prompt.prompting import Composed, compose, split_prompt
from dragoman.conversations.context import news
from dragoman.conversations.records import RequestKey
from dragoman.lm import Message, Role

__all__ = ["SessionContext"]


class SessionContext:
    """Of one conversation. `is_known`: it has a session that was told of it by somebody else, and nobody knows what."""

    def __init__(self, budget: int, *, is_known: bool) -> None:
        """The transcript stays within `budget` tokens."""
        self._budget = budget
        # Of the latest request: what was said before the user's last words, those, and what the program says.
        self._before: tuple[Message, ...] = ()
        self._words: tuple[Message, ...] = ()
        self._context = ""
        # Whether the session knows nothing of the conversation, and the context it was told; None: nobody knows which.
        self._is_new = not is_known
        self._sent: str | None = None if is_known else ""
        # The same before the last prompt.
        self._was_new = self._is_new
        self._sent_before = self._sent

    @property
    def is_new(self) -> bool:
        """Whether the session knows nothing of the conversation, or perhaps nothing."""
        return self._is_new

    @property
    def was_new(self) -> bool:
        """Whether it knew nothing before the last prompt."""
        return self._was_new

    @property
    def words(self) -> tuple[Message, ...]:
        """The user's last words."""
        return self._words

    def last_text(self, role: Role) -> str:
        """What the user or the model said last before those."""
        return next((each.text for each in reversed(self._before) if each.role == role and each.text), "")

    def update(self, request_key: RequestKey) -> None:
        self._before, self._words = split_prompt(request_key.messages)
        self._context = request_key.context

    def begin(self) -> None:
        """The session is a new one."""
        self._is_new = self._was_new = True
        self._sent = self._sent_before = ""

    def prompt(self, prompt: Sequence[Message], *, images: bool) -> Composed:
        """All that is to be told with these words; from now on it has been."""
        self._was_new, self._sent_before = self._is_new, self._sent
        composed = compose(
            # An agent that has heard nothing yet gets everything before the last words as the transcript.
            self._words if self._is_new else prompt,
            context=news(self._sent, self._context),
            history=self._before if self._is_new else (),
            images=images,
            budget=self._budget,
        )
        self._is_new, self._sent = False, self._context or self._sent
        return composed

    def steer(self, words: Sequence[Message], *, images: bool) -> Composed:
        """Words for a turn that runs: whatever else there is to tell waits for the next."""
        return compose(words, context="", history=(), images=images, budget=self._budget)

    def take_back(self, *, acknowledged: bool) -> None:
        """What the last prompt told is told again. The session may have kept it all the same.

        `acknowledged`: the agent has shown a sign of it, so that it is not told the conversation like one that joins it.
        """
        if not acknowledged:
            self._is_new = self._was_new
        if self._sent != self._sent_before:
            self._sent = self._sent_before = None
