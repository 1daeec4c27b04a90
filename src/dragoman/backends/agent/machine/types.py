"""The events that a conversation's machine receives, and the commands that it returns. All of it is frozen."""

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
    "Decided",
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
    "ReplyDetached",
    "ReplyEnd",
    "ReplyVerdict",
    "Requested",
    "SendCancel",
    "SendPrompt",
    "SetTimer",
    "Settle",
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
    "TurnStopped",
    "Unmet",
]

Prompt: TypeAlias = tuple[Message, ...]

# gather: a sibling of the last call may still come. gather_limit: the longest wait for all siblings. grace: the time
# for a cancelled turn to stop. human: the time for a person to decide. idle: the time without activity until parking.
Timer: TypeAlias = Literal["gather", "gather_limit", "grace", "human", "idle"]
ReplyEnd: TypeAlias = Literal["complete", "cut", "failed"]


class _Value(msgspec.Struct, frozen=True):
    """A msgspec struct, because that is the fastest to create: every chunk of an agent's output makes one."""


# What may become of a call or a permission request.


class Interrupted(_Value, frozen=True):
    """A tool call was cut off: no result arrived for it, or its turn ended."""


class TimedOut(_Value, frozen=True):
    """No decision arrived in time."""


class Granted(_Value, frozen=True):
    """A permission is given, once, and proved."""


class Refused(_Value, frozen=True):
    """A permission is refused; the turn goes on. `timeout`: a person was asked, and did not decide in time."""

    reason: str | None = None
    by: Literal["person", "no_one", "timeout"] = "person"


class TurnCancelled(_Value, frozen=True):
    """A permission request ends with its turn."""


CallAnswer: TypeAlias = ToolResult | Interrupted | TimedOut | Granted | Refused | TurnCancelled


class Pending(_Value, frozen=True):
    """A call or request that the agent waits for. `key` is the agent's name for it, `part` what the consumer gets."""

    key: str
    kind: Literal["call", "permission"]
    part: ToolCallPart
    handed_over: bool = False
    # A person is asked at the console, and the consumer never gets it.
    at_console: bool = False

    @property
    def call_id(self) -> str:
        return self.part.call_id


class Steering(_Value, frozen=True):
    """Messages that were sent to the agent in mid-turn, with the reply of their request."""

    reply: int
    prompt: Prompt


class Unmet(_Value, frozen=True):
    """A reply lacks what its request demands: an answer of a form, or a call.

    `prompt` asks the agent for it once more. `error` is for the consumer, if the reply ends so.
    """

    prompt: Prompt
    error: LanguageModelError


class ReplyVerdict(_Value, frozen=True):
    """Whether the reply with this number meets its demand, now that the agent has ended its turn.

    `answer` is what the consumer gets in the place of the text that was held back, if the demand is met.
    """

    reply: int
    answer: tuple[Part, ...] = ()
    unmet: Unmet | None = None


# Events.


class Requested(_Value, frozen=True):
    """A consumer's request, identified. `cancels`: it cancels the open turn.

    `notices` go to the beginning of its reply: what became of results that it brought and that no call waits for. `unmet`:
    the request demands something of its reply, which holds until the reply is judged.
    """

    reply: int
    answers: Mapping[str, CallAnswer] = msgspec.field(default_factory=dict)
    prompt: Prompt = ()
    cancels: bool = False
    notices: tuple[Part, ...] = ()
    unmet: Unmet | None = None


class ReplyCancelled(_Value, frozen=True):
    """The last listener of a reply has left."""

    reply: int


class AgentStarted(_Value, frozen=True):
    """The agent has a session, and has listed the tools. `steers`: it accepts messages in mid-turn."""

    steers: bool = False


class AgentExited(_Value, frozen=True):
    """The agent could not start, or is gone."""

    error: LanguageModelError


class Spoke(_Value, frozen=True):
    """Output of the agent for the consumer: text, thinking, data."""

    part: Part


class Noticed(_Value, frozen=True):
    """A part of our own for the consumer. It does not count as output of the agent."""

    part: Part


class Announced(_Value, frozen=True):
    """The agent is about to call one of the consumer's tools; `over`: it no longer is."""

    key: str
    over: bool = False


class Called(_Value, frozen=True):
    """A tool call or permission request arrived."""

    pending: Pending
    # The key of its announcement, if it was announced.
    announced: str | None = None


class CallWithdrawn(_Value, frozen=True):
    """The agent no longer waits for this call or request."""

    key: str


class Decided(_Value, frozen=True):
    """A person at the console has decided about a permission request, or the time for that has passed."""

    key: str
    answer: Granted | Refused


class ReplyDetached(_Value, frozen=True):
    """The consumer of a reply waits no longer. The reply ends with these parts, and the turn goes on."""

    reply: int
    parts: tuple[Part, ...]


class TurnStopped(_Value, frozen=True):
    """A person at the console stops the turn. An open reply ends with this part."""

    part: Part


class AgentTurnEnded(_Value, frozen=True):
    """The agent's answer to the prompt. `last_words` explain a stop that is not the normal one to the user.

    `verdict` is there if the open reply has a demand.
    """

    last_words: tuple[Part, ...] = ()
    error: LanguageModelError | None = None
    verdict: ReplyVerdict | None = None


class AgentUnfit(_Value, frozen=True):
    """This run of the agent cannot take the prompt under way, but a new run can. No output of the turn has arrived."""

    prompt: Prompt


class Steered(_Value, frozen=True):
    """Whether the turn under way has taken the messages that were steered with this reply."""

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
    | Decided
    | ReplyDetached
    | TurnStopped
    | AgentTurnEnded
    | AgentUnfit
    | Steered
    | TimerPassed
)


# Commands.


class StartAgent(_Value, frozen=True):
    """Spawn the process, and resume, load or create its session; what the agent has not seen is replayed."""


class StopAgent(_Value, frozen=True):
    """End the process and everything that belongs to it."""


class SendPrompt(_Value, frozen=True):
    prompt: Prompt


class TakeBack(_Value, frozen=True):
    """Send the context and transcript of the last prompt again with the next: the session may not have stored them.

    `acknowledged`: the agent has sent output of that turn, so its session has the conversation.
    """

    acknowledged: bool = False


class Steer(_Value, frozen=True):
    """Send messages into the turn that runs."""

    steering: Steering


class SendCancel(_Value, frozen=True):
    pass


class AnswerPending(_Value, frozen=True):
    """Give the agent what it waits for."""

    pending: Pending
    answer: CallAnswer


class Forget(_Value, frozen=True):
    """Drop a call that the agent no longer waits for. The consumer has it, and may still bring a result."""

    pending: Pending


class OpenReply(_Value, frozen=True):
    reply: int


class Emit(_Value, frozen=True):
    """Send a part to the open reply."""

    part: Part


class Settle(_Value, frozen=True):
    """Send the answer of the open reply in the place of the text that was held back."""

    answer: tuple[Part, ...]


class Keep(_Value, frozen=True):
    """Add a part to the backlog, for the next reply."""

    part: Part


class Release(_Value, frozen=True):
    """Send the backlog to the open reply, in order."""


class Discard(_Value, frozen=True):
    """Discard the backlog: it belongs to a turn that was cancelled."""


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
    | Settle
    | Keep
    | Release
    | Discard
    | EndReply
    | SetTimer
    | ClearTimer
)
