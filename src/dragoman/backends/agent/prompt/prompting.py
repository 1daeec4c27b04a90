"""Composes prompts for an agent: the user's new messages, preceded by what the agent's session lacks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dragoman.acp.content import ContentBlock, TextBlock
from dragoman.acp.messages import PromptResponse
from dragoman.backends.agent.prompt.replay import blocks_of, context_block, transcript
from dragoman.lm import Message, Part, TextPart, ToolResultPart
from dragoman.lm.gfm import escape, notice_part
from dragoman.lm.stops import Stopped

__all__ = ["Composed", "beginning_with", "command_of", "compose", "last_words", "split_prompt"]

# Stop reasons that the user gets a notice about, because the answer is not complete.
_STOPS = {
    "max_tokens": Stopped("length", "The agent stopped: it reached the limit of tokens for one answer."),
    "max_turn_requests": Stopped(
        "length", "The agent stopped: it reached the limit of model requests for one turn."
    ),
    "refusal": Stopped("content_filter", "The agent refused to go on."),
    "cancelled": Stopped("other", "The agent stopped this turn by itself."),
}

# How agents end a turn after a refusal: opencode and others the one way, Codex the other, without a cancel from us.
_AFTER_REFUSAL = frozenset({"end_turn", "cancelled"})

# The prompt for an agent that takes over in the middle of a turn.
_GO_ON = "Go on from where the conversation stopped."


@dataclass(frozen=True, slots=True)
class Composed:
    """A prompt as content blocks, and notices about it."""

    blocks: tuple[ContentBlock, ...]
    # For the user: what the agent does not get.
    notices: tuple[str, ...] = ()
    # The MIME types of the files among it, for programs.
    left_out: tuple[str, ...] = ()


def split_prompt(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Split messages into those up to the last answer, and the user's messages after it."""
    last = max((index for index, message in enumerate(messages) if message.role == "assistant"), default=-1)
    spoken = [message for message in messages[last + 1 :] if message.role == "user"]
    return tuple(messages[: last + 1]), tuple(spoken)


def compose(
    prompt: Sequence[Message],
    *,
    context: str,
    history: Sequence[Message],
    images: bool,
    budget: int,
    demand: str = "",
) -> Composed:
    """Compose a prompt. `history` is what the agent has not seen; `prompt` may begin with turns of another model.

    `demand` says what the answer must be; it goes before the user's words, and is part of no history. Results in `prompt`
    are of calls that this agent has not made, so they go into the transcript.
    """
    before, words = split_prompt(prompt)
    results = [Message(message.role, message.results) for message in words if message.results]
    replay = transcript((*history, *before, *results), budget=budget, images=images)
    said = [part for message in words for part in message.content if not isinstance(part, ToolResultPart)]
    blocks, refused = blocks_of(said, images=images)
    if not blocks:
        blocks = (TextBlock(_GO_ON),)
    notices = [replay.notice] if replay.notice else []
    notices += [
        f"The agent cannot take {escape(mime_type)}; it was left out." for mime_type in dict.fromkeys(refused)
    ]
    leading = (context_block(context),) if context else ()
    demanded = (TextBlock(demand),) if demand else ()
    left_out = tuple(dict.fromkeys((*refused, *replay.left_out)))
    return Composed((*leading, *replay.blocks, *demanded, *blocks), tuple(notices), left_out)


def command_of(prompt: Sequence[Message], commands: Collection[str]) -> str | None:
    """The text that runs one of the agent's commands, if a text of the user begins with its name."""
    for message in prompt:
        for part in message.content:
            if isinstance(part, TextPart) and part.value.startswith("/"):
                name = part.value[1:].split(maxsplit=1)[:1]
                if name and name[0] in commands:
                    return part.value
    return None


def beginning_with(composed: Composed, text: str) -> Composed:
    """With the block of this text first: attachments may precede it."""
    first = [block for block in composed.blocks if isinstance(block, TextBlock) and block.text == text][:1]
    others = [block for block in composed.blocks if not first or block is not first[0]]
    return replace(composed, blocks=(*first, *others))


def last_words(response: PromptResponse, *, silenced: bool = False) -> tuple[Part, ...]:
    """The parts that a turn's end adds to the answer. `silenced`: the agent has sent no text since a refusal."""
    if silenced and response.stop_reason in _AFTER_REFUSAL:
        return (notice_part("The agent ended its turn after the refusal."),)
    if response.stop_reason != "end_turn":
        unknown = Stopped("other", f"The agent stopped: {escape(response.stop_reason)}.")
        return (_STOPS.get(response.stop_reason, unknown).part,)
    return ()
