"""The words by which a prompt says what the model does.

Each pair of double brackets is one reply of the model; in it, actions with semicolons between. A reply with calls is
followed by the next when their results are there.

    [[say Looking.; call look_up word=one]] [[say Found: {results}]]

    say TEXT            {results}, {pictures}, {stripes} and {turn} stand for what the model was given
    call PATTERN K=V    a tool found by a regular expression among those offered; values are JSON where they can be
    run COMMAND         the agent's own tool for the shell
    write FILE TEXT     the agent's own tool for files
    wait GATE           the stream stands still until the gate is opened
    fail STATUS         an error

The newest of the user's messages that has a script counts, and in it the last row of brackets on one line: what is
before may be the transcript of another session. What `dragoman doctor` asks for is understood without brackets. Whoever else asks
without a script, or without tools (for a title), gets "Noted."
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterator

from dragoman.cli.agent_probe.examine import FIRST, TALK
from dragoman.cli.agent_probe.stripes import QUESTION
from dragoman.cli.agent_probe.trials import OPENING
from dragoman.demo.agent.eyes import stripes
from model_server.asked import Ask, Call, Gate, Reply, Tool
from model_server.builtin import run, write

__all__ = ["has_script", "play", "reply_to"]

_VERBS = ("say", "call", "run", "write", "wait", "fail")
_BLOCK = re.compile(rf"\[\[((?:{'|'.join(_VERBS)})\b.*?)\]\]", re.DOTALL)
# On one line: Qwen joins a prompt that got no answer with the next one, a line for each.
_ROW = re.compile(rf"(?:{_BLOCK.pattern} *)+", re.DOTALL)
_ASIDE = Reply(("Noted.",))


def play(*replies: str) -> str:
    """A prompt that has the model reply so."""
    return " ".join(f"[[{reply}]]" for reply in replies)


# In words that a model would understand, and what it would do.
_UNDERSTOOD = (
    (re.compile(re.escape(FIRST[1])), "say Hello.; call dragoman_check$ word=ping"),
    (re.compile(r"Run the shell command `([^`]+)`"), r"run \1"),
    (re.compile(r"Write `([^`]+)` into `([^`]+)`"), r"write \2 \1"),
    (re.compile(r"Delete the file `([^`]+)`"), r"run rm \1"),
    (re.compile(r"Fetch `([^`]+)`"), r"run curl -sS \1"),
)


def _understood(text: str) -> list[str]:
    """What `dragoman doctor` asks for, as a script: one action in each reply."""
    if QUESTION in text:
        return [play("say {stripes}")]
    if TALK in text:
        return [play("say One. Two. Three.; wait talk; say Five hundred.")]
    if OPENING not in text:
        return []
    asked = text[text.rindex(OPENING) :]
    replies = [match.expand(form) for words, form in _UNDERSTOOD if (match := words.search(asked))]
    return [play(*replies, "say Done.")]


def has_script(text: str) -> bool:
    return bool(_rows(text))


def reply_to(ask: Ask) -> Reply:
    rows = _rows(ask.text)
    if not rows or not ask.tools:
        return _ASIDE
    replies = [match[1] for match in _BLOCK.finditer(rows[-1])]
    if OPENING in ask.text:
        # As a model does it: what it has no tool for is passed over.
        replies = [each for each in replies if _is_possible(each, ask.tools)]
    if ask.rounds >= len(replies):
        return Reply(("The script is over.",))
    return _replied(replies[ask.rounds], ask)


def _rows(text: str) -> list[str]:
    """The scripts in a text, in order."""
    written = [match[0] for match in _ROW.finditer(text)]
    return written or _understood(text)


def _replied(words: str, ask: Ask) -> Reply:
    said: list[str | Gate] = []
    calls: list[Call] = []
    for action in map(str.strip, words.split(";")):
        verb, _, rest = action.partition(" ")
        match verb:
            case "say":
                said.append(_filled(rest, ask))
            case "wait":
                said.append(Gate(rest))
            case "fail":
                return Reply(status=int(rest))
            case "call" | "run" | "write":
                id_ = f"call_{ask.rounds}_{len(calls)}_{secrets.token_hex(4)}"
                call = _call(verb, rest, id_, ask.tools)
                if isinstance(call, Call):
                    calls.append(call)
                else:
                    said.append(call)
            case _:
                said.append(f"There is no {verb!r} in a script.")
    return Reply(tuple(said), tuple(calls))


def _is_possible(action: str, tools: tuple[Tool, ...]) -> bool:
    verb, _, rest = action.partition(" ")
    return verb not in ("run", "write") or isinstance(_call(verb, rest, "", tools), Call)


def _filled(text: str, ask: Ask) -> str:
    values = {
        "results": " | ".join(ask.results.values()),
        "pictures": str(ask.pictures),
        "turn": str(ask.turn),
        "stripes": ", ".join(_colours(ask.body)) or "I see no picture.",
    }
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _colours(body: object) -> tuple[str, ...]:
    """Of the last picture with stripes in a request."""
    match body:
        case {"type": "base64", "data": str(data)}:
            return _read(data)
        case str() if body.startswith("data:image/"):
            return _read(body.partition(",")[2])
        case dict() | list():
            inner = body.values() if isinstance(body, dict) else body
            return next(filter(None, map(_colours, reversed([*inner]))), ())
    return ()


def _read(data: str) -> tuple[str, ...]:
    return stripes(base64.b64decode(data))


def _call(verb: str, rest: str, id_: str, tools: tuple[Tool, ...]) -> Call | str:
    first, _, more = rest.partition(" ")
    match verb:
        case "call":
            found = sorted(
                (tool for tool in tools if re.search(first, tool.full_name)), key=lambda each: len(each.name)
            )
            filled = (found[0], dict(_arguments(more))) if found else None
        case "run":
            filled = run(rest, tools)
        case _:
            filled = write(first, more, tools)
    if filled is None:
        return f"No tool to {verb} {first}. Offered: {', '.join(tool.full_name for tool in tools)}."
    return Call(id_, *filled)


def _arguments(words: str) -> Iterator[tuple[str, object]]:
    for word in words.split():
        name, _, value = word.partition("=")
        try:
            yield name, json.loads(value)
        except ValueError:
            yield name, value
