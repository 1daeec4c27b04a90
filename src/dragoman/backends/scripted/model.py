"""A script as a language model: it answers what the script says, at the pace the script says."""

from __future__ import annotations

import asyncio
import inspect
import math
import re
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

from dragoman.backends.scripted.scene import Scene, choose, fill, fill_value
from dragoman.backends.scripted.script import (
    Call,
    Data,
    Fail,
    Image,
    Say,
    Script,
    ScriptedReply,
    ScriptStep,
    Think,
    Wait,
)
from dragoman.lm import (
    CancellationError,
    CancellationToken,
    DataPart,
    JsonObject,
    LanguageModelError,
    Message,
    ModelInfo,
    Request,
    Sink,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    estimate_tokens,
    until_cancelled,
)

__all__ = ["ScriptedModel", "Sleep"]

Sleep = Callable[[float], Awaitable[object]]

# Enough to look back over any conversation a script holds, and not a leak in a server that plays one all day.
_MAX_REQUESTS = 256
_PROMPT_SHOWN = 60
_WORD = re.compile(r"\S+\s*|\s+")


class ScriptedModel:
    """Plays a script. The only state between requests is how often a `times` failure has happened."""

    def __init__(
        self,
        script: Script,
        *,
        info: ModelInfo | None = None,
        speed: float = 1.0,
        sleep: Sleep = asyncio.sleep,
        tag: Callable[[], str] = lambda: secrets.token_hex(5),
    ) -> None:
        """Waits take `1 / speed` of what the script says; `tag` makes the part of a call id that is ours alone."""
        if not speed > 0:
            raise ValueError(f"the speed of a script is more than 0, not {speed}")
        self._script = script
        self._info = info or script.info
        self._speed = speed
        self._sleep = sleep
        self._tag = tag
        self._failures: Counter[int] = Counter()
        self.requests: deque[Request] = deque(maxlen=_MAX_REQUESTS)

    @classmethod
    def of(
        cls,
        *replies: ScriptedReply | ScriptStep | str,
        info: ModelInfo | None = None,
        speed: float = math.inf,
        sleep: Sleep = asyncio.sleep,
    ) -> ScriptedModel:
        """A model from replies written in Python, which waits for nothing unless it is given a speed.

        Replies without conditions answer one after the other, by the number of answers in the history.
        """
        return cls(Script.in_turn(*replies), info=info, speed=speed, sleep=sleep)

    @property
    def info(self) -> ModelInfo:
        return self._info

    def count_tokens(self, text: str | Message) -> int:
        return estimate_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        self.requests.append(request)
        scene = Scene.of(request)
        reply = choose(self._script.replies, scene)
        if reply is None:
            raise LanguageModelError(
                "bad_request",
                f"The script of {self._info.name} has no reply to {_described(scene)}.",
                hint="Add a line whose conditions hold, or one without any at the end.",
            )
        if request.options.tool_mode == "required" and not any(
            isinstance(step, Call | Fail) for step in reply.steps
        ):
            raise LanguageModelError(
                "bad_request",
                f"A tool call is required, but the reply of {self._info.name} to {_described(scene)} makes none.",
                hint="Use the mode 'auto', or add a reply with a call before it.",
            )
        try:
            await until_cancelled(self._play(reply, scene, sink, token), token)
        except CancellationError:
            # Cancelled: what was said stands, and the response is complete.
            return

    async def _play(self, reply: ScriptedReply, scene: Scene, sink: Sink, token: CancellationToken) -> None:
        tag = self._tag()
        calls = 0
        for step in reply.steps:
            match step:
                case Say(text, pace):
                    for word in _words(fill(text, scene)):
                        await self._report(TextPart(word), sink, token)
                        await self._pause_after_word(pace)
                case Think(text, pace):
                    for word in _words(fill(text, scene)):
                        await self._report(ThinkingPart(word), sink, token)
                        await self._pause_after_word(pace)
                case Call():
                    call_id = step.call_id or f"dg_{scene.answers}_{calls}_{tag}"
                    calls += 1
                    await self._report(_call(step, call_id, scene), sink, token)
                case Data() | Image():
                    await self._report(step.part(), sink, token)
                case Wait(wait=seconds):
                    await (token.wait() if isinstance(seconds, str) else self._pause(seconds))
                case Fail():
                    self._fail(step, scene)
                case _:
                    await _done(step.action())

    async def _report(
        self, part: TextPart | ThinkingPart | ToolCallPart | DataPart, sink: Sink, token: CancellationToken
    ) -> None:
        # The task that plays is cancelled where it waits, which may be later than here.
        token.raise_if_cancelled()
        sink.report(part)
        await sink.drain()

    async def _pause_after_word(self, pace: float | None) -> None:
        pace = pace or self._script.pace
        await self._pause(1 / pace if pace else 0)

    async def _pause(self, seconds: float) -> None:
        # Also when there is nothing to wait for: others get their turn between two words.
        await self._sleep(seconds / self._speed)

    def _fail(self, step: Fail, scene: Scene) -> None:
        self._failures[id(step)] += 1
        if step.times is None or self._failures[id(step)] <= step.times:
            raise LanguageModelError(
                step.fail, fill(step.message, scene), hint=step.hint, retry_after=step.retry_after
            )


def _call(step: Call, call_id: str, scene: Scene) -> ToolCallPart:
    if step.unparsed is not None:
        return ToolCallPart(call_id, step.call, {}, step.unparsed)
    return ToolCallPart(call_id, step.call, cast("JsonObject", fill_value(step.input, scene)))


async def _done(result: object) -> None:
    if inspect.isawaitable(result):
        await result


def _words(text: str) -> Iterator[str]:
    return (word[0] for word in _WORD.finditer(text))


def _described(scene: Scene) -> str:
    what = f"{len(scene.results)} results" if scene.results else f"“{scene.prompt[:_PROMPT_SHOWN]}”"
    return f"{what} (round {scene.round}, {scene.answers} answers so far, {len(scene.offered)} tools offered)"
