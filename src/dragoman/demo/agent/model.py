"""The model behind the agent: a script, with code for what a script cannot express.

It is a language model like any other, and the loop does not know the difference. What it adds to `backends.scripted`:

- prompts that need code are answered by `acts`, and so is a refusal that the script has no words for;
- prompts that ask for a function of the consumer, or for an answer in a form, are answered by `requested`;
- a call of a role (`@read`) becomes a call of a tool that the consumer offers (`casting`), and the consumer's tools go by the
  consumer's own names for them;
- of what a tool returned, the script quotes the beginning;
- a plan, which is no part of an answer, goes straight to the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from dragoman.backends.scripted import Script, ScriptedModel, ScriptedReply
from dragoman.backends.scripted.scene import Scene, choose
from dragoman.demo.agent import acts, requested
from dragoman.demo.agent.casting import ROLE, arguments_for, cast, plain_names
from dragoman.demo.agent.updates import Entry, Plan, SendUpdate
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
    ToolResultPart,
    estimate_tokens,
)

__all__ = ["PLAN", "DemoModel", "PromptHandlers"]

PromptHandlers: TypeAlias = Callable[[Request], ScriptedReply | None]

# The type of data that stands for a plan in the script: a list of entries.
PLAN = "application/vnd.dragoman.plan+json"
_NO_TOOLS = "*You offer me no tools, so there is nothing I could call. Offer some, and ask again.*\n"

_entries = msgspec.json.Decoder(tuple[Entry, ...])


class DemoModel:
    def __init__(
        self,
        script: Script,
        *,
        speed: float,
        send: SendUpdate,
        drain: Callable[[], Awaitable[None]],
        problems: Callable[[], tuple[str, ...]] = lambda: (),
        prompts: PromptHandlers = lambda _request: None,
    ) -> None:
        """`drain` waits while the client is behind; `problems` are the tool servers that could not be reached.

        `prompts` answers before everything else does: agents of tests have prompts that no person needs.
        """
        self._script = script
        self._speed = speed
        self._send = send
        self._drain = drain
        self._problems = problems
        self._prompts = prompts

    @property
    def info(self) -> ModelInfo:
        return self._script.info

    def count_tokens(self, text: str | Message) -> int:
        return estimate_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        names = plain_names(request.options.tools)
        shown = _as_script_sees(request, names)
        act = (
            self._prompts(request)
            or requested.reply_to(request, shown, self._script)
            or acts.reply_to(request, self._problems())
            or self._refused(request, shown)
        )
        script = self._script if act is None else Script((act,), self.info, self._script.pace)
        stage = _Stage(request, names, sink, self._send, self._drain)
        await ScriptedModel(script, speed=self._speed).respond(
            shown if act is None else request, stage, token
        )

    def _refused(self, request: Request, shown: Request) -> ScriptedReply | None:
        """The answer to a denial, unless the script has one: what was done and what was not."""
        scene = Scene.of(shown)
        if "denied" not in scene.outcomes:
            return None
        chosen = choose(self._script.replies, scene)
        reacts = chosen is not None and chosen.when is not None and chosen.when.outcome == "denied"
        return None if reacts else acts.account(request)


def _as_script_sees(request: Request, names: dict[str, str]) -> Request:
    def seen(part: Part) -> Part:
        match part:
            case ToolCallPart(name=name):
                return msgspec.structs.replace(part, name=names.get(name, name))
            case ToolResultPart():
                return msgspec.structs.replace(part, content=(TextPart(acts.excerpt(part.text)),))
            case _:
                return part

    tools = tuple(
        msgspec.structs.replace(tool, name=names.get(tool.name, tool.name)) for tool in request.options.tools
    )
    messages = tuple(
        msgspec.structs.replace(message, content=tuple(map(seen, message.content)))
        for message in request.messages
    )
    options = msgspec.structs.replace(request.options, tools=tools)
    return msgspec.structs.replace(request, messages=messages, options=options)


class _Stage:
    """The sink of the script: passes its parts on to the loop, translated for the loop and the client."""

    def __init__(
        self,
        request: Request,
        names: dict[str, str],
        sink: Sink,
        send: SendUpdate,
        drain: Callable[[], Awaitable[None]],
    ) -> None:
        self._offered = request.options.tools
        self._full_names = {plain: name for name, plain in names.items()}
        self._words = acts.words_of(request)
        self._sink = sink
        self._send = send
        self._drain = drain
        self._has_reported_no_tools = False

    def report(self, part: Part) -> None:
        match part:
            case ToolCallPart(name=name) if name.startswith(ROLE):
                self._cast(part)
            case ToolCallPart(name=name):
                self._sink.report(msgspec.structs.replace(part, name=self._full_names.get(name, name)))
            case DataPart(mime_type=mime_type, data=data) if mime_type == PLAN:
                self._send(Plan(_entries.decode(data)))
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
        elif not self._has_reported_no_tools:
            # Once, however many calls there would have been.
            self._has_reported_no_tools = True
            self._sink.report(TextPart(_NO_TOOLS))
