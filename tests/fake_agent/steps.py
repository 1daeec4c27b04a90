"""What the fake agent can be told to do: the words between a test and the process.

A prompt whose last block is a JSON array of steps is carried out step by step; any other is echoed. A step is an array
that begins with its name (`agent.py` has one method for each):

    say TEXT, think TEXT, update {…}      tell the client something
    halves TEXT…                          chunks of text as they are, lone surrogates included
    raw BASE64, long SIZE                 bytes on standard output
    stderr LINES, flood COUNT             much of it
    repeat COUNT SIZE                     text of that size, so many times
    tools                                 say which tools are offered
    announce ID TOOL                      a `tool_call` of one of the consumer's tools, as `pending`
    call TOOL {…}                         call it, and say what came back
    ask {TOOL CALL} [KINDS] [quiet]       ask for permission, and say the outcome, or not
    read PATH {line, limit}, write PATH TEXT   a file through the client; note the answer, and say what became of it
    put PATH TEXT, put PATH               write a file itself; remove it
    run WORD…                             run a program as itself, and say what it prints
    terminal {…}                          create a terminal, and say its id
    term METHOD                           `terminal/METHOD` of the last one; note the answer
    all [STEPS], row [STEPS]              at once; one after the other
    gate NAME, note NAME                  until the test opens that gate; something for the test to wait for
    until NAME STEP                       the step, given up when the gate is opened
    after [STEPS]                         when the turn has ended
    hang, deaf, slow_stop NAME            wait to be cancelled; ignore that; heed it when the gate is opened
    stop REASON, error CODE TEXT          end the turn so
    exit CODE, close                      end the process; close its output, and live on
    again [STEPS]                         carry them out at the next prompt, whatever that says
    doom                                  end the process when the next prompt comes
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

__all__ = ["COMMAND", "open_gate", "prompt", "raw"]

COMMAND = (sys.executable, str(Path(__file__).with_name("agent.py")))


def prompt(*steps: object) -> str:
    return json.dumps(steps)


def raw(data: bytes) -> list[str]:
    return ["raw", base64.b64encode(data).decode()]


def open_gate(folder: Path, name: str) -> None:
    (folder / name).touch()
