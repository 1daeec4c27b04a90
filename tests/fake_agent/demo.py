"""The demo agent with prompts for tests: `!NAME`, and what follows it. A process of its own, or a function.

!history                every message so far
!call NAME [JSON]       call this tool; more lines of it: all at once; after a line `!then`: another round
!run COMMAND            run a command (permission of the kind execute)
!write PATH TEXT        write a file (permission of the kind edit)
!slow [WORDS]           ten words a second, a minute by default
!hang                   nothing more, until somebody cancels
!flood [N]              N updates, as fast as they are read
!loop                   calls without end: max_turn_requests
!refuse                 the stop reason refusal
!error [TEXT]           a JSON-RPC error to session/prompt
!crash [STATUS]         the process ends in mid-turn
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from dragoman.backends.scripted import ScriptedReply, ScriptStep, act, call, fail, forever, reply, say, wait
from dragoman.backends.scripted.scene import Scene
from dragoman.demo.agent import serve_stdio
from dragoman.demo.agent.acts import Cue, _one_call, _own_action, _quoted, _results, _said
from dragoman.interruptible import run_interruptible
from dragoman.lm import Message, Request
from dragoman.lm.gfm import code

__all__ = ["COMMAND", "reply_to"]

COMMAND = (sys.executable, __file__)

_COMMAND = re.compile(r"!(\w+)[ \t]*(.*)", re.DOTALL)
# A flood that has to be remembered as one answer.
_MAX_FLOOD = 200_000
_DEFAULT_FLOOD = 1_000
# Ten words a second for a minute, whatever the pace of the session is.
_SLOW_WORDS = 600
_SLOW_PAUSE = 0.1
_CRASH_STATUS = 70

_Act: TypeAlias = Callable[[Cue, str], ScriptedReply]


def reply_to(request: Request) -> ScriptedReply | None:
    """The answer to a prompt for tests; None if it is another."""
    # Without words of their own, tools are called with "hello".
    cue = Cue(request, replace(Scene.of(request), prompt=""))
    command = _COMMAND.fullmatch(cue.prompt.text.strip())
    if command is None or command[1] not in _ACTS:
        return None
    return _ACTS[command[1]](cue, command[2].strip())


def _history(cue: Cue, _rest: str) -> ScriptedReply:
    lines = [f"- {message.role}: {code(_shown(message))}" for message in cue.earlier]
    return reply(_said("\n".join([f"The history has {len(lines)} messages:", "", *lines, ""])))


def _shown(message: Message) -> str:
    pieces = [
        message.text,
        *(f"[called {made.name}]" for made in message.calls),
        *(f"[result: {result.text}]" for result in message.results),
    ]
    return _quoted(" ".join(piece for piece in pieces if piece)) or "nothing"


def _call(cue: Cue, rest: str) -> ScriptedReply:
    """`!call NAME JSON`, one a line, all at once; after a line `!then`, another round of them."""
    rounds = re.split(r"^!then\s*$", rest, flags=re.MULTILINE)
    if cue.scene.round >= len(rounds):
        return reply(_said(_results(cue)))
    lines = [line.removeprefix("!call").strip() for line in rounds[cue.scene.round].splitlines()]
    try:
        return reply(*(_one_call(line, cue) for line in lines if line))
    except ValueError as error:
        return reply(_said(f"{error}\n"))


def _run(cue: Cue, rest: str) -> ScriptedReply:
    return _own_action(cue, "run_command", {"command": rest or "echo hello"})


def _write(cue: Cue, rest: str) -> ScriptedReply:
    path, _, content = rest.partition(" ")
    return _own_action(cue, "write_file", {"path": path or "demo.txt", "content": f"{content or 'hello'}\n"})


def _flood(_cue: Cue, rest: str) -> ScriptedReply:
    wanted = int(rest) if rest.isdecimal() else _DEFAULT_FLOOD
    return reply(_said(" ".join(map(str, range(1, min(wanted, _MAX_FLOOD) + 1)))))


def _slow(_cue: Cue, rest: str) -> ScriptedReply:
    words = int(rest) if rest.isdecimal() else _SLOW_WORDS
    return reply(*_dripping(min(words, _MAX_FLOOD)))


def _dripping(words: int) -> Iterator[ScriptStep]:
    for number in range(1, words + 1):
        yield say(f"{number} ")
        yield act(lambda: asyncio.sleep(_SLOW_PAUSE))


def _crash(_cue: Cue, rest: str) -> ScriptedReply:
    status = int(rest) if rest.isdecimal() else _CRASH_STATUS
    # What was said is on its way before the process goes: an agent that crashes has often said something.
    return reply(_said("I crash now.\n"), wait(0), act(lambda: os._exit(status)))


def _error(_cue: Cue, rest: str) -> ScriptedReply:
    return reply(
        fail(
            "internal",
            (rest or "The agent was asked to fail.").replace("${", "$${"),
            hint="Ask for something else.",
        )
    )


def _loop(_cue: Cue, _rest: str) -> ScriptedReply:
    return reply(call("@any"))


def _refuse(_cue: Cue, _rest: str) -> ScriptedReply:
    return reply(fail("blocked", "The demo agent refuses, because it was asked to."))


def _hang(_cue: Cue, _rest: str) -> ScriptedReply:
    return reply(say("I wait until you cancel. "), forever())


_ACTS: dict[str, _Act] = {
    "history": _history,
    "call": _call,
    "run": _run,
    "write": _write,
    "slow": _slow,
    "hang": _hang,
    "flood": _flood,
    "loop": _loop,
    "refuse": _refuse,
    "error": _error,
    "crash": _crash,
}


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--sessions", type=Path, required=True)
    parser.add_argument("--pace", default="instant")
    given = parser.parse_args()
    run_interruptible(lambda: serve_stdio(given.sessions, pace=given.pace, prompts=reply_to))


if __name__ == "__main__":
    main()
