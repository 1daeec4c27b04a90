"""Providers for tests: good ones, and any way of being bad."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from dragoman.lm import (
    CancellationSource,
    CancellationToken,
    Capabilities,
    Consumer,
    Features,
    LanguageModel,
    Message,
    ModelInfo,
    Part,
    Request,
    RequestOptions,
    Response,
    Sink,
    ToolDefinition,
    ToolMode,
    estimate_tokens,
    user,
)

__all__ = [
    "ALL_FEATURES",
    "DEADLINE",
    "NO_FEATURES",
    "Provider",
    "ask",
    "info",
    "plays",
    "respond",
    "within_deadline",
]

_T = TypeVar("_T")

ALL_FEATURES = Features(thinking=True, data=True)
NO_FEATURES = Features()

# Far longer than any of these tests takes; only there so that a fault cannot hang the suite.
DEADLINE = 10.0


async def within_deadline(work: Awaitable[_T]) -> _T:
    async with asyncio.timeout(DEADLINE):
        return await work


def info(
    *, tool_calling: bool | int = True, image_input: bool = False, required_calls: bool = True
) -> ModelInfo:
    return ModelInfo(
        id="test",
        name="Test",
        family="test",
        version="1",
        max_input_tokens=1_000,
        max_output_tokens=1_000,
        capabilities=Capabilities(tool_calling=tool_calling, image_input=image_input),
        required_calls=required_calls,
    )


class Provider:
    """A model that does what a function says."""

    def __init__(
        self,
        body: Callable[[Request, Sink, CancellationToken], Awaitable[None]],
        *,
        tool_calling: bool | int = True,
        image_input: bool = False,
        required_calls: bool = True,
    ) -> None:
        self._body = body
        self._info = info(tool_calling=tool_calling, image_input=image_input, required_calls=required_calls)

    @property
    def info(self) -> ModelInfo:
        return self._info

    def count_tokens(self, text: str | Message) -> int:
        return estimate_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        await self._body(request, sink, token)


def plays(*parts: object, then: BaseException | None = None) -> Provider:
    """Reports these, whatever they are, and then fails or not."""

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        for part in parts:
            sink.report(part)  # type: ignore[arg-type]  # what is not a part is what some tests are about
        if then is not None:
            raise then

    return Provider(body)


def ask(
    *messages: Message,
    tools: Iterable[str] = ("read_file", "list_files"),
    tool_mode: ToolMode = "auto",
    features: Features = ALL_FEATURES,
) -> Request:
    """A request, by default one that can take everything."""
    return Request(
        messages or (user("hello"),),
        RequestOptions(tools=tuple(ToolDefinition(name) for name in tools), tool_mode=tool_mode),
        Consumer(features=features),
    )


async def respond(
    model: LanguageModel, request: Request, token: CancellationToken | None = None, sink: Sink | None = None
) -> list[Part]:
    """What the consumer has in the end."""
    response = Response()
    await within_deadline(model.respond(request, sink or response, token or CancellationSource().token))
    return response.parts
