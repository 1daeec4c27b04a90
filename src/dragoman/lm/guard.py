"""The guard: a model that keeps the stream rules, whatever the one inside it does.

It never reorders and never waits. A part that breaks a rule is not passed on; the provider gets the error at the
place where it broke the rule, everything it reports from then on is refused, and the response fails naming the rule.

How a response ends:

- cancelled: it resolves, with what was reported before (S6);
- failed before the consumer had anything: it raises (S8);
- failed afterwards: the error is reported as text and the response resolves, unless the consumer keeps the parts of a
  failed response, which then gets the error as well (S8);
- completed without a call that was required: it has failed (T14);
- completed without anything visible: one line says so (S9).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from dragoman.lm import gfm
from dragoman.lm.cancellation import CancellationError, CancellationToken
from dragoman.lm.errors import ASK_OPERATOR, LanguageModelError
from dragoman.lm.messages import Message
from dragoman.lm.model import (
    Closing,
    Compacting,
    Delivery,
    LanguageModel,
    ModelInfo,
    Presenting,
    Resumable,
    Sink,
)
from dragoman.lm.parts import STOPPED, DataPart, Part, TextPart, ToolCallPart, UsagePart
from dragoman.lm.presentation import Presentation, Style
from dragoman.lm.request import Request
from dragoman.lm.rules import StreamWatch, Violation, is_shown, is_visible

__all__ = ["EMPTY_ANSWER", "GuardedModel", "RuleBroken"]

_log = logging.getLogger(__name__)

EMPTY_ANSWER = gfm.notice("The model gave an empty answer.")


class RuleBroken(LanguageModelError):
    """A provider broke a stream rule: a fault of the provider's, not of the request."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(
            "internal",
            f"The model broke stream rule {violation}",
            hint="This is a fault in the model's provider; `dragoman check` shows all rules.",
        )
        self.violation = violation


class GuardedModel:
    """Wraps any model. A guarded model is a model."""

    def __init__(self, model: LanguageModel, style: Style = Style()) -> None:
        self._model = model
        self._style = style

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    def count_tokens(self, text: str | Message) -> int:
        return self._model.count_tokens(text)

    async def close(self) -> None:
        if isinstance(self._model, Closing):
            await self._model.close()

    async def compacted(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        if isinstance(self._model, Compacting):
            return await self._model.compacted(messages)
        raise LanguageModelError("not_found", f"{self.info.name} cannot make its context shorter.")

    def delivered(self, conversation: str, *, whole: bool) -> None:
        if isinstance(self._model, Delivery):
            self._model.delivered(conversation, whole=whole)

    def keep(self, response_id: str) -> None:
        if isinstance(self._model, Resumable):
            self._model.keep(response_id)

    def stored(self, response_id: str, position: str) -> None:
        if isinstance(self._model, Resumable):
            self._model.stored(response_id, position)

    def release(self, response_id: str) -> None:
        if isinstance(self._model, Resumable):
            self._model.release(response_id)

    def hand_over(self, response_id: str) -> None:
        if isinstance(self._model, Resumable):
            self._model.hand_over(response_id)

    async def resume(self, response_id: str, position: str, sink: Sink, token: CancellationToken) -> None:
        """Only the rest is seen here, so no rule can be checked: the guard where the model runs has seen everything."""
        if not isinstance(self._model, Resumable):
            raise LanguageModelError("not_found", f"{self.info.name} cannot continue a response.")
        await self._model.resume(response_id, position, sink, token)

    def _presentation(self, request: Request) -> Presentation | None:
        if isinstance(self._model, Presenting) and self._model.presents:
            return None
        return Presentation(request.consumer.features, self._style)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        _refuse_impossible(request, self.info)
        if token.cancelled():
            return
        guarded = _GuardedSink(request, self._presentation(request), sink, token)
        error: LanguageModelError | None = None
        current = asyncio.current_task()
        cancelling = current.cancelling() if current else 0
        try:
            await self._model.respond(request, guarded, token)
        except asyncio.CancelledError:
            # The caller's own goes on upwards; one that the model made itself is a failure like any other.
            if current is None or current.cancelling() > cancelling:
                raise
            error = LanguageModelError("internal", "The model cancelled itself")
        except CancellationError as cancelled:
            error = LanguageModelError("internal", f"The model gave up: {cancelled}")
        except LanguageModelError as failed:
            error = failed
        except Exception as failed:
            _log.exception("model %s failed", self.info.id)
            error = LanguageModelError(
                "internal",
                f"The model failed: {type(failed).__name__}: {failed}",
                public=f"The model failed. {ASK_OPERATOR}",
            )
            error.__cause__ = failed
        finally:
            guarded.end()
        # The rule that was broken first is the cause, whatever the provider made of it.
        error = guarded.broken or error or guarded.missing_part()
        if token.cancelled():
            return
        if error is None:
            guarded.complete()
            return
        if guarded.consumer_has_nothing or request.consumer.features.keeps_parts_of_failures:
            raise error
        _log.warning("model %s failed in mid-response: %s", self.info.id, error.sentence)
        text = gfm.error_text(error)
        sink.report(TextPart(text if request.consumer.features.markdown else gfm.plain(text)))


class _GuardedSink:
    """One response on its way through the guard."""

    def __init__(
        self, request: Request, presentation: Presentation | None, sink: Sink, token: CancellationToken
    ) -> None:
        """Without a presentation the parts are passed on as they are."""
        self._watch = StreamWatch(request)
        self._renders_markdown = request.consumer.features.markdown
        self._presentation = presentation
        self._sink = sink
        self._token = token
        self.broken: RuleBroken | None = None
        self.consumer_has_nothing = True
        self._nothing_visible = True

    def report(self, part: Part) -> None:
        if self._token.is_cancelled:
            # Not an error: the provider may not have noticed yet.
            return
        if self.broken is not None:
            raise self.broken
        violation = self._watch.violation(part)
        if violation is not None:
            if self._watch.ended:
                _log.error("dropped: %s", violation)
                return
            self.broken = RuleBroken(violation)
            raise self.broken
        if self._presentation is None:
            if self._nothing_visible or type(part) is not TextPart:
                self._pass_on(part)
            else:
                self._sink.report(part)
            return
        for shown in self._presentation.present(part):
            # A consumer may cancel in the middle of taking a part.
            if not self._token.is_cancelled:
                self._pass_on(shown)

    def _pass_on(self, part: Part) -> None:
        match part:
            case TextPart():
                self.consumer_has_nothing = False
                if self._nothing_visible:
                    self._nothing_visible = not is_visible(part.value)
            case ToolCallPart():
                self.consumer_has_nothing = self._nothing_visible = False
            case DataPart(mime_type=mime_type) if mime_type == STOPPED:
                # A stop reason is shown to the user.
                self._nothing_visible = False
            case UsagePart():
                pass
            case DataPart() if is_shown(part):
                self.consumer_has_nothing = self._nothing_visible = False
            case DataPart():
                # A marker or a count is invisible to the user.
                pass
            case _:
                self.consumer_has_nothing = False
        self._sink.report(part)

    async def drain(self) -> None:
        await self._sink.drain()

    def end(self) -> None:
        """End the response: later parts of the provider are dropped."""
        self._watch.ended = True

    def missing_part(self) -> RuleBroken | None:
        """The rule that a complete response breaks by lacking a required part. An empty response gets a notice instead."""
        missing = self._watch.missing()
        return RuleBroken(missing) if missing is not None and missing.rule.id != "S9" else None

    def complete(self) -> None:
        if self._nothing_visible:
            self._sink.report(TextPart(EMPTY_ANSWER if self._renders_markdown else gfm.plain(EMPTY_ANSWER)))


def _refuse_impossible(request: Request, info: ModelInfo) -> None:
    """Requests that no answer could honour are refused before the model sees them."""
    tools = request.options.tools
    takes = info.capabilities.tool_calling
    if not request.messages or request.messages[-1].role == "assistant":
        raise LanguageModelError(
            "bad_request",
            "The history ends with an assistant message."
            if request.messages
            else "The request has no messages.",
            hint="End it with a user message or with tool results.",
        )
    if tools and takes is False:
        raise LanguageModelError(
            "bad_request",
            f"{info.name} takes no tools.",
            hint="Send the request without tools, or choose another model.",
        )
    if takes is not True and len(tools) > takes:
        raise LanguageModelError(
            "bad_request",
            f"{len(tools)} tools were offered, but {info.name} takes {takes} at most.",
            hint="Deselect tools, or let them be grouped.",
        )
    if request.options.tool_mode == "required" and not tools:
        raise LanguageModelError(
            "bad_request",
            "A tool call is required, but no tool was offered.",
            hint="Offer a tool, or use the mode 'auto'.",
        )
    if request.options.tool_mode == "required" and not info.required_calls:
        raise LanguageModelError(
            "bad_request",
            f"A tool call is required, but {info.name} decides for itself whether it calls a tool.",
            hint="Use the mode 'auto', and say in the prompt which tool to use; or choose another model.",
        )
