"""Judges a reply at the end of the agent's turn: whether it is what its request demands."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dragoman.backends.agent.machine.types import ReplyVerdict
from dragoman.backends.agent.prompt.demands import Demand
from dragoman.forms.checking import checked
from dragoman.lm import AnswerForm, DataPart, Part, Stopped, TextPart, ThinkingPart
from dragoman.lm.gfm import notice_part
from dragoman.lm.parts import STOPPED

__all__ = ["judged", "without_stop"]

# The marks of the code block around a value.
_OPENING_FENCE = re.compile(r"(?:`{3,}|~{3,})[^\n]*\s*\Z")
_CLOSING_FENCE = re.compile(r"\A\s*(?:`{3,}|~{3,})")


async def judged(demand: Demand, reply: int, text: str, last_words: Iterable[Part]) -> ReplyVerdict:
    """Judge the agent's last message in the reply with this number.

    An agent that has reached a limit, or has refused to go on, is not asked for a form again: its reply is incomplete, and
    has text only if that has the form.
    """
    if demand.functions or demand.form is None:
        return ReplyVerdict(reply, unmet=demand.without_call(text))
    answer, problems = await _answer(demand.form, text, demand.connection)
    if answer:
        return ReplyVerdict(reply, answer)
    if any(map(_is_early_stop, last_words)):
        return ReplyVerdict(reply, (ThinkingPart(text),) if text else ())
    return ReplyVerdict(reply, unmet=demand.misformed(problems, text))


def without_stop(part: Part) -> Part:
    """A stop as a notice: the reply goes on, or fails, so it has not stopped."""
    if isinstance(part, DataPart) and part.mime_type == STOPPED:
        return notice_part(Stopped.of(part).words)
    return part


async def _answer(form: AnswerForm, text: str, connection: str) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The parts of an answer: the JSON in the agent's own characters, after its other words as thinking. Or problems."""
    found = await checked(form, text, connection)
    if not found.is_accepted:
        return (), found.problems
    before = _OPENING_FENCE.sub("", text[: found.start])
    after = _CLOSING_FENCE.sub("", text[found.end :])
    others = "\n\n".join(filter(None, (before.strip(), after.strip())))
    thinking = (ThinkingPart(others),) if others else ()
    return (*thinking, TextPart(text[found.start : found.end])), ()


def _is_early_stop(part: Part) -> bool:
    return isinstance(part, DataPart) and part.mime_type == STOPPED and Stopped.of(part).reason != "other"
