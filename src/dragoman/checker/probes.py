"""The requests that `check` puts to a model, to give it every occasion to break a rule."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dragoman.lm.messages import Message, assistant, system, user
from dragoman.lm.model import ModelInfo
from dragoman.lm.parts import UNKNOWN_PART, USAGE, DataPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.lm.request import Consumer, Features, Request, RequestOptions, ToolDefinition, ToolMode

__all__ = [
    "AFTER_CANCEL",
    "IMPOSSIBLE",
    "PLAIN",
    "PROBE_TOOL",
    "SIDE_BY_SIDE",
    "CancelProbe",
    "Probe",
    "all_probes",
    "probes",
]

# before: as soon as the model has begun. during: while the first part of the answer is being taken.
CancelProbe: TypeAlias = Literal["before", "during"]

PROBE_TOOL = "probe_weather"
_TOOL = ToolDefinition(
    PROBE_TOOL,
    "The weather in a town. Use it whenever somebody asks about the weather.",
    {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
)
# Of another provider's making: an id that looks like one of ours would be taken for a forgery.
_CALL = ToolCallPart("call_probe_1", PROBE_TOOL, {"town": "Izmir"})
_QUESTION = user(f"What is the weather in Izmir? Use the tool {PROBE_TOOL}.")
_LOOKED_UP = (
    _QUESTION,
    assistant("I look it up.", _CALL),
    user(ToolResultPart(_CALL.call_id, (TextPart("sunny, 31 degrees"),))),
)
# One pixel.
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True, slots=True)
class Probe:
    name: str
    request: Request
    cancel: CancelProbe | None = None
    # Words that belong to another answer: to find them in this one is to find the two mixed up.
    foreign: str | None = field(default=None, kw_only=True)


def _request(
    *messages: Message,
    tools: tuple[ToolDefinition, ...] = (),
    tool_mode: ToolMode = "auto",
    features: Features | None = None,
) -> Request:
    consumer = Consumer(name="check", features=features or Features(thinking=True, data=True, activity=True))
    return Request(messages, RequestOptions(tools=tools, tool_mode=tool_mode), consumer)


PLAIN = Probe("plain prompt", _request(user("Say hello in one short sentence.")))
AFTER_CANCEL = Probe(
    "prompt after a cancellation", _request(user("Say hello once more, in one short sentence."))
)
# No answer can satisfy it: the probe checks how it is refused.
IMPOSSIBLE = Probe("request without messages", _request())
SIDE_BY_SIDE = (
    Probe("first of two at once", _request(user("Write the word amber three times.")), foreign="cobalt"),
    Probe("second of two at once", _request(user("Write the word cobalt three times.")), foreign="amber"),
)


def all_probes(info: ModelInfo) -> tuple[Probe, ...]:
    """All probes, in the order in which they begin."""
    return (PLAIN, *probes(info), AFTER_CANCEL, *SIDE_BY_SIDE, IMPOSSIBLE)


def probes(info: ModelInfo) -> Iterator[Probe]:
    """The probes that run one after the other, after the plain prompt."""
    if info.capabilities.tool_calling:
        yield Probe("tool offered", _request(_QUESTION, tools=(_TOOL,)))
        if info.required_calls:
            yield Probe("tool required", _request(_QUESTION, tools=(_TOOL,), tool_mode="required"))
        yield Probe("tool result in the history", _request(*_LOOKED_UP, tools=(_TOOL,)))
        yield Probe(
            "another question after a tool",
            _request(*_LOOKED_UP, assistant("Sunny."), _QUESTION, tools=(_TOOL,)),
        )
        yield Probe("tools no longer offered", _request(*_LOOKED_UP, assistant("Sunny."), _QUESTION))
    yield Probe(
        "consumer without thinking and data",
        _request(user("Why is the sky blue? Think first."), features=Features()),
    )
    yield Probe("system message", _request(system("Answer in one short sentence."), user("Who are you?")))
    yield Probe(
        "unknown data in the history",
        _request(
            user("Hello.", DataPart(UNKNOWN_PART, b'{"type":"hologram"}')),
            assistant(DataPart(USAGE, b"{}"), "Hello."),
            user(DataPart("application/x-probe", b"\x00\xff"), "And how are you?"),
        ),
    )
    if info.capabilities.image_input:
        picture = DataPart.image(_PNG, "image/png")
        yield Probe("image", _request(user("What colour is this picture?", picture)))
    if "agent" in info.tags:
        # What an agent does itself. No one can be asked here, so the model's `permission` setting decides.
        yield Probe("plan", _request(user("Make a plan.")))
        yield Probe("step of the agent", _request(user("Run `echo hello`.")))
    yield Probe("cancelled at the start", _request(user("Count from 1 to 100 in words.")), "before")
    yield Probe("cancelled in mid-answer", _request(user("Count from 1 to 100 in words.")), "during")
