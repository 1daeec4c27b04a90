"""Checks the events of an endpoint, as it writes them, against the rules for them.

The model's parts do not show faults in the events, because our client corrects what it can. So a few requests are sent
again, and their streams are read without the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from dragoman.backends.responses.http import EndpointFailure
from dragoman.backends.responses.model import EndpointModel
from dragoman.checker.event_rules import EVENT_RULES, EventWatch
from dragoman.checker.probes import PLAIN, Probe, probes
from dragoman.checker.verdicts import CheckRecord, CheckReport, RuleFinding
from dragoman.lm import LanguageModelError
from dragoman.lm.json import decode

__all__ = ["check_events", "event_probes"]

# As long as `check` waits for any answer.
_ANSWER_SECONDS = 120.0
_REFUSED = "request without a model"
_OCCASIONS = {
    rule: ("check", without)
    for rule, without in {
        **dict.fromkeys(EVENT_RULES, "nothing was streamed"),
        **dict.fromkeys(("E7", "E8"), "there were no items"),
        **dict.fromkeys(("E9", "E10"), "there was no content"),
        **dict.fromkeys(("E12", "E13"), "nothing was streamed to its end"),
        "E11": "no function was called",
        "E15": "nothing was streamed to its end, and nothing refused",
    }.items()
}


def event_probes(model: EndpointModel) -> tuple[Probe, ...]:
    """The probes for events: one for a text answer, and one for a tool call if the model makes any."""
    return (PLAIN, *(probe for probe in probes(model.info) if probe.name == "tool offered"))


async def check_events(
    model: EndpointModel, on_probe: Callable[[Probe], object] = lambda _probe: None
) -> CheckReport:
    record = CheckRecord(EVENT_RULES, _OCCASIONS)
    unanswered: list[tuple[str, str]] = []
    streamed = 0
    for probe in event_probes(model):
        on_probe(probe)
        watch = EventWatch()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), aclosing(model.framed(probe.request)) as events:
                async for event in events:
                    watch.frame(event)
            watch.end()
            streamed += 1
        except (EndpointFailure, LanguageModelError, TimeoutError) as error:
            unanswered.append((probe.name, str(error) or "it never ended"))
        _note(record, watch, probe.name)
    _note(record, await _refusal(model), _REFUSED)
    inconclusive = None if streamed else "nothing was streamed to its end"
    return CheckReport(model.info, record.rows(), tuple(unanswered), inconclusive, "the rules for events")


async def _refusal(model: EndpointModel) -> EventWatch:
    watch = EventWatch()
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            body = await model.refused()
        # An endpoint with a default model has no reason to refuse a request that names none.
        if body:
            watch.error(decode(body))
    except msgspec.DecodeError:
        watch.error(None)
    except (LanguageModelError, TimeoutError):
        # The failure to reach it has been reported.
        pass
    return watch


def _note(record: CheckRecord, watch: EventWatch, probe: str) -> None:
    record.findings.extend(RuleFinding(violation, probe) for violation in watch.found)
    for rule, count in watch.passed.items():
        record.passed(*([rule] * count))
