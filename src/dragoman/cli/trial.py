"""One short prompt to a model, through the same path as every prompt of a chat."""

from __future__ import annotations

import asyncio

from dragoman.config import Config
from dragoman.interruptible import run_interruptible
from dragoman.lm import CancellationSource, LanguageModelError, Part, Request, Response, TextPart, user
from dragoman.models import Models
from dragoman.visible import VisibleText

__all__ = ["TRIAL_PROMPT", "PrintedResponse", "try_model"]

TRIAL_PROMPT = "Say hello in one short sentence."
# Agents take half a minute to start for the first time; one that has said nothing by then is not going to.
_ANSWER_SECONDS = 120.0


class PrintedResponse(Response):
    """A response whose text appears on standard output while it arrives."""

    def __init__(self) -> None:
        super().__init__()
        self._visible = VisibleText()

    def report(self, part: Part) -> None:
        super().report(part)
        if isinstance(part, TextPart):
            print(self._visible.feed(part.value), end="", flush=True)

    def end(self) -> None:
        """End the last line."""
        is_open = self.text and not self.text.endswith("\n")
        print(self._visible.end(), end="\n" if is_open else "", flush=True)


def try_model(config: Config, model_id: str, response: Response) -> None:
    """Send the prompt. `LanguageModelError` if the model fails, or says nothing for two minutes.

    No conversation is stored. The model's `permission` setting decides what an agent may do meanwhile.
    """
    run_interruptible(lambda: _ask(config, model_id, response))


async def _ask(config: Config, model_id: str, response: Response) -> None:
    models, source = Models(config), CancellationSource()
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await models.get(model_id).respond(Request((user(TRIAL_PROMPT),)), response, source.token)
    except TimeoutError:
        raise LanguageModelError(
            "timeout",
            f"It has said nothing for {_ANSWER_SECONDS:g} seconds.",
            hint=f"See what it does: dragoman doctor {model_id} --log-level debug",
        ) from None
    finally:
        source.cancel()
        await models.close()
