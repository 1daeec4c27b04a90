"""What the machine of a conversation is told (events), and what it asks for (commands). All of it is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dragoman.lm import ContentPart, LanguageModelError, Message, Part, ToolCallPart

__all__ = [
    "AgentExited",
    "AgentStarted",
    "Announced",
    "Answer",
    "Answered",
    "CallAnswer",
    "Called",
    "ClearTimer",
    "Command",
    "Discard",
    "Emit",
    "EndReply",
    "Event",
    "Forget",
    "Granted",
    "Interrupted",
    "Keep",
    "OpenReply",
    "Pending",
    "Prompt",
    "Refused",
    "Release",
    "ReplyCancelled",
    "ReplyEnd",
    "Requested",
    "SendCancel",
    "SendPrompt",
    "SetTimer",
    "Spoke",
    "StartAgent",
    "Steer",
    "Steered",
    "Steering",
    "StopAgent",
    "TimedOut",
    "Timer",
    "TimerPassed",
    "TurnCancelled",
    "TurnEnded",
    "Withdrawn",
]

Prompt: TypeAlias = tuple[Message, ...]

# gather: siblings may still come. gather_limit: that was long enough. grace: a cancelled turn should have stopped.
# human: a person had their time. idle: nothing has happened for long.
Timer: TypeAlias = Literal["gather", "gather_limit", "grace", "human", "idle"]
ReplyEnd: TypeAlias = Literal["complete", "cut", "failed"]


# What may become of a call or a permission request.


@dataclass(frozen=True, slots=True)
class Answered:
    """A tool call has its result."""

    content: tuple[ContentPart, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A tool call was cut off: nobody answered it, or its turn ended."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Nobody decided in time."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A permission is given, once, and proved."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A permission is refused; the turn goes on."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TurnCancelled:
    """A permission request ends with its turn."""


CallAnswer: TypeAlias = Answered | Interrupted | TimedOut | Granted | Refused | TurnCancelled


@dataclass(frozen=True, slots=True)
class Pending:
    """What the agent waits for. `key` is the agent's name for it, `part` what the consumer is given."""

    key: str
    kind: Literal["call", "permission"]
    part: ToolCallPart
    handed_over: bool = False

    @property
    def call_id(self) -> str:
        return self.part.call_id


@dataclass(frozen=True, slots=True)
class Steering:
    """Words that were given to the agent in mid-turn, by the reply they came with."""

    reply: int
    prompt: Prompt


# Events.


@dataclass(frozen=True, slots=True)
class Requested:
    """A consumer's request, identified. `cancels`: the open turn is not wanted any more."""

    reply: int
    answers: Mapping[str, CallAnswer] = field(default_factory=dict)
    prompt: Prompt = ()
    cancels: bool = False


@dataclass(frozen=True, slots=True)
class ReplyCancelled:
    """Nobody listens to a reply any more."""

    reply: int


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """The agent has a session, and has listed the tools. `steers`: it takes words in mid-turn."""

    steers: bool = False


@dataclass(frozen=True, slots=True)
class AgentExited:
    """The agent could not start, or is gone."""

    error: LanguageModelError


@dataclass(frozen=True, slots=True)
class Spoke:
    """Something for the consumer: text, thinking, data."""

    part: Part


@dataclass(frozen=True, slots=True)
class Announced:
    """The agent is about to call one of the consumer's tools; `over`: it no longer is."""

    key: str
    over: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call or permission request arrived."""

    pending: Pending
    # The announcement it was expected by, if any.
    announced: str | None = None


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The agent no longer waits for it."""

    key: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The agent's answer to the prompt. `last_words` tell the user of a stop that is not the normal one."""

    last_words: tuple[Part, ...] = ()
    error: LanguageModelError | None = None


@dataclass(frozen=True, slots=True)
class Steered:
    """What became of the words of that reply: the turn under way has them, or it has not."""

    reply: int
    taken: bool


@dataclass(frozen=True, slots=True)
class TimerPassed:
    timer: Timer


Event: TypeAlias = (
    Requested
    | ReplyCancelled
    | AgentStarted
    | AgentExited
    | Spoke
    | Announced
    | Called
    | Withdrawn
    | TurnEnded
    | Steered
    | TimerPassed
)


# Commands.


@dataclass(frozen=True, slots=True)
class StartAgent:
    """Spawn, resume or load; what the agent has not seen is replayed."""


@dataclass(frozen=True, slots=True)
class StopAgent:
    """End the process and everything that belongs to it."""


@dataclass(frozen=True, slots=True)
class SendPrompt:
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Steer:
    """Words for the turn that runs."""

    steering: Steering


@dataclass(frozen=True, slots=True)
class SendCancel:
    pass


@dataclass(frozen=True, slots=True)
class Answer:
    """Give the agent what it waits for."""

    pending: Pending
    answer: CallAnswer


@dataclass(frozen=True, slots=True)
class Forget:
    """The agent does not wait for it any more. The consumer has it, and may still bring a result."""

    pending: Pending


@dataclass(frozen=True, slots=True)
class OpenReply:
    reply: int


@dataclass(frozen=True, slots=True)
class Emit:
    """Into the open reply."""

    part: Part


@dataclass(frozen=True, slots=True)
class Keep:
    """For the next reply."""

    part: Part


@dataclass(frozen=True, slots=True)
class Release:
    """All that was kept goes into the open reply, in order."""


@dataclass(frozen=True, slots=True)
class Discard:
    """What was kept belongs to a turn that was cancelled."""


@dataclass(frozen=True, slots=True)
class EndReply:
    reply: int
    end: ReplyEnd
    error: LanguageModelError | None = None


@dataclass(frozen=True, slots=True)
class SetTimer:
    timer: Timer


@dataclass(frozen=True, slots=True)
class ClearTimer:
    timer: Timer


Command: TypeAlias = (
    StartAgent
    | StopAgent
    | SendPrompt
    | Steer
    | SendCancel
    | Answer
    | Forget
    | OpenReply
    | Emit
    | Keep
    | Release
    | Discard
    | EndReply
    | SetTimer
    | ClearTimer
)
