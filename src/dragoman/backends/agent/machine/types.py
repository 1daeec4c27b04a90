"""What the machine of a conversation is told (events), and what it asks for (commands). All of it is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from dragoman.lm import LanguageModelError, Message, Part, ToolCallPart
from dragoman.lm.parts import ToolResult

__all__ = [
    "AgentExited",
    "AgentStarted",
    "AgentTurnEnded",
    "AgentUnfit",
    "Announced",
    "AnswerPending",
    "CallAnswer",
    "CallWithdrawn",
    "Called",
    "ClearTimer",
    "Discard",
    "Emit",
    "EndReply",
    "Forget",
    "Granted",
    "Interrupted",
    "Keep",
    "MachineCommand",
    "MachineEvent",
    "Noticed",
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
    "TakeBack",
    "TimedOut",
    "Timer",
    "TimerPassed",
    "TurnCancelled",
]

Prompt: TypeAlias = tuple[Message, ...]

# gather: siblings may still come. gather_limit: that was long enough. grace: a cancelled turn should have stopped.
# human: a person had their time. idle: nothing has happened for long.
Timer: TypeAlias = Literal["gather", "gather_limit", "grace", "human", "idle"]
ReplyEnd: TypeAlias = Literal["complete", "cut", "failed"]


class _Value(msgspec.Struct, frozen=True):
    """One is made for every word of an agent's, and this kind is made fastest."""


# What may become of a call or a permission request.


class Interrupted(_Value, frozen=True):
    """A tool call was cut off: nobody answered it, or its turn ended."""


class TimedOut(_Value, frozen=True):
    """Nobody decided in time."""


class Granted(_Value, frozen=True):
    """A permission is given, once, and proved."""


class Refused(_Value, frozen=True):
    """A permission is refused; the turn goes on. `asked`: by a person, and not because nobody was or could be asked."""

    reason: str | None = None
    asked: bool = True


class TurnCancelled(_Value, frozen=True):
    """A permission request ends with its turn."""


CallAnswer: TypeAlias = ToolResult | Interrupted | TimedOut | Granted | Refused | TurnCancelled


class Pending(_Value, frozen=True):
    """What the agent waits for. `key` is the agent's name for it, `part` what the consumer is given."""

    key: str
    kind: Literal["call", "permission"]
    part: ToolCallPart
    handed_over: bool = False

    @property
    def call_id(self) -> str:
        return self.part.call_id


class Steering(_Value, frozen=True):
    """Words that were given to the agent in mid-turn, by the reply they came with."""

    reply: int
    prompt: Prompt


# Events.


class Requested(_Value, frozen=True):
    """A consumer's request, identified. `cancels`: the open turn is not wanted any more.

    `notices` are for the beginning of its reply: what became of results that it brought, and no call waits for.
    """

    reply: int
    answers: Mapping[str, CallAnswer] = msgspec.field(default_factory=dict)
    prompt: Prompt = ()
    cancels: bool = False
    notices: tuple[Part, ...] = ()


class ReplyCancelled(_Value, frozen=True):
    """Nobody listens to a reply any more."""

    reply: int


class AgentStarted(_Value, frozen=True):
    """The agent has a session, and has listed the tools. `steers`: it takes words in mid-turn."""

    steers: bool = False


class AgentExited(_Value, frozen=True):
    """The agent could not start, or is gone."""

    error: LanguageModelError


class Spoke(_Value, frozen=True):
    """Something for the consumer: text, thinking, data."""

    part: Part


class Noticed(_Value, frozen=True):
    """Something of our own for the consumer: no sign of the agent."""

    part: Part


class Announced(_Value, frozen=True):
    """The agent is about to call one of the consumer's tools; `over`: it no longer is."""

    key: str
    over: bool = False


class Called(_Value, frozen=True):
    """A tool call or permission request arrived."""

    pending: Pending
    # The announcement it was expected by, if any.
    announced: str | None = None


class CallWithdrawn(_Value, frozen=True):
    """The agent no longer waits for it."""

    key: str


class AgentTurnEnded(_Value, frozen=True):
    """The agent's answer to the prompt. `last_words` tell the user of a stop that is not the normal one."""

    last_words: tuple[Part, ...] = ()
    error: LanguageModelError | None = None


class AgentUnfit(_Value, frozen=True):
    """This run of the agent cannot take the prompt under way, and another can: it was not sent, or nothing came of it."""

    prompt: Prompt


class Steered(_Value, frozen=True):
    """What became of the words of that reply: the turn under way has them, or it has not."""

    reply: int
    taken: bool


class TimerPassed(_Value, frozen=True):
    timer: Timer


MachineEvent: TypeAlias = (
    Requested
    | ReplyCancelled
    | AgentStarted
    | AgentExited
    | Spoke
    | Noticed
    | Announced
    | Called
    | CallWithdrawn
    | AgentTurnEnded
    | AgentUnfit
    | Steered
    | TimerPassed
)


# Commands.


class StartAgent(_Value, frozen=True):
    """Spawn, resume or load; what the agent has not seen is replayed."""


class StopAgent(_Value, frozen=True):
    """End the process and everything that belongs to it."""


class SendPrompt(_Value, frozen=True):
    prompt: Prompt


class TakeBack(_Value, frozen=True):
    """The agent may not have kept what the last prompt told it beside the words: it is told again with the next.

    `heard`: it has shown a sign of that turn, so its session knows the conversation.
    """

    heard: bool = False


class Steer(_Value, frozen=True):
    """Words for the turn that runs."""

    steering: Steering


class SendCancel(_Value, frozen=True):
    pass


class AnswerPending(_Value, frozen=True):
    """Give the agent what it waits for."""

    pending: Pending
    answer: CallAnswer


class Forget(_Value, frozen=True):
    """The agent does not wait for it any more. The consumer has it, and may still bring a result."""

    pending: Pending


class OpenReply(_Value, frozen=True):
    reply: int


class Emit(_Value, frozen=True):
    """Into the open reply."""

    part: Part


class Keep(_Value, frozen=True):
    """For the next reply."""

    part: Part


class Release(_Value, frozen=True):
    """All that was kept goes into the open reply, in order."""


class Discard(_Value, frozen=True):
    """What was kept belongs to a turn that was cancelled."""


class EndReply(_Value, frozen=True):
    reply: int
    end: ReplyEnd
    error: LanguageModelError | None = None


class SetTimer(_Value, frozen=True):
    timer: Timer


class ClearTimer(_Value, frozen=True):
    timer: Timer


MachineCommand: TypeAlias = (
    StartAgent
    | StopAgent
    | SendPrompt
    | TakeBack
    | Steer
    | SendCancel
    | AnswerPending
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
