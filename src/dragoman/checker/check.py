"""Checks a model against the stream rules.

`check` puts a set of requests to a model, unguarded, and records every rule that is broken, with the part that broke
it. It corrects nothing and refuses nothing, so that one broken rule does not hide the next.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from dragoman.checker.probes import AFTER_CANCEL, IMPOSSIBLE, PLAIN, SIDE_BY_SIDE, Probe, probes
from dragoman.checker.verdicts import CheckRecord, CheckReport, RuleFinding, RuleVerdict, VerdictRow, render
from dragoman.clock import Clock, DeadlinePassed, SystemClock, within
from dragoman.lm.cancellation import CancellationSource
from dragoman.lm.errors import LanguageModelError
from dragoman.lm.links import InertLinks
from dragoman.lm.model import LanguageModel
from dragoman.lm.parts import (
    ActivityPart,
    DataPart,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
)
from dragoman.lm.rules import StreamWatch

__all__ = ["CheckReport", "RuleFinding", "RuleVerdict", "VerdictRow", "check", "render"]

# An agent may have to start, load its model and use tools of its own before it answers.
_ANSWER_SECONDS = 120.0
# What is reported late at all is reported by something that was still running when the answer ended.
_LINGER_SECONDS = 0.5
# How models mark their thinking when no server has separated it from the answer.
_MARKED_THINKING = re.compile(r"^\s*(</?(?:think|thinking|reasoning)>)", re.IGNORECASE | re.MULTILINE)


async def check(
    model: LanguageModel,
    *,
    clock: Clock | None = None,
    answer_seconds: float = _ANSWER_SECONDS,
    on_probe: Callable[[Probe], object] = lambda _probe: None,
) -> CheckReport:
    """Send all probes to `model`. `on_probe` is called as each one begins.

    None takes longer than `answer_seconds`, whatever the model does.
    """
    return await _Checker(model, clock or SystemClock(), answer_seconds, on_probe).run()


class _Checker:
    def __init__(
        self,
        model: LanguageModel,
        clock: Clock,
        answer_seconds: float,
        on_probe: Callable[[Probe], object],
    ) -> None:
        self._model = model
        self._on_probe = on_probe
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._record = CheckRecord()
        self._unanswered: list[tuple[str, str]] = []
        self._never_ended: str | None = None

    async def run(self) -> CheckReport:
        answers = await self._send(PLAIN)
        # One that does not even end would only take that much longer over all the others.
        if self._never_ended is None:
            await self._send_others(answers=answers)
        inconclusive = f"the answer to the {self._never_ended} never ended" if self._never_ended else None
        if inconclusive is None and not answers:
            inconclusive = f"the {PLAIN.name} was not answered"
        return CheckReport(self._model.info, self._record.rows(), tuple(self._unanswered), inconclusive)

    async def _send_others(self, *, answers: bool) -> None:
        for probe in probes(self._model.info):
            await self._send(probe)
        if not await self._send(AFTER_CANCEL) and answers:
            self._record.breaks("S6", "after a cancellation a prompt was not answered", AFTER_CANCEL.name)
        await asyncio.gather(*map(self._send, SIDE_BY_SIDE))
        await self._send(IMPOSSIBLE)
        await self._clock.sleep(_LINGER_SECONDS)

    async def _send(self, probe: Probe) -> bool:
        """Send one probe. Returns whether the model answered completely, without a cancel."""
        self._on_probe(probe)
        source = CancellationSource()
        answer = _Answer(self._record, probe, source)
        work = asyncio.ensure_future(self._respond(probe, answer, source))
        if probe.cancel == "before":
            # It has begun, and that is all.
            await asyncio.sleep(0)
            if not work.done():
                source.cancel()
        failure: Exception | None = None
        try:
            await within(work, self._answer_seconds, self._clock)
        except Exception as error:
            failure = error
            # Also when it does not even end where it should.
            answer.end()
        if failure is None:
            return answer.completed()
        if answer.cancelled:
            self._record.breaks("S6", f"once cancelled, it did not resolve: {_named(failure)}", probe.name)
        else:
            self._failed(probe, failure)
        return False

    async def _respond(self, probe: Probe, answer: _Answer, source: CancellationSource) -> None:
        try:
            await self._model.respond(probe.request, answer, source.token)
        finally:
            # Here, and not where the result is awaited: what is reported in between is late.
            answer.end()

    def _failed(self, probe: Probe, failure: Exception) -> None:
        if isinstance(failure, DeadlinePassed):
            self._never_ended = self._never_ended or probe.name
        elif isinstance(failure, LanguageModelError):
            self._record.passed("S8")
        else:
            self._record.breaks("S8", f"not a LanguageModelError: {_named(failure)}", probe.name)
        if probe is not IMPOSSIBLE:
            self._unanswered.append((probe.name, _named(failure)))


class _Answer:
    """A sink that records what is wrong with what it is given."""

    def __init__(self, record: CheckRecord, probe: Probe, source: CancellationSource) -> None:
        self._record = record
        self._probe = probe
        self._source = source
        self._watch = StreamWatch(probe.request)
        self._links = InertLinks()
        self._text = ""
        self._refused = False
        self._has_mark = False

    @property
    def cancelled(self) -> bool:
        return self._source.token.cancelled()

    def report(self, part: Part) -> None:
        if self.cancelled and not self._watch.ended:
            self._breaks("S6", "a part was reported after the cancellation", part)
            return
        violation = self._watch.violation(part)
        if violation is not None:
            self._refused = True
            self._record.findings.append(RuleFinding(violation, self._probe.name))
            return
        self._look_at(part)
        is_count = isinstance(part, UsagePart) or (isinstance(part, DataPart) and part.is_internal)
        if self._probe.cancel == "during" and not is_count:
            self._source.cancel()

    async def drain(self) -> None:
        """Never waits, but lets other tasks run."""
        await asyncio.sleep(0)

    def end(self) -> None:
        self._watch.ended = True

    def completed(self) -> bool:
        """Check the whole answer after the model has returned. Returns whether there is one."""
        if self.cancelled:
            self._record.passed("S6")
            return False
        missing = self._watch.missing()
        if missing is not None:
            # With a part that was refused there is a better reason already; and where no answer is possible none is due.
            if not self._refused and self._probe is not IMPOSSIBLE:
                self._record.findings.append(RuleFinding(missing, self._probe.name))
            return False
        self._record.passed("S9")
        if self._has_mark:
            self._record.passed("S11")
        if self._probe.request.options.tool_mode == "required":
            self._record.passed("T14")
        marked = _MARKED_THINKING.search(self._text)
        if marked is not None:
            self._breaks("S10", f"the text has thinking in it, marked {marked[1]}", TextPart(self._text))
        if self._probe.foreign is not None and self._probe.foreign in self._text:
            self._breaks("S1", "the parts of two answers at once were mixed up", TextPart(self._text))
        return True

    def _look_at(self, part: Part) -> None:
        """Check what the watch does not: links, and what must hold over several answers."""
        if isinstance(part, DataPart) and part.is_internal:
            # By itself not a word of an answer: a model that fails at once may have sent its mark before.
            self._has_mark = True
            return
        if isinstance(part, UsagePart):
            self._record.passed("S16")
            return
        self._record.passed("S1", "S2", "S3")
        match part:
            case TextPart(value=value):
                self._text += value
                if self._links.feed(value) is value:
                    self._record.passed("S13")
                else:
                    self._breaks("S13", "the text has a link that would act", part)
            case ThinkingPart():
                self._record.passed("S10")
            case ToolCallPart(call_id=call_id):
                self._record.passed("S4.legal", "S4.namespaced", "S5", "S7")
                if call_id in self._record.call_ids:
                    self._breaks("S4.unique", f"the call id {call_id!r} was used in an earlier answer", part)
                elif self._record.call_ids:
                    self._record.passed("S4.unique")
                self._record.call_ids.add(call_id)
            case ActivityPart(status=status):
                self._record.passed("S14", *(["S15"] if status in ("completed", "failed") else []))
            case PlanPart():
                self._record.passed("S14")
            case _:
                # Data: a tool result was refused.
                self._record.passed("S11")

    def _breaks(self, rule: str, detail: str, part: object) -> None:
        self._record.breaks(rule, detail, self._probe.name, part)


def _named(error: Exception) -> str:
    if isinstance(error, LanguageModelError):
        return f"{error.kind}: {error.sentence}"
    return f"{type(error).__name__}: {error}"
