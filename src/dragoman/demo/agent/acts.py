"""Prompts that a script cannot answer: those that look at the history or the tools, or name what to do.

Each act is a function from what the user asks to one answer. As with a script, an answer depends on the history alone: an
act that calls tools is asked again when their results are there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TypeAlias

import msgspec

from dragoman.backends.scripted import ScriptedReply, ScriptStep, call, reply, say, think
from dragoman.backends.scripted.scene import Scene
from dragoman.demo.agent.casting import arguments_for, consumers, named
from dragoman.demo.agent.demands import json_texts
from dragoman.demo.agent.eyes import stripes
from dragoman.demo.agent.prompt import TRANSCRIPT
from dragoman.lm import (
    DataPart,
    JsonObject,
    Message,
    Request,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
)
from dragoman.lm.gfm import code, escape, fence
from dragoman.lm.json import decode
from dragoman.loop.round import DENIED_UNASKED

__all__ = ["account", "count_of_wishes", "excerpt", "is_about_itself", "literal", "reply_to", "words_of"]

# A page that takes longer is not worth a demonstration.
_FETCH_SECONDS = 10
# Of what was said before, as much as answers the question: the last of it.
_MAX_QUOTE = 2_000
# Counting: at most so many numbers, and when it is to be slow so many words a second.
_MAX_COUNT = 1_000
_SLOW_PACE = 2.0
# How much of a tool's result is quoted: enough to show that it arrived.
_EXCERPT_LINES = 6
_EXCERPT_CHARACTERS = 400

_TOOL = re.compile(r"\b(?:use|call) (?:the |my )?tool [`\"“]?([\w.-]*\w)", re.IGNORECASE)
_RUN = re.compile(r"\brun (?:the (?:shell )?command )?`([^`\n]+)`", re.IGNORECASE)
_WRITE = re.compile(r"\bwrite `([^`\n]+)` (?:in)?to `([^`\n]+)`", re.IGNORECASE)
_DELETE = re.compile(r"\bdelete (?:the file )?`([^`\n]+)`", re.IGNORECASE)
_FETCH = re.compile(r"\bfetch `(https?://[^`\s]+)`", re.IGNORECASE)
_COLOURS = re.compile(r"\bcolou?rs?\b", re.IGNORECASE)
_TOOLS = re.compile(r"\b(?:which|what) tools\b", re.IGNORECASE)
_COUNT = re.compile(r"\bcount (?:slowly )?(?:from (\d{1,6}) )?(?:up )?to (\d{1,6})\b", re.IGNORECASE)
_SLOWLY = re.compile(r"\bslow", re.IGNORECASE)
_BEFORE = re.compile(r"\bwhat did i say\b|\bwhat was said\b|\bdo you remember\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cue:
    """The input of an act."""

    request: Request
    scene: Scene
    problems: tuple[str, ...] = ()

    @property
    def offered(self) -> tuple[ToolDefinition, ...]:
        return self.request.options.tools

    @property
    def prompt(self) -> Message:
        """The message that is being answered."""
        return next(message for message in reversed(self.request.messages) if _is_users(message))

    @property
    def earlier(self) -> tuple[Message, ...]:
        """The messages before the prompt."""
        messages = self.request.messages
        last = max(index for index, message in enumerate(messages) if message is self.prompt)
        return messages[:last]


DemoAct: TypeAlias = Callable[[Cue], ScriptedReply]


def words_of(request: Request) -> str:
    """The text of the user's last message."""
    return Scene.of(request).prompt


def reply_to(request: Request, problems: tuple[str, ...] = ()) -> ScriptedReply | None:
    """The answer of the act that is asked for; None if the prompt asks for none."""
    scene = Scene.of(request)
    cue = Cue(request, scene, problems)
    pictures = [part for part in cue.prompt.content if isinstance(part, DataPart)]
    words = cue.prompt.text
    if pictures:
        return _see(pictures, words)
    if _TOOLS.search(words):
        return _tools(cue)
    if _BEFORE.search(words):
        return _remember(cue)
    if numbers := _COUNT.search(words):
        return _count(numbers, slowly=_SLOWLY.search(words) is not None)
    return _in_turn(cue, tuple(act for _, act in sorted(_asked_for(words), key=itemgetter(0))))


def count_of_wishes(words: str) -> int:
    """How many acts that call tools a prompt asks for."""
    return len([*_asked_for(words)])


def is_about_itself(words: str) -> bool:
    """Whether a prompt is a question about the agent or the conversation."""
    return (_TOOLS.search(words) or _BEFORE.search(words)) is not None


def _is_users(message: Message) -> bool:
    return message.role == "user" and not message.results


def _text_step(text: str) -> ScriptStep:
    """A step that says `text` literally: placeholders in it are the user's own text."""
    return say(text.replace("${", "$${"))


def _as_it_stands(value: JsonObject) -> JsonObject:
    return {name: literal(inner) for name, inner in value.items()}


def literal(value: object) -> object:
    """A value whose strings have no places that the script would fill."""
    match value:
        case str():
            return value.replace("${", "$${")
        case dict():
            return _as_it_stands(value)
        case list():
            return [literal(inner) for inner in value]
        case _:
            return value


# Looking.


def _tools(cue: Cue) -> ScriptedReply:
    lines = [f"- {code(tool.name)}: {escape(tool.description.partition('.')[0])}" for tool in cue.offered]
    theirs = len(consumers(cue.offered))
    lines += [f"- {escape(problem)}" for problem in cue.problems]
    return reply(
        _text_step("\n".join([f"I have {len(cue.offered)} tools, {theirs} of them yours:", "", *lines, ""]))
    )


def _remember(cue: Cue) -> ScriptedReply:
    own = [message.text for message in cue.earlier if _is_users(message) and message.text]
    transcripts = [
        message.text for message in cue.earlier if message.role == "system" and TRANSCRIPT in message.text
    ]
    lines = [f"- {code(_quoted(words))}" for words in own]
    pieces = [f"You said to me:\n\n{chr(10).join(lines)}\n"] if own else []
    pieces += [f"Before I joined, I was told:\n\n{fence(text[-_MAX_QUOTE:])}\n" for text in transcripts]
    return reply(_text_step("\n".join(pieces) or "You have said nothing before.\n"))


def _see(pictures: list[DataPart], words: str) -> ScriptedReply:
    if _COLOURS.search(words) and (seen := stripes(pictures[-1].data)):
        return reply(_text_step(f"{', '.join(seen)}\n"))
    lines = [f"- {code(picture.mime_type)}, {len(picture.data):,} bytes" for picture in pictures]
    return reply(_text_step("\n".join([f"You sent {len(pictures)}:", "", *lines, ""])))


def _count(numbers: re.Match[str], *, slowly: bool) -> ScriptedReply:
    first, last = int(numbers[1] or 1), int(numbers[2])
    counted = range(first, min(last, first + _MAX_COUNT - 1) + 1)
    return reply(say(", ".join(map(str, counted)) + ".\n", pace=_SLOW_PACE if slowly else None))


def _quoted(text: str) -> str:
    """A text on one line, shortened if it is long."""
    return " ".join(text.split())[:_MAX_QUOTE]


# Calling.


def _one_call(line: str, cue: Cue) -> ScriptStep:
    name, _, given = line.partition(" ")
    tool = named(name, cue.offered)
    if tool is None:
        raise ValueError(f"There is no tool {code(name)}. Ask which tools I have.")
    if not given.strip():
        return call(tool.name, _as_it_stands(arguments_for(tool, cue.scene.prompt, {})))
    try:
        arguments = decode(given)
    except msgspec.DecodeError as error:
        raise ValueError(f"The arguments of {code(name)} are no JSON: {escape(str(error))}.") from error
    if not isinstance(arguments, dict):
        raise ValueError(f"The arguments of {code(name)} are no object: they have names.")  # noqa: TRY004 - the message is shown to a person
    return call(tool.name, _as_it_stands(arguments))


# Being asked in words.


def _asked_for(words: str) -> Iterator[tuple[int, DemoAct]]:
    """The acts that a prompt asks for, each with its position in the prompt."""
    for where, command in _commands(words):
        arguments: JsonObject = {"command": command}
        yield where, partial(_own_action, tool="run_command", arguments=arguments, first=_ON_RUNNING)
    if (change := _WRITE.search(words)) is not None:
        arguments = {"path": change[2], "content": f"{change[1]}\n"}
        yield change.start(), partial(_own_action, tool="write_file", arguments=arguments, first=_ON_WRITING)
    if (tool := _TOOL.search(words)) is not None:
        given = next(json_texts(words[tool.end() :]), None)
        arguments_text = words[tool.end() :][given.start : given.end] if given is not None else ""
        yield tool.start(), partial(_call_by_name, name=tool[1], given=arguments_text)


def _commands(words: str) -> Iterator[tuple[int, str]]:
    """The commands that a prompt names, and those that do what it asks for."""
    if (command := _RUN.search(words)) is not None:
        yield command.start(), command[1]
    if (file := _DELETE.search(words)) is not None:
        yield file.start(), f"rm -- {shlex.quote(file[1])}"
    if (page := _FETCH.search(words)) is not None:
        yield page.start(), f"curl -sS -m {_FETCH_SECONDS} {shlex.quote(page[1])}"


def _in_turn(cue: Cue, wishes: Sequence[DemoAct]) -> ScriptedReply | None:
    """Perform the acts in order, with a report after each. After a refusal no other act begins."""
    begun = cue.scene.round
    if "denied" in cue.scene.outcomes and begun < len(wishes):
        return None
    steps: list[ScriptStep] = []
    for number, round_ in ((begun - 1, 1), (begun, 0)):
        if 0 <= number < len(wishes):
            steps += wishes[number](replace(cue, scene=replace(cue.scene, round=round_))).steps
    return reply(*steps) if steps else None


def _call_by_name(cue: Cue, name: str, given: str) -> ScriptedReply:
    if "denied" in cue.scene.outcomes:
        # Of that there is another account.
        return reply()
    if cue.scene.round:
        said = excerpt("\n".join(cue.scene.results))
        return reply(_text_step(f"{code(name)} says:\n\n{fence(said)}\n"))
    try:
        return reply(_text_step(f"I call {code(name)}.\n\n"), _one_call(f"{name} {given}", cue))
    except ValueError as error:
        return reply(_text_step(f"{error}\n"))


# What the agent thinks and says first when it is asked in words.
_ON_RUNNING = (
    think("A command can do anything, so the person sees it first and decides."),
    say("With your permission.\n\n"),
)
_ON_WRITING = (
    think("The person sees the difference before it is made."),
    say("With your permission.\n\n"),
)


def _own_action(
    cue: Cue, tool: str, arguments: JsonObject, first: tuple[ScriptStep, ...] = ()
) -> ScriptedReply:
    if cue.scene.round:
        return reply(_text_step(_results(cue)))
    if named(tool, cue.offered) is None:
        return reply(_text_step("In this mode I do nothing by myself.\n"))
    return reply(*first, call(tool, _as_it_stands(arguments)))


def _results(cue: Cue) -> str:
    results = [result for message in cue.request.messages[-1:] for result in message.results]
    return "\n".join(f"{result.outcome}: {result.text}" for result in results) + "\n"


def excerpt(text: str) -> str:
    """The beginning of a text, and how much more there is."""
    lines = text.splitlines()
    beginning = "\n".join(lines[:_EXCERPT_LINES])
    if len(beginning) > _EXCERPT_CHARACTERS:
        return f"{beginning[:_EXCERPT_CHARACTERS]}…"
    more = len(lines) - _EXCERPT_LINES
    return f"{beginning}\n… and {more} more {'line' if more == 1 else 'lines'}" if more > 0 else text


# Being refused.


def account(request: Request) -> ScriptedReply:
    """What was done and what was not, after the user denied a call: each call by its own outcome."""
    scene = Scene.of(request)
    calls = next(message.calls for message in reversed(request.messages) if message.role == "assistant")
    outcomes = {result.call_id: result for message in request.messages[-1:] for result in message.results}
    accounts = [_account_of(made, outcomes[made.call_id]) for made in calls if made.call_id in outcomes]
    unasked = next((text for result in outcomes.values() if (text := _refused_unasked(result))), None)
    if unasked is not None:
        # The result of the call has all of it.
        refused, said = "This was refused", f" {escape(unasked.partition('. ')[0].removesuffix('.'))}."
    else:
        refused, said = "You refused", f" You said: *{escape(scene.reason)}*" if scene.reason else ""
    if len(accounts) == 1:
        return reply(_text_step(f"{refused}. {accounts[0]} I will not try it another way.{said}\n\n"))
    lines = "\n".join(f"- {line}" for line in accounts)
    return reply(_text_step(f"{refused}, and I keep to that.{said}\n\n{lines}\n\n"))


def _refused_unasked(result: ToolResultPart) -> str | None:
    """Why a call was refused, where no person did: by a rule, or by a setting."""
    opening = DENIED_UNASKED.format(reason="")
    is_unasked = result.outcome == "denied" and result.text.startswith(opening)
    return result.text.removeprefix(opening) if is_unasked else None


def _account_of(made: ToolCallPart, result: ToolResultPart) -> str:
    match made:
        case ToolCallPart(name="run_command", input={"command": str(what)}):
            do, did = "run", "ran"
        case ToolCallPart(name="write_file", input={"path": str(what)}):
            do, did = "write", "wrote"
        case _:
            do, did, what = "call", "called", made.name.partition("__")[2] or made.name
    match result.outcome:
        case "ok":
            return f"I {did} {code(what)}."
        case "denied":
            return f"I did not {do} {code(what)}."
        case _:
            return f"I tried to {do} {code(what)}, and it did not work."
