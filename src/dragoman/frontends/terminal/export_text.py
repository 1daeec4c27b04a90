"""A chat as Markdown: what was said, the agent's steps and plans, and who allowed or refused what. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence, Set as AbstractSet
from dataclasses import dataclass

from dragoman.frontends.terminal.steps import step_state
from dragoman.journal.decision_text import permission_in_words, whole_decision_in_words
from dragoman.journal.decisions import RecordedDecision
from dragoman.lm import (
    ActivityPart,
    DataPart,
    Message,
    Part,
    PlanPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    gfm,
)
from dragoman.lm.json import canonical
from dragoman.lm.parts import LINK
from dragoman.permissions.action import is_permission_tool
from dragoman.visible import visible_line

__all__ = ["ChatDecisions", "as_markdown"]

_MOST_OUTPUT_CHARACTERS = 2_000
# A change is what a reader looks for, so more of it is there.
_MOST_DIFF_CHARACTERS = 50_000


@dataclass(frozen=True, slots=True)
class ChatDecisions:
    """The decisions of a chat, and when each of its messages was recorded."""

    decisions: Sequence[RecordedDecision] = ()
    times: Sequence[float] = ()


def as_markdown(messages: Sequence[Message], title: str, decided: ChatDecisions, notice: str = "") -> str:
    """A section for each prompt and each answer. Results, outputs and changes are folded. The notice comes last."""
    blocks = [f"# {gfm.escape(title)}"]
    speaker = ""
    placed = _placed(messages, decided)
    lasting = _lasting(messages)
    for number, message in enumerate(messages):
        said = list(_Section(placed.get(number, []), lasting[number]).blocks(message))
        # Results go below the calls that they belong to.
        speaks = "You" if message.role == "user" and not message.results else "Model"
        if message.role == "system" or not said:
            continue
        if speaks != speaker:
            blocks.append(f"## {speaks}")
            speaker = speaks
        blocks += said
    if notice:
        blocks.append(f"*{gfm.escape(notice)}*")
    return "\n\n".join(blocks) + "\n"


def _placed(messages: Sequence[Message], decided: ChatDecisions) -> dict[int, list[RecordedDecision]]:
    """The decisions by message: the one with the call, or the first answer that was complete after the decision."""
    calls = {call.call_id: number for number, message in enumerate(messages) for call in message.calls}
    answers = [
        (number, at)
        for number, (message, at) in enumerate(zip(messages, decided.times, strict=False))
        if message.role == "assistant"
    ]
    found: dict[int, list[RecordedDecision]] = {}
    for each in decided.decisions:
        if each.decided is not None and each.decided.by == "read-only":
            continue
        number = calls.get(_id(each) or "")
        if number is None:
            number = next((number for number, at in answers if at >= each.at), len(messages) - 1)
        found.setdefault(number, []).append(each)
    return found


def _lasting(messages: Sequence[Message]) -> list[set[int]]:
    """Of each message, the places of the steps and plans that nothing replaces: a later state of the step or plan would."""
    found: list[set[int]] = [set() for _ in messages]
    seen: set[str] = set()
    for number in reversed(range(len(messages))):
        parts = messages[number].content
        for place in reversed(range(len(parts))):
            match parts[place]:
                case ActivityPart(id=id_):
                    key = f"step {id_}"
                case PlanPart():
                    key = "plan"
                case _:
                    continue
            if key not in seen:
                seen.add(key)
                found[number].add(place)
        if messages[number].role == "user" and not messages[number].results:
            # Each answer has its own plan.
            seen.discard("plan")
    return found


class _Section:
    """One message, with the decisions that belong to it: each beside its call or its step, or else at the end."""

    def __init__(self, decisions: Sequence[RecordedDecision], lasting: AbstractSet[int]) -> None:
        self._open = list(decisions)
        self._lasting = lasting

    def blocks(self, message: Message) -> Iterator[str]:
        for place, part in enumerate(message.content):
            match part:
                case ToolCallPart():
                    yield from _blocks(part)
                    yield from self._decided(part.call_id)
                case ActivityPart() | PlanPart() if place not in self._lasting:
                    pass
                case ActivityPart():
                    yield from self._decided(part.title)
                    yield _step(part)
                case _:
                    yield from _blocks(part)
        yield from map(_decision, self._open)

    def _decided(self, name: str) -> Iterator[str]:
        """The decisions about the call of this id, or the step of this title."""
        about = [each for each in self._open if name in _names(each)]
        self._open = [each for each in self._open if each not in about]
        yield from map(_decision, about)


def _blocks(part: Part) -> Iterator[str]:
    match part:
        case TextPart(value=text) if text.strip():
            yield text.strip()
        case DataPart(name=name, mime_type=mime_type) if mime_type == LINK:
            yield f"*{gfm.escape(name)}*"
        case DataPart(name=name, mime_type=mime_type) if not part.is_internal:
            yield f"*{gfm.escape(name or mime_type)}, {len(part.data):,} bytes*"
        case ToolCallPart(name=name) if not is_permission_tool(name):
            yield f"**{gfm.escape(name)}** {gfm.code(canonical(part.input))}"
        case ToolResultPart(name=name) if name is None or not is_permission_tool(name):
            output = _cut(part.text.strip(), _MOST_OUTPUT_CHARACTERS)
            yield _folded(f"{name or 'result'}: {part.outcome or 'ok'}", gfm.fence(output))
        case PlanPart(entries=entries):
            yield "\n".join(
                f"- [{'x' if each.status == 'completed' else ' '}] {_line(each.text)}" for each in entries
            )
        case _:
            pass


def _step(step: ActivityPart) -> str:
    inside = []
    if step.diff:
        inside.append(gfm.fence(_cut(step.diff, _MOST_DIFF_CHARACTERS), "diff"))
    if output := (step.output or "").strip():
        inside.append(gfm.fence(_cut(output, _MOST_OUTPUT_CHARACTERS)))
    return _folded(f"{step.title} ({step_state(step)})", *inside)


def _decision(each: RecordedDecision) -> str:
    what = "" if each.asked is None else f"**{_line(permission_in_words(each.asked))}**: "
    return f"{what}{'not decided' if each.decided is None else _line(whole_decision_in_words(each.decided))}"


def _folded(summary: str, *inside: str) -> str:
    # Markdown does not count in a line of HTML.
    return "\n\n".join(
        [f"<details><summary>{html.escape(visible_line(summary))}</summary>", *inside, "</details>"]
    )


def _names(each: RecordedDecision) -> set[str | None]:
    """The call that asked. An agent gives a step the title that its request had, or the command."""
    action = None if each.asked is None else each.asked.action
    return {_id(each), *(() if action is None else (action.title, action.command))}


def _id(each: RecordedDecision) -> str | None:
    event = each.asked or each.decided
    return None if event is None else event.id


def _line(text: str) -> str:
    return gfm.escape(visible_line(text))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n…"
