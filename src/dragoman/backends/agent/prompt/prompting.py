"""What is said to an agent: the user's new words, and before them whatever it does not know yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.acp.content import ContentBlock, TextBlock
from dragoman.acp.messages import PromptResponse
from dragoman.backends.agent.prompt.replay import blocks_of, context_block, transcript
from dragoman.lm import Message, Part, TextPart, ToolResultPart
from dragoman.lm.gfm import escape, notice
from dragoman.lm.stops import Stopped

__all__ = ["Composed", "compose", "last_words", "split_prompt"]

# Stop reasons that a user must hear of, because the answer is not what it seems.
_STOPS = {
    "max_tokens": Stopped("length", "The agent stopped: it reached the limit of tokens for one answer."),
    "max_turn_requests": Stopped(
        "length", "The agent stopped: it reached the limit of model requests for one turn."
    ),
    "refusal": Stopped("content_filter", "The agent refused to go on."),
    "cancelled": Stopped("other", "The agent stopped this turn by itself."),
}

# How agents end a turn in which they were refused something: opencode and others the one way, Codex the other. Nobody
# else has cancelled it.
_AFTER_REFUSAL = frozenset({"end_turn", "cancelled"})

# To an agent that takes a turn over in its middle.
_GO_ON = "Go on from where the conversation stopped."


@dataclass(frozen=True, slots=True)
class Composed:
    blocks: tuple[ContentBlock, ...]
    # For the user: what the agent does not get.
    notices: tuple[str, ...] = ()


def split_prompt(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What was said before, and the user's last words: all that follows the last answer."""
    last = max((index for index, message in enumerate(messages) if message.role == "assistant"), default=-1)
    spoken = [message for message in messages[last + 1 :] if message.role == "user"]
    return tuple(messages[: last + 1]), tuple(spoken)


def compose(
    prompt: Sequence[Message], *, context: str, history: Sequence[Message], images: bool, budget: int
) -> Composed:
    """`history` is what the agent has not seen; `prompt` may itself begin with turns it was no part of.

    Results in it are of calls that this agent has not made: they belong to what went before.
    """
    before, words = split_prompt(prompt)
    results = [Message(message.role, message.results) for message in words if message.results]
    told = transcript((*history, *before, *results), budget=budget, images=images)
    said = [part for message in words for part in message.content if not isinstance(part, ToolResultPart)]
    blocks, refused = blocks_of(said, images=images)
    if not blocks:
        blocks = (TextBlock(_GO_ON),)
    notices = [told.notice] if told.notice else []
    notices += [
        f"The agent cannot take {escape(mime_type)}; it was left out." for mime_type in dict.fromkeys(refused)
    ]
    leading = (context_block(context),) if context else ()
    return Composed((*leading, *told.blocks, *blocks), tuple(notices))


def last_words(response: PromptResponse, *, silenced: bool = False) -> tuple[Part, ...]:
    """What a turn's end adds to the answer. `silenced`: the agent has said nothing since it was refused something."""
    if silenced and response.stop_reason in _AFTER_REFUSAL:
        return (TextPart(notice("The agent ended its turn after the refusal.")),)
    if response.stop_reason != "end_turn":
        unknown = Stopped("other", f"The agent stopped: {escape(response.stop_reason)}.")
        return (_STOPS.get(response.stop_reason, unknown).part,)
    return ()
