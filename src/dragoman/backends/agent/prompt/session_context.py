"""What a prompt contains beside the new messages, and how much of it the agent's session already has.

An agent that is new to a conversation gets everything: the history as a transcript, and the consumer's context. After
that its session has them, and it gets only what is new. What was sent may be taken back, that is, sent again. The
transcript only until the agent has acknowledged a turn: then its session has the conversation, even if the process exits.
The context also after that: it is short, and a repeated context replaces everything before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dragoman.backends.agent.prompt.prompting import (
    Composed,
    beginning_with,
    command_of,
    compose,
    split_prompt,
)
from dragoman.conversations.context import news
from dragoman.conversations.records import RequestKey
from dragoman.lm import Message, Role

__all__ = ["SessionContext"]


class SessionContext:
    """The prompt context of one conversation."""

    def __init__(self, budget: int, *, is_known: bool) -> None:
        """The transcript stays within `budget` tokens.

        `is_known`: the agent has a session of this conversation from another process, and its context is unknown.
        """
        self._budget = budget
        # Of the latest request: the messages before the user's last messages, those, and the consumer's context.
        self._before: tuple[Message, ...] = ()
        self._words: tuple[Message, ...] = ()
        self._context = ""
        # Whether the session has nothing of the conversation, and the context that was sent to it; None: unknown.
        self._is_new = not is_known
        self._sent: str | None = None if is_known else ""
        # The same before the last prompt.
        self._was_new = self._is_new
        self._sent_before = self._sent

    @property
    def is_new(self) -> bool:
        """Whether the session has nothing of the conversation, or possibly nothing."""
        return self._is_new

    @property
    def was_new(self) -> bool:
        """Whether the session had nothing of the conversation before the last prompt."""
        return self._was_new

    @property
    def words(self) -> tuple[Message, ...]:
        """The user's last messages."""
        return self._words

    def last_text(self, role: Role) -> str:
        """The text of the last message of the user or the model before those."""
        return next((each.text for each in reversed(self._before) if each.role == role and each.text), "")

    def update(self, request_key: RequestKey) -> None:
        self._before, self._words = split_prompt(request_key.messages)
        self._context = request_key.context

    def begin(self) -> None:
        """Reset it for a new session."""
        self._is_new = self._was_new = True
        self._sent = self._sent_before = ""

    def prompt(
        self,
        prompt: Sequence[Message],
        *,
        images: bool,
        demand: str = "",
        commands: Collection[str] = frozenset(),
    ) -> Composed:
        """Compose a prompt with all that the session lacks, and mark that as sent. `demand`: what the answer must be.

        `commands` are the agent's. Agents run one only if the prompt begins with it, so the context waits for the next
        prompt then. A transcript and a demand cannot wait.
        """
        self._was_new, self._sent_before = self._is_new, self._sent
        words = self._words if self._is_new else prompt
        has_more = bool(demand or (self._is_new and self._before))
        if not has_more and (command := command_of(words, commands)) is not None:
            self._is_new = False
            composed = compose(words, context="", history=(), images=images, budget=self._budget)
            return beginning_with(composed, command)
        composed = compose(
            # A new session gets everything before the last messages as the transcript.
            words,
            context=news(self._sent, self._context),
            history=self._before if self._is_new else (),
            images=images,
            budget=self._budget,
            demand=demand,
        )
        self._is_new, self._sent = False, self._context or self._sent
        return composed

    def steer(self, words: Sequence[Message], *, images: bool, demand: str = "") -> Composed:
        """Compose messages for a turn that runs. The context waits for the next prompt."""
        return compose(words, context="", history=(), images=images, budget=self._budget, demand=demand)

    def take_back(self, *, acknowledged: bool) -> None:
        """Send the content of the last prompt again with the next, because the session may not have stored it.

        `acknowledged`: the agent has sent output of that turn, so its session has the conversation and needs no transcript.
        """
        if not acknowledged:
            self._is_new = self._was_new
        if self._sent != self._sent_before:
            self._sent = self._sent_before = None
