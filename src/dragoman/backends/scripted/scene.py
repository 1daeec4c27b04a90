"""What a script can see of a request, and the replies and texts that follow from it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dragoman.backends.scripted.script import ScriptedReply, When
from dragoman.lm import Message, Outcome, Request, ToolResultPart

__all__ = ["Scene", "choose", "fill", "fill_value", "unknown_name"]

# `${name}`; `$${` stands for a `${` that is meant literally.
_PLACE = re.compile(r"\$(\$\{|\{([^{}]*)\})")
_NAME = re.compile(r"prompt|reason|result(?:\.\d{1,4})?")
# How a refusal with a reason reads when it comes back as the result of a call.
_REFUSED = re.compile(r"Tool use rejected with user message: (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Scene:
    """The end of a history: what was asked, and what the last answer came to."""

    prompt: str
    # Of the calls of the last answer, in the order they came.
    results: tuple[str, ...]
    outcomes: frozenset[Outcome]
    reason: str
    called: frozenset[str]
    round: int
    answers: int
    offered: frozenset[str]

    @classmethod
    def of(cls, request: Request) -> Scene:
        messages = request.messages
        answers = [index for index, message in enumerate(messages) if message.role == "assistant"]
        prompts = [index for index, message in enumerate(messages) if _is_prompt(message)]
        last_answer = answers[-1] if answers else -1
        last_prompt = prompts[-1] if prompts else -1
        results = [result for message in messages[last_answer + 1 :] for result in message.results]
        return cls(
            prompt=messages[last_prompt].text if prompts else "",
            results=tuple(result.text for result in results),
            outcomes=frozenset(_outcome(result) for result in results),
            reason=_reason(results),
            called=frozenset(call.name for call in messages[last_answer].calls) if answers else frozenset(),
            round=sum(index > last_prompt for index in answers),
            answers=len(answers),
            offered=frozenset(tool.name for tool in request.options.tools),
        )

    def meets(self, when: When | None) -> bool:
        if when is None:
            return True
        return (
            (when.prompt is None or re.search(when.prompt, self.prompt) is not None)
            and (when.result is None or any(re.search(when.result, result) for result in self.results))
            and (when.outcome is None or when.outcome in self.outcomes)
            and (when.called is None or when.called in self.called)
            and (when.round is None or when.round == self.round)
            and (when.answers is None or when.answers == self.answers)
            and self.offered.issuperset(when.tools)
        )


def choose(replies: Iterable[ScriptedReply], scene: Scene) -> ScriptedReply | None:
    """The first reply whose conditions hold."""
    return next((reply for reply in replies if scene.meets(reply.when)), None)


def fill(text: str, scene: Scene) -> str:
    """`text` with its places filled. What is filled in is not looked at again."""

    def value(place: re.Match[str]) -> str:
        name = place[2]
        if name is None:
            return "${"
        name, _, number = name.partition(".")
        if name == "prompt":
            return scene.prompt
        if name == "reason":
            return scene.reason
        if not number:
            return "\n".join(scene.results)
        return scene.results[int(number)] if int(number) < len(scene.results) else ""

    return _PLACE.sub(value, text)


def fill_value(value: object, scene: Scene) -> object:
    """A JSON value with the places in all its strings filled, but for the keys of objects."""
    match value:
        case str():
            return fill(value, scene)
        case dict():
            return {key: fill_value(inner, scene) for key, inner in value.items()}
        case list() | tuple():
            return [fill_value(inner, scene) for inner in value]
        case _:
            return value


def unknown_name(text: str) -> str | None:
    """The first place in `text` that nothing can fill."""
    names = (place[2] for place in _PLACE.finditer(text))
    return next((name for name in names if name is not None and not _NAME.fullmatch(name)), None)


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and bool(message.text.strip())


def _outcome(result: ToolResultPart) -> Outcome:
    # Not every consumer says what became of a call; all say whether it failed.
    return result.outcome or ("error" if result.is_error else "ok")


def _reason(results: Iterable[ToolResultPart]) -> str:
    refusals = (_REFUSED.fullmatch(result.text) for result in results)
    return next((refusal[1] for refusal in refusals if refusal), "")
