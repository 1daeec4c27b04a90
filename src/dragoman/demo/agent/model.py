"""The model behind the agent: a script, with a few acts that a script cannot say.

It is a language model like any other, and the loop does not know the difference. What it adds to `backends.scripted`:

- prompts that need code are answered by `acts`;
- a call of a role (`@read`) becomes a call of a tool that the consumer offers (`casting`);
- a plan, which is no part of an answer, goes straight to the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from dragoman.backends.scripted import Script, ScriptedModel
from dragoman.demo.agent import acts
from dragoman.demo.agent.casting import ROLE, arguments_for, cast
from dragoman.demo.agent.updates import Entry, Plan, Tell
from dragoman.lm import (
    CancellationToken,
    DataPart,
    Message,
    ModelInfo,
    Part,
    Request,
    Sink,
    TextPart,
    ToolCallPart,
    estimate_tokens,
)

__all__ = ["PLAN", "DemoModel"]

# The type of data that stands for a plan in the script: a list of entries.
PLAN = "application/vnd.dragoman.plan+json"
_NOBODY = "*You offer me no tools, so there is nothing I could call. Offer some, and ask again.*\n"

_entries = msgspec.json.Decoder(tuple[Entry, ...])


class DemoModel:
    def __init__(
        self,
        script: Script,
        *,
        speed: float,
        tell: Tell,
        drain: Callable[[], Awaitable[None]],
        problems: Callable[[], tuple[str, ...]] = lambda: (),
    ) -> None:
        """`drain` waits while the client is behind; `problems` are the tool servers that could not be reached."""
        self._script = script
        self._speed = speed
        self._tell = tell
        self._drain = drain
        self._problems = problems

    @property
    def info(self) -> ModelInfo:
        return self._script.info

    def count_tokens(self, text: str | Message) -> int:
        return estimate_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        act = acts.reply_to(request, self._problems())
        script = self._script if act is None else Script((act,), self.info, self._script.pace)
        stage = _Stage(request, sink, self._tell, self._drain)
        await ScriptedModel(script, speed=self._speed).respond(request, stage, token)


class _Stage:
    """Where the script is played: what it says goes on to the loop, in the form the loop and the client have for it."""

    def __init__(
        self, request: Request, sink: Sink, tell: Tell, drain: Callable[[], Awaitable[None]]
    ) -> None:
        self._offered = request.options.tools
        self._words = acts.words_of(request)
        self._sink = sink
        self._tell = tell
        self._drain = drain
        self._nobody_told = False

    def report(self, part: Part) -> None:
        match part:
            case ToolCallPart(name=name) if name.startswith(ROLE):
                self._cast(part)
            case DataPart(mime_type=mime_type, data=data) if mime_type == PLAN:
                self._tell(Plan(_entries.decode(data)))
            case _:
                self._sink.report(part)

    async def drain(self) -> None:
        await self._sink.drain()
        await self._drain()

    def _cast(self, call: ToolCallPart) -> None:
        tool = cast(call.name, self._offered)
        if tool is not None:
            arguments = arguments_for(tool, self._words, call.input)
            self._sink.report(ToolCallPart(call.call_id, tool.name, arguments))
        elif not self._nobody_told:
            # However many calls there would have been.
            self._nobody_told = True
            self._sink.report(TextPart(_NOBODY))
