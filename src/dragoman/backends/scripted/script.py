"""The types of a script: replies, their conditions, and their steps.

A consumer sends its whole history with every request, so a script keeps no place of its own: the first reply whose
conditions hold for a request answers it. In a file each reply is one line of JSON (`load`); in Python it is written
with the functions here:

    ScriptedModel.of(
        reply(think("A file, then."), say("Let me look."), call("read_file", path="notes.txt")),
        reply("It says: ${result}"),
    )
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

import msgspec

from dragoman.lm import Capabilities, DataPart, ErrorKind, JsonObject, ModelInfo, Outcome

__all__ = [
    "DEFAULT_INFO",
    "STEPS",
    "Act",
    "Call",
    "Data",
    "Fail",
    "Image",
    "Say",
    "Script",
    "ScriptStep",
    "ScriptedReply",
    "Think",
    "Wait",
    "When",
    "act",
    "call",
    "data",
    "fail",
    "forever",
    "image",
    "reply",
    "say",
    "think",
    "wait",
]

_NotNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
# Words a second.
_Pace: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]


class _Written(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Base of the types that stand in a script file."""


class When(_Written, frozen=True):
    """Conditions on a request. All that are given must hold; none at all always holds."""

    # Searched for in the last thing the user said.
    prompt: str | None = None
    # Searched for in the results that came since the last answer; does not hold without any.
    result: str | None = None
    # At least one of those results came to this.
    outcome: Outcome | None = None
    # The last answer called this tool.
    called: str | None = None
    # How many answers there are since the last prompt: 0 answers the prompt, 1 reacts to the first results.
    round: _NotNegative | None = None
    # How many answers there are in the whole history.
    answers: _NotNegative | None = None
    # These tools are offered.
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, pattern in (("prompt", self.prompt), ("result", self.result)):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ValueError(f"`{name}` is not a regular expression: {error}") from error


class Say(_Written, frozen=True):
    say: str
    pace: _Pace | None = None


class Think(_Written, frozen=True):
    think: str
    pace: _Pace | None = None


class Call(_Written, frozen=True):
    call: str
    input: JsonObject = {}
    # Arguments that are no JSON object, as a model may write them.
    unparsed: str | None = None
    # Without one the call gets an id of its own.
    call_id: str | None = None


class Data(_Written, frozen=True):
    """A JSON value; with a mime type that is not JSON, a text."""

    data: object
    mime_type: str = "application/json"

    def part(self) -> DataPart:
        if isinstance(self.data, str) and "json" not in self.mime_type:
            return DataPart.text(self.data, self.mime_type)
        return DataPart.json(self.data, self.mime_type)


class Image(_Written, frozen=True):
    image: bytes
    mime_type: str = "image/png"

    def __post_init__(self) -> None:
        self.part()

    def part(self) -> DataPart:
        return DataPart.image(self.image, self.mime_type)


class Wait(_Written, frozen=True):
    """A pause. `forever` lasts until the request is cancelled."""

    wait: _Seconds | Literal["forever"]


class Fail(_Written, frozen=True):
    fail: ErrorKind
    message: str = "The script fails here."
    hint: str | None = None
    retry_after: _Seconds | None = None
    # Fail only the first so many times that this step is reached, then go on.
    times: _Positive | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """Call a function and await what it returns, if that can be awaited. Only in Python."""

    action: Callable[[], object]


ScriptStep: TypeAlias = Say | Think | Call | Data | Image | Wait | Fail | Act

# The steps a file can have, by the key that identifies them.
STEPS: dict[str, type[_Written]] = {
    "say": Say,
    "think": Think,
    "call": Call,
    "data": Data,
    "image": Image,
    "wait": Wait,
    "fail": Fail,
}


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    steps: tuple[ScriptStep, ...]
    when: When | None = None
    # Where it is written, for messages about it.
    where: str = ""


DEFAULT_INFO = ModelInfo(
    id="script",
    name="Script",
    family="script",
    version="1",
    max_input_tokens=1_000_000,
    max_output_tokens=64_000,
    capabilities=Capabilities(tool_calling=True, image_input=True),
    required_calls=True,
)


@dataclass(frozen=True, slots=True)
class Script:
    replies: tuple[ScriptedReply, ...]
    info: ModelInfo = DEFAULT_INFO
    # The pace of text and thinking without their own. None: as fast as it is read.
    pace: float | None = None

    @classmethod
    def in_turn(cls, *replies: ScriptedReply | ScriptStep | str) -> Script:
        """A script whose replies without conditions answer one after the other, by the answers the history has."""
        placed: list[ScriptedReply] = []
        unconditional = 0
        for item in replies:
            made = item if isinstance(item, ScriptedReply) else reply(item)
            if made.when is None:
                made = replace(made, when=When(answers=unconditional))
                unconditional += 1
            placed.append(made)
        return cls(tuple(placed))


def reply(*steps: ScriptStep | str, when: When | None = None) -> ScriptedReply:
    """One answer. A string is a text step."""
    return ScriptedReply(tuple(Say(step) if isinstance(step, str) else step for step in steps), when)


def say(text: str, *, pace: float | None = None) -> Say:
    return Say(text, pace)


def think(text: str, *, pace: float | None = None) -> Think:
    return Think(text, pace)


def call(
    name: str,
    arguments: Mapping[str, object] | None = None,
    /,
    *,
    call_id: str | None = None,
    unparsed: str | None = None,
    **more: object,
) -> Call:
    """A tool call: `call("read_file", path="x")`, or with the arguments as a dictionary."""
    return Call(name, {**(arguments or {}), **more}, unparsed, call_id)


def data(value: object, mime_type: str = "application/json") -> Data:
    return Data(value, mime_type)


def image(content: bytes, mime_type: str = "image/png") -> Image:
    return Image(content, mime_type)


def wait(seconds: float) -> Wait:
    return Wait(seconds)


def forever() -> Wait:
    """Wait until cancelled."""
    return Wait("forever")


def fail(
    kind: ErrorKind,
    message: str = "The script fails here.",
    *,
    hint: str | None = None,
    retry_after: float | None = None,
    times: int | None = None,
) -> Fail:
    return Fail(kind, message, hint, retry_after, times)


def act(action: Callable[[], object]) -> Act:
    """Do something in mid-answer: `act(source.cancel)`, `act(gate.wait)`."""
    return Act(action)
