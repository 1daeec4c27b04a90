"""A response that is sent as one JSON object, and how long its client waits for it.

While a person decides at the console, nothing can be sent, and most clients give up after a minute or two. This module
looks at the inbox whenever something changes there. So a response
that is stored goes on in the background when its question has waited for `decide_seconds`. The client gets what there is
so far, with `status: "in_progress"`, and fetches the rest by the response's id. A response that is not stored is ended by
the agent's back end (`Consumer.hold_seconds`), and the next one begins with the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import msgspec
from starlette.types import Receive

from dragoman.frontends.event_streams import while_connected
from dragoman.frontends.http.answering import ResponseRun
from dragoman.frontends.http.errors import ApiError
from dragoman.frontends.http.preparing import Prepared
from dragoman.frontends.http.service import HttpService
from dragoman.lm import JsonObject
from dragoman.permissions.inbox import Inbox

__all__ = ["held_response"]

_log = logging.getLogger(__name__)


async def held_response(
    service: HttpService, prepared: Prepared, receive: Receive
) -> tuple[ResponseRun, JsonObject | None]:
    """Run a response to its end, or until it goes on in the background. The response is None if the client disconnects.

    Raise `ApiError` if the model fails before it has said anything, or if the request demands a form or a call and does
    not get it. Any other response contains the error.
    """
    async with AsyncExitStack() as stack:
        answer = await stack.enter_async_context(service.answering(prepared))
        limit: Callable[[], float | None] = _never
        if prepared.is_stored:
            inbox = service.models.permissions.inbox
            limit = _limit(answer, inbox, service.console_config.decide_seconds)
            inbox.on_change.append(answer.look_again)
            stack.callback(inbox.on_change.remove, answer.look_again)
        async with while_connected(receive, answer.cancel):
            has_ended = await answer.held(limit)
        if not has_ended and not answer.is_cancelled:
            started = await _in_background(service, prepared, answer, stack)
            if started is not None:
                return answer, started
            # It cannot be stored, so the client waits for the end, however long that takes.
            async with while_connected(receive, answer.cancel):
                await answer.held(_never)
        await answer.begun(None)
        answer.check_met()
        last: JsonObject = {}
        async for event in service.events(prepared, answer):
            last = event
        return answer, None if answer.is_cancelled else msgspec.convert(last["response"], JsonObject)


async def _in_background(
    service: HttpService, prepared: Prepared, answer: ResponseRun, stack: AsyncExitStack
) -> JsonObject | None:
    """Let the response go on without its client, and return it as it is now. None if it cannot be stored."""
    without_client = replace(prepared, create=replace(prepared.create, is_background=True))
    try:
        run = await service.continue_in_background(without_client, answer, stack)
    except ApiError as error:
        _log.warning("response %s does not go on in the background: %s", prepared.response_id, error.message)
        return None
    return run.so_far()


def _never() -> None:
    return None


def _limit(answer: ResponseRun, inbox: Inbox, seconds: float) -> Callable[[], float | None]:
    """The time until which the client waits, by the event loop's clock. None while no person has to decide."""
    loop = asyncio.get_running_loop()
    began = inbox.monotonic()

    def limit() -> float | None:
        since = None if answer.conversation is None else inbox.waiting_since(answer.conversation)
        if since is None:
            return None
        # A question that waited before this request does not count against it.
        return loop.time() + max(since, began) + seconds - inbox.monotonic()

    return limit
